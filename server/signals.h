/* signals: the effects of signals on the daemon.
 *
 *     signals_open -> signals_expect -> signals_wait -> (signals_delay) -> signals_close
 *
 *     SIGTERM, SIGXCPU          drain
 *     SIGHUP                    reloads (reloads.h). A SIGHUP during the start reloads after it. While the daemon
 *                               drains, SIGHUP has no effect. SIGHUP also reloads under nohup, which starts the
 *                               daemon with SIGHUP ignored
 *     SIGINT                    drains without a delay. While the daemon drains, SIGINT ends it at once
 *     SIGUSR1, SIGUSR2          write a log line
 *     SIGPIPE, SIGXFSZ          are ignored, so that the write fails with EPIPE or EFBIG
 *     SIGQUIT and all others    the system's default action. For SIGQUIT it is a core dump
 *
 * While the daemon starts, the signals that drain end it at once. */
#ifndef SERVER_SIGNALS_H
#define SERVER_SIGNALS_H

#include "config/config.h"

struct reloads;
struct signals;

/* Blocks signals for the calling thread and for the threads that it starts later. Starts a thread that waits for
 * signals. The process's first thread must call this function before other threads exist, and before libraries are
 * loaded. So a signal ends the process even if the constructor of a library hangs. After success the caller must call
 * signals_close. */
int signals_open(struct signals **signals, struct error *error);

/* After this call, the first signal that drains asks the daemon to drain. Until this signal, SIGHUP calls
 * reloads_request. `reloads` must stay open until signals_wait has returned. */
void signals_expect(struct signals *signals, struct reloads *reloads);

/* Waits until a signal asks the daemon to drain. Returns the number of this signal. */
int signals_wait(struct signals *signals);

/* Waits `milliseconds` before the daemon drains, or until SIGINT arrives. Does not wait if the signal to drain was
 * SIGINT. */
void signals_delay(struct signals *signals, int64_t milliseconds);

void signals_close(struct signals *signals);

#endif
