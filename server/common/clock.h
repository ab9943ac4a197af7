/* clock: the monotonic clock, for durations and deadlines. */
#ifndef SERVER_CLOCK_H
#define SERVER_CLOCK_H

#include <stdint.h>

/* The time of CLOCK_MONOTONIC in nanoseconds. Any thread may call clock_ns. A test that needs another clock defines
 * this function itself. */
int64_t clock_ns(void);

#endif
