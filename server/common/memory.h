/* memory: the bytes of memory that this process may have. */
#ifndef SERVER_MEMORY_H
#define SERVER_MEMORY_H

#include <stdint.h>

/* The machine's memory, or the limit of a control group if that is less. `root` is put before /proc and /sys. It is "",
 * except in tests. */
int64_t memory_bytes(const char *root);

#endif
