/* the_daemon: the daemon that all tests of a program share. The group's setup starts it. */
#ifndef TESTS_HTTP_THE_DAEMON_H
#define TESTS_HTTP_THE_DAEMON_H

#include "tests/http/daemon.h"

extern struct daemon *the_daemon;

/* Setup of a group: starts it without arguments, so it serves the stand-ins of the built-in models (daemon_start).
 * Programs that need arguments have a setup of their own. */
int the_daemon_start(void **state);

/* Setup of a group: likewise, with the built-in models themselves. */
int the_daemon_start_built_in(void **state);

/* Teardown of a group. */
int the_daemon_stop(void **state);

#endif
