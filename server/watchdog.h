/* watchdog: tells the service manager that the daemon makes progress. If the manager hears nothing for a time
 * (WatchdogSec= of a systemd unit, WATCHDOG_USEC), it restarts the daemon. The daemon reports only while each event
 * loop makes turns, and each lane ends its batches. A batch that takes longer than the time counts as stuck. */
#ifndef SERVER_WATCHDOG_H
#define SERVER_WATCHDOG_H

#include "server/notifier.h"

struct batcher;
struct http;
struct watchdog;

/* Starts a thread that looks four times in each period of the watchdog. If the service manager wants no watchdog, sets
 * *watchdog to NULL. After success the caller must call watchdog_close, before it closes `http` and `batcher`. */
int watchdog_open(const struct notifier *notifier, struct http *http, struct batcher *batcher,
                  struct watchdog **watchdog, struct error *error);
void watchdog_close(struct watchdog *watchdog); /* NULL is harmless */

#endif
