/* daemon: the process that serves. It opens everything in order, waits for a signal, and closes in reverse order. */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

#include "config/config.h"

/* Loads the models, serves until a signal asks for the end (signals.h), and answers the accepted requests. Returns the
 * exit status; an error has been logged. A signal while the models load, or SIGINT while it drains, ends the process at
 * once with 128 + the signal's number. A repeated SIGTERM changes nothing. To be called before other threads exist,
 * because it blocks signals for all of them. */
int daemon_serve(const struct settings *settings);

/* Loads the models, runs a first batch of each, and ends. No port is opened. Returns the exit status; the outcome has
 * been logged. Signals act as in daemon_serve. */
int daemon_check(const struct settings *settings);

/* Prints the plan of the model in the folder `path` to stdout. NULL: the first model of the settings, or the built-in
 * one. Returns the exit status. */
int daemon_explain(const struct settings *settings, const char *path);

#endif
