/* the_daemon: the daemon that all tests of a program share. The group's setup starts it. */
#ifndef TESTS_HTTP_THE_DAEMON_H
#define TESTS_HTTP_THE_DAEMON_H

#include "tests/http/daemon.h"

extern struct daemon *the_daemon;

/* Setup of a group: starts it without arguments, so it serves the built-in models. Programs that need arguments have a
 * setup of their own. */
int the_daemon_start(void **state);

/* Teardown of a group. */
int the_daemon_stop(void **state);

#endif
