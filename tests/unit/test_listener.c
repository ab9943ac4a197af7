/* The listener of a process that has no descriptors left. */
#include "server/http/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static _Atomic int taken;

static void accepted(void *context, int fd, const struct sockaddr *address, socklen_t length)
{
    (void)context;
    (void)address;
    (void)length;
    close(fd);
    atomic_fetch_add(&taken, 1);
}

static struct listener *open_listener(void)
{
    struct listener_options options = {.host = "127.0.0.1", .port = 0, .accepted = accepted};
    struct listener *listener = NULL;
    struct error error;
    atomic_store(&taken, 0);
    assert_int_equal(listener_open(&options, &listener, &error), 0);
    return listener;
}

static void connect_to(int client, const struct listener *listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)listener_port(listener)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
}

/* No new descriptor can be had; returns the limit as it was. */
static struct rlimit exhaust(void)
{
    struct rlimit limit, none;
    int lowest = dup(STDIN_FILENO);
    assert_true(lowest >= 0);
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)lowest, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(dup(STDIN_FILENO), -1);
    return limit;
}

static void test_it_closes_with_a_client_that_cannot_be_taken(void **state)
{
    (void)state;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    struct listener *listener = open_listener();
    struct rlimit limit = exhaust();
    connect_to(client, listener);
    listener_close(listener);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(atomic_load(&taken), 0);
    close(client);
}

static void test_it_takes_clients_once_there_are_descriptors(void **state)
{
    (void)state;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    struct listener *listener = open_listener();
    struct rlimit limit = exhaust();
    connect_to(client, listener);
    usleep(50000); /* it has likely failed to take it by now */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (atomic_load(&taken) == 0)
        usleep(1000);
    listener_close(listener);
    close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_closes_with_a_client_that_cannot_be_taken),
        cmocka_unit_test(test_it_takes_clients_once_there_are_descriptors),
    };
    return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
