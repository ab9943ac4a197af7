/* memory: how much memory this process may use. */
#ifndef SERVER_MEMORY_H
#define SERVER_MEMORY_H

#include <stdint.h>

/* Returns the machine's memory in bytes, or the limit of a control group if this is less. `root` precedes the paths
 * /proc and /sys. It is "" except in tests. */
int64_t memory_bytes(const char *root);

/* The resident bytes of this process. 0 if /proc cannot be read. */
int64_t memory_resident_bytes(void);

#endif
