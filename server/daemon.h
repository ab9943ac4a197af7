/* daemon: the process that serves. It opens all parts in order, waits for a signal, and closes the parts in reverse
 * order. */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

#include "config/config.h"

/* Loads the models, serves until a signal asks it to stop (signals.h), and answers the accepted requests. Returns the
 * exit status. The function logs errors itself. Such a signal during loading, or SIGINT while the daemon drains, ends
 * the process at once, with the status 128 + the number of the signal. A repeated SIGTERM changes nothing. Call this
 * function before other threads exist, because it blocks signals for all threads. SIGHUP reads the settings again from
 * `source`. */
int daemon_serve(const struct settings *settings, const struct settings_source *source);

/* Loads the models, and runs a first batch of each model. Opens no port. Returns the exit status. The function logs the
 * outcome itself. Signals have the same effect as in daemon_serve. */
int daemon_check(const struct settings *settings, const struct settings_source *source);

/* Prints the plan of the model in the folder `path` to stdout. If `path` is NULL, prints the plan of the first model of
 * the settings, or of the first built-in model if the settings name no model. Returns the exit status. */
int daemon_explain(const struct settings *settings, const char *path);

#endif
