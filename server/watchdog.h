/* watchdog: tells the service manager that the daemon makes progress. If the manager receives no report for the time of
 * WATCHDOG_USEC (WatchdogSec= of a systemd unit), it restarts the daemon. The daemon reports only while each event loop
 * handles its events, and each lane ends its batches. A batch that takes longer than this time counts as stuck. */
#ifndef SERVER_WATCHDOG_H
#define SERVER_WATCHDOG_H

#include "server/notifier.h"

struct batcher;
struct http;
struct watchdog;

/* Starts a thread that checks the progress four times in the time of WATCHDOG_USEC. If the service manager does not
 * watch this process, sets *watchdog to NULL. After success the caller must call watchdog_close before closing `http`
 * and `batcher`. */
int watchdog_open(const struct notifier *notifier, struct http *http, struct batcher *batcher,
                  struct watchdog **watchdog, struct error *error);
void watchdog_close(struct watchdog *watchdog); /* NULL is harmless */

#endif
