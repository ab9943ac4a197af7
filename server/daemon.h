/* daemon: from settings to a served process, and back to nothing when a signal asks for it. */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

#include "config/config.h"

/* Loads the models, serves until a signal asks for the end (signals.h), answers what was accepted. Returns the exit
 * status; what went wrong was logged. A signal while the models load, or SIGINT while it drains, ends the process at
 * once with 128 + its number; a repeated SIGTERM changes nothing. Call it before other threads exist: it blocks signals
 * for all of them. */
int daemon_serve(const struct settings *settings);

/* Loads the models, runs a first batch of each, and ends. No port is opened. Returns the exit status; the outcome was
 * logged. Signals are as in daemon_serve. */
int daemon_check(const struct settings *settings);

/* Prints the plan of the model in the folder `path` to stdout; NULL: of the first of the settings, or the built-in one.
 * Returns the exit status. */
int daemon_explain(const struct settings *settings, const char *path);

#endif
