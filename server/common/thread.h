/* thread: the message about a thread that cannot be started. */
#ifndef SERVER_COMMON_THREAD_H
#define SERVER_COMMON_THREAD_H

#include "config/config.h"

/* Writes that a thread with the given task, such as "the log", was refused for the reason that pthread_create returned.
 * Returns -1. */
int thread_refused(const char *task, int reason, struct error *error);

#endif
