/* the_daemon: one daemon that all tests of a program share. The setup of the test group starts it. */
#ifndef TESTS_HTTP_THE_DAEMON_H
#define TESTS_HTTP_THE_DAEMON_H

#include "tests/http/daemon.h"

extern struct daemon *the_daemon;

/* Setup of a group: starts the daemon without arguments. The daemon serves the models that daemon_start chooses.
 * Programs that need arguments define their own setup function. */
int the_daemon_start(void **state);

/* Setup of a group: starts the daemon without arguments. The daemon serves the models in its binary. */
int the_daemon_start_built_in(void **state);

/* Teardown of a group. */
int the_daemon_stop(void **state);

#endif
