/* signals: the effects of signals on the daemon.
 *
 *     signals_open -> signals_expect -> signals_wait -> (signals_delay) -> signals_close
 *
 *     SIGTERM, SIGXCPU          drain
 *     SIGHUP                    drains, because the daemon reloads nothing; under nohup it stays ignored
 *     SIGINT                    drains without a delay; while the daemon drains, it ends the process at once
 *     SIGUSR1, SIGUSR2          only a log line
 *     SIGPIPE, SIGXFSZ          ignored: the write fails with EPIPE or EFBIG
 *     SIGQUIT and all others    the system's default: SIGQUIT leaves a core
 *
 * While the daemon starts, the signals that drain end it at once. */
#ifndef SERVER_SIGNALS_H
#define SERVER_SIGNALS_H

#include "config/config.h"

struct signals;

/* Blocks signals for the calling thread and the threads that it starts, and starts a thread that waits for signals. To
 * be called by the process's first thread, before there are others and before libraries are loaded. Then a signal ends
 * the process even if a library's constructor hangs. After success signals_close is owed. */
int signals_open(struct signals **signals, struct error *error);

/* From now on the first signal asks for draining. */
void signals_expect(struct signals *signals);

/* Waits until a signal asks for draining. Returns its number. */
int signals_wait(struct signals *signals);

/* Waits for the time before the draining, or until SIGINT comes. If SIGINT asked for the draining, it does not wait. */
void signals_delay(struct signals *signals, int64_t milliseconds);

void signals_close(struct signals *signals);

#endif
