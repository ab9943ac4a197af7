/* signals: which signals ask the daemon to end, and how it waits for one.
 *
 *     signals_block -> signals_open -> signals_expect -> signals_wait -> signals_close
 *
 * SIGTERM and SIGINT are blocked in every thread but one, which waits for them. */
#ifndef SERVER_SIGNALS_H
#define SERVER_SIGNALS_H

#include "config/config.h"

struct signals;

/* Blocks the signals for the calling thread and all that it starts, and ignores SIGPIPE. */
void signals_block(void);

/* Starts the thread that waits for signals. Until signals_expect a signal ends the process at once. Success:
 * signals_close is owed. */
int signals_open(struct signals **signals, struct error *error);

/* From now on the first signal asks for draining. A later SIGINT ends the process at once, a later SIGTERM does not. */
void signals_expect(struct signals *signals);

int signals_wait(struct signals *signals); /* until a signal asks for draining; returns its number */
void signals_close(struct signals *signals);

#endif
