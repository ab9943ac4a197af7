/* team: OpenMP keeps a team of threads for each thread that enters parallel regions. If libgomp cannot start a thread,
 * it ends the process. So team_start first starts the same number of threads itself, and reports a failure as an
 * error. */
#ifndef ENGINE_CPU_TEAM_H
#define ENGINE_CPU_TEAM_H

#include "config/config.h"

/* Starts a team of `threads` threads for the calling thread, which is one of them. After this, the caller's parallel
 * regions use 1 or `threads` threads. The call is cheap if the team exists already. Returns -1 if the system cannot
 * start the threads, or lacks memory for their stacks. */
int team_start(int threads, struct error *error);

#endif
