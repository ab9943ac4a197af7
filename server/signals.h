/* signals: what each signal does to the daemon.
 *
 *     signals_open -> signals_expect -> signals_wait -> (signals_delay) -> signals_close
 *
 *     SIGTERM, SIGHUP, SIGXCPU  drain. SIGHUP too, for there is nothing to load again; under nohup it stays ignored
 *     SIGINT                    drains without a delay; again, or after another one of these: ends at once
 *     SIGUSR1, SIGUSR2          nothing but a log line
 *     SIGPIPE, SIGXFSZ          nothing: the write fails with EPIPE or EFBIG
 *     SIGQUIT and all others    what the system does: SIGQUIT leaves a core
 *
 * While the daemon starts, those that drain end it at once. */
#ifndef SERVER_SIGNALS_H
#define SERVER_SIGNALS_H

#include "config/config.h"

struct signals;

/* Blocks signals for the calling thread and all that it starts, and starts a thread that waits for them. For the
 * process's first thread, before others exist and before libraries are loaded: a signal then ends the process even if
 * a library's constructor hangs. Success: signals_close is owed. */
int signals_open(struct signals **signals, struct error *error);

/* From now on the first signal asks for draining. */
void signals_expect(struct signals *signals);

int signals_wait(struct signals *signals); /* until a signal asks for draining; returns its number */

/* Waits that long before the draining, or until SIGINT comes. No time when it was SIGINT that asked. */
void signals_delay(struct signals *signals, int64_t milliseconds);

void signals_close(struct signals *signals);

#endif
