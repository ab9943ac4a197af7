/* memory: how much of it this process may have. */
#ifndef SERVER_MEMORY_H
#define SERVER_MEMORY_H

#include <stdint.h>

/* The machine's, or what its control groups allow where that is less. `root` is before /proc and /sys: "", but for
 * tests. */
int64_t memory_bytes(const char *root);

#endif
