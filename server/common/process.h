/* process: the kernel's information about this process. Any thread may call the functions. */
#ifndef SERVER_COMMON_PROCESS_H
#define SERVER_COMMON_PROCESS_H

#include <stdint.h>

/* A value is 0 if the kernel does not provide it, for example because /proc is not mounted. */
struct process_state {
    double cpu_s; /* CPU time of all threads in seconds, in user mode and in the kernel */
    int64_t resident_bytes, virtual_bytes;
    int64_t threads;
    /* Number of open descriptors, and its soft limit. max_fds is INT64_MAX if there is no limit. */
    int64_t open_fds, max_fds;
};

/* Returns the present state. Takes less than a tenth of a millisecond on Linux 6.2 or later. Older kernels list all
 * open descriptors, which takes longer. */
struct process_state process_state_now(void);

/* Returns the time at which the process started, in seconds since 1970. The time zone of the clock has no influence. 0
 * if unknown. */
double process_started_s(void);

#endif
