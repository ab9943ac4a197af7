/* daemon: from settings to a served process, and back to nothing when a signal asks for it. */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

#include "config/config.h"

/* Loads the models, serves until a signal asks for the end (signals.h), answers what was accepted. Returns the exit
 * status; what went wrong was logged. A signal while the models load, or SIGINT while it drains, ends the process at
 * once with 128 + its number; a repeated SIGTERM changes nothing. Call it before other threads exist: it blocks signals
 * for all of them. */
int daemon_serve(const struct settings *settings);

/* Prints the plan of the model in `folder` to stdout. Returns the exit status. */
int daemon_explain(const struct settings *settings, const char *folder);

#endif
