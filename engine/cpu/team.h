/* team: the threads that OpenMP keeps for each thread that calls it. libgomp ends the process if it cannot start one.
 * So this starts as many threads first, where a failure is an error. */
#ifndef ENGINE_CPU_TEAM_H
#define ENGINE_CPU_TEAM_H

#include "config/config.h"

/* Gives the calling thread a team of `threads`, itself included. Its parallel regions then have 1 or `threads` threads.
 * Cheap if it has that team already. -1: the system has not enough threads, or not enough memory for their stacks. */
int team_start(int threads, struct error *error);

#endif
