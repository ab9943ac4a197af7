/* Tests of the table of connections when libmicrohttpd loses connections: the number of open connections, and the
 * descriptors that the table shuts down. To test the number, a test checks whether the table admits another connection.
 * The descriptors FIRST, SECOND and THIRD are not open. The table does not shut down descriptors of busy
 * connections. */
#include "server/http/connections.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT = 2, FIRST = 1000, SECOND, THIRD };

static struct connections *connections;

static int open_table(void **state)
{
    (void)state;
    struct error error;
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

/* If epoll is full, libmicrohttpd first reports the end of the connection, and then that it did not accept the
 * connection. */
static void a_closed_connection_is_not_lost_again(void **state)
{
    (void)state;
    int64_t closed = admit_busy(FIRST);
    assert_true(admit_busy(SECOND));
    connections_closed(connections, FIRST);
    connections_lost(connections, FIRST, closed);
    assert_true(admit_busy(FIRST));
    assert_false(admit_busy(THIRD));
}

static void a_reused_descriptor_belongs_to_the_later_connection(void **state)
{
    (void)state;
    int64_t lost = connections_admit(connections, FIRST);
    /* libmicrohttpd has closed the descriptor, and the listener has accepted a connection with the same number. */
    assert_true(admit_busy(FIRST));
    connections_lost(connections, FIRST, lost);
    assert_true(admit_busy(SECOND));
    assert_false(admit_busy(THIRD));
    connections_closed(connections, FIRST);
    assert_true(admit_busy(THIRD));
    connections_idle(connections, SECOND); /* the list of idle connections contains only SECOND, which is shut down */
    assert_true(admit_busy(FIRST));
    assert_false(connections_admit(connections, FIRST + LIMIT + 1));
}

static bool is_shut_down(int client)
{
    char byte;
    ssize_t length = recv(client, &byte, 1, MSG_DONTWAIT);
    assert_true(length == 0 || errno == EAGAIN);
    return length == 0;
}

/* Before libmicrohttpd reports that it has started a connection, the number of the connection's descriptor may already
 * belong to another file. */
static void only_descriptors_of_libmicrohttpd_are_shut_down(void **state)
{
    (void)state;
    int pairs[LIMIT + 1][2];
    for (int i = 0; i < LIMIT + 1; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]), 0);
    for (int i = 0; i < LIMIT + 1; i++)
        assert_true(connections_admit(connections, pairs[i][0])); /* the last connection evicts the first one */
    assert_false(is_shut_down(pairs[0][1]));
    connections_started(connections, pairs[0][0]);
    assert_true(is_shut_down(pairs[0][1]));
    connections_started(connections, pairs[1][0]);
    assert_false(is_shut_down(pairs[1][1]));
    connections_closed(connections, pairs[0][0]);
    assert_true(connections_admit(connections, pairs[0][0])); /* shuts down the second connection */
    assert_true(is_shut_down(pairs[1][1]));
    for (int i = 0; i < LIMIT + 1; i++) {
        close(pairs[i][0]);
        close(pairs[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lost_connection_makes_room, open_table, close_table),
        cmocka_unit_test_setup_teardown(a_closed_connection_is_not_lost_again, open_table, close_table),
        cmocka_unit_test_setup_teardown(only_descriptors_of_libmicrohttpd_are_shut_down, open_table, close_table),
        cmocka_unit_test_setup_teardown(a_reused_descriptor_belongs_to_the_later_connection, open_table, close_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
