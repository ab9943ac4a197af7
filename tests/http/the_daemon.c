#include "tests/http/the_daemon.h"

struct daemon *the_daemon;

int the_daemon_start(void **state)
{
    (void)state;
    the_daemon = daemon_start(NULL);
    return 0;
}

int the_daemon_start_built_in(void **state)
{
    (void)state;
    the_daemon = daemon_start_built_in(NULL);
    return 0;
}

int the_daemon_stop(void **state)
{
    (void)state;
    daemon_stop(the_daemon);
    return 0;
}
