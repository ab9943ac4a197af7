/* How many connections the table believes to be open, when libmicrohttpd loses some: seen by who is still admitted. The
 * descriptors are numbers here, never used: each connection is busy, so that none has to go. */
#include "server/http/connections.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LIMIT = 2, FIRST = 1000, SECOND, THIRD };

static struct connections *connections;

static int open_table(void **state)
{
    struct error error;

    (void)state;
    return connections_open(LIMIT, NULL, &connections, &error);
}

static int close_table(void **state)
{
    (void)state;
    connections_close(connections);
    return 0;
}

static int64_t admit_busy(int fd)
{
    int64_t admission = connections_admit(connections, fd);

    if (admission)
        connections_busy(connections, fd);
    return admission;
}

static void a_lost_connection_makes_room(void **state)
{
    (void)state;
    int64_t lost = admit_busy(FIRST);
    assert_true(lost);
    assert_true(admit_busy(SECOND));
    assert_false(admit_busy(THIRD));
    connections_lost(connections, FIRST, lost);
    assert_true(admit_busy(THIRD));
    assert_false(admit_busy(FIRST));
}

/* epoll was full: libmicrohttpd tells of the end before it says that it did not take the connection. */
static void one_that_was_closed_is_not_lost_too(void **state)
{
    (void)state;
    int64_t closed = admit_busy(FIRST);
    assert_true(admit_busy(SECOND));
    connections_closed(connections, FIRST);
    connections_lost(connections, FIRST, closed);
    assert_true(admit_busy(FIRST));
    assert_false(admit_busy(THIRD));
}

static void a_number_that_has_returned_is_the_later_connections(void **state)
{
    (void)state;
    int64_t lost = connections_admit(connections, FIRST);
    assert_true(admit_busy(FIRST)); /* libmicrohttpd has closed it, the listener accepted again */
    connections_lost(connections, FIRST, lost);
    assert_true(admit_busy(SECOND));
    assert_false(admit_busy(THIRD));
    connections_closed(connections, FIRST);
    assert_true(admit_busy(THIRD));
    connections_idle(connections, SECOND); /* the list of the idle is whole: SECOND goes, alone */
    assert_true(admit_busy(FIRST));
    assert_false(connections_admit(connections, FIRST + LIMIT + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lost_connection_makes_room, open_table, close_table),
        cmocka_unit_test_setup_teardown(one_that_was_closed_is_not_lost_too, open_table, close_table),
        cmocka_unit_test_setup_teardown(a_number_that_has_returned_is_the_later_connections, open_table, close_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
