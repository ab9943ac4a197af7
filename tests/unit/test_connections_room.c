/* Tests of connections_make_room: when a memory budget is full, connections of slow clients are shut down, beginning
 * with the client that holds the most bytes. */
#include "server/http/connections.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 6 };

static struct connections *connections;
static int ours[CLIENTS], theirs[CLIENTS];
static struct share shares[CLIENTS];

static bool make_room(struct budget *budget, int64_t bytes)
{
    return connections_make_room(connections, budget, bytes);
}

static struct budget budget = {.limit = 1000, .make_room = make_room}, other = {.limit = 1000};

static void connect_client(int i, struct budget *of, int64_t bytes)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ours[i] = pair[0];
    theirs[i] = pair[1];
    shares[i].budget = of;
    assert_true(share_take(&shares[i], bytes));
    assert_true(connections_admit(connections, ours[i]));
    connections_started(connections, ours[i]);
    connections_set_share(connections, ours[i], &shares[i]);
}

static bool is_broken_off(int i)
{
    char byte;
    return recv(theirs[i], &byte, 1, MSG_DONTWAIT) == 0;
}

static void slow_connections_are_shut_down_to_make_room(void **state)
{
    (void)state;
    struct share newcomer = {.budget = &budget};
    connect_client(0, &budget, 300);
    connect_client(1, &budget, 600);
    connect_client(2, &other, 900);
    assert_false(share_take(&newcomer, 500)); /* no client is slow yet */
    usleep(2100000);
    connections_set_share(connections, ours[0], NULL);
    assert_false(share_take(&newcomer, 800)); /* the slow client holds fewer bytes, so it is not shut down */
    assert_false(is_broken_off(1));
    assert_true(share_take(&newcomer, 500));
    assert_true(is_broken_off(1));
    assert_false(is_broken_off(0));
    assert_false(is_broken_off(2));
    assert_int_equal(shares[1].bytes, 0);
    assert_int_equal(share_end(&shares[1]), 0); /* in the daemon, the connection's event loop calls share_end later */
    assert_int_equal(budget.used, 800);
    assert_false(share_take(&newcomer, 300));
    connections_set_share(connections, ours[0], &shares[0]); /* the client does not count as slow again at once */
    assert_false(share_take(&newcomer, 300));
}

static void the_client_with_the_most_bytes_is_shut_down_first(void **state)
{
    (void)state;
    struct budget full = {.limit = 1000, .make_room = make_room};
    struct share newcomer = {.budget = &full};
    connect_client(3, &full, 200);
    connect_client(4, &full, 450);
    connect_client(5, &full, 350);
    usleep(2100000);
    assert_true(share_take(&newcomer, 400));
    assert_true(is_broken_off(4));
    assert_false(is_broken_off(3));
    assert_false(is_broken_off(5));
    assert_true(share_take(&newcomer, 300));
    assert_true(is_broken_off(5));
    assert_false(is_broken_off(3));
}

/* The limit of connections is the larger one of two numbers: a quarter of the descriptors, and all descriptors but 768.
 * It is at least 1. */
static void few_descriptors_leave_room_for_some_connections(void **state)
{
    (void)state;
    static const struct {
        rlim_t descriptors;
        int64_t connections;
    } cases[] = {{64, 16}, {256, 64}, {1024, 256}, {1100, 332}, {2, 1}};
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rlimit few = {.rlim_cur = cases[i].descriptors, .rlim_max = before.rlim_max};
        struct connections *opened;
        struct error error;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        assert_int_equal(connections_open(10000, NULL, &opened, &error), 0);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(connections_limit(opened), cases[i].connections);
        connections_close(opened);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slow_connections_are_shut_down_to_make_room),
                                       cmocka_unit_test(the_client_with_the_most_bytes_is_shut_down_first),
                                       cmocka_unit_test(few_descriptors_leave_room_for_some_connections)};
    struct error error;
    if (connections_open(10, NULL, &connections, &error) != 0)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < CLIENTS && ours[i]; i++) {
        connections_closed(connections, ours[i]);
        close(ours[i]);
        close(theirs[i]);
    }
    connections_close(connections);
    return failed;
}
