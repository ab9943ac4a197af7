/* team: the threads that OpenMP keeps for each thread that calls it. libgomp ends the process when it cannot start one,
 * so this starts them first, in a way that may fail. */
#ifndef ENGINE_CPU_TEAM_H
#define ENGINE_CPU_TEAM_H

#include "config/config.h"

/* Gives the calling thread a team of `threads`, itself included, for all its parallel regions of 1 or so many threads.
 * Cheap when it has that team. -1: the system gives no such number of threads, or no memory for their stacks. */
int team_start(int threads, struct error *error);

#endif
