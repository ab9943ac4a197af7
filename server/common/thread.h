/* thread: writes the message about a thread that cannot be started. */
#ifndef SERVER_COMMON_THREAD_H
#define SERVER_COMMON_THREAD_H

#include "config/config.h"

/* Writes the message that the system could not start a thread. `task` is the thread's task, such as "the log". `reason`
 * is the value that pthread_create returned. Always returns -1. */
int thread_refused(const char *task, int reason, struct error *error);

#endif
