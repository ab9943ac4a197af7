/* Tests of the listener when the system fails: no descriptor is left, accept4 fails for another reason, or a host has
 * no usable address. This program replaces accept4 and getaddrinfo. */
#define _GNU_SOURCE /* accept4, struct addrinfo */
#include "server/http/listener.h"

#include "server/common/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static _Atomic int taken;
static _Atomic int accept_error; /* error with which accept4 fails, 0: accept4 does not fail */
static _Atomic int64_t accept_failures;
static struct addrinfo *found_addresses; /* addresses that getaddrinfo returns, NULL: 127.0.0.1 */

int accept4(int socket, struct sockaddr *address, socklen_t *length, int flags)
{
    int error = atomic_load(&accept_error);
    if (error == 0)
        return (int)syscall(SYS_accept4, socket, address, length, flags);
    atomic_fetch_add(&accept_failures, 1);
    errno = error;
    return -1;
}

/* Every host has the address 127.0.0.1, unless the test sets found_addresses. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **addresses)
{
    static struct sockaddr_in loopback = {.sin_family = AF_INET};
    static struct addrinfo info = {.ai_family = AF_INET,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_addrlen = sizeof loopback,
                                   .ai_addr = (struct sockaddr *)&loopback};
    (void)host;
    (void)service;
    (void)hints;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *addresses = found_addresses ? found_addresses : &info;
    return 0;
}

void freeaddrinfo(struct addrinfo *addresses)
{
    (void)addresses;
}

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
    struct listener_options options = {.sockets = {.hosts = "127.0.0.1"}, .accepted = accepted};
    struct listener *listener = NULL;
    struct error error;
    atomic_store(&taken, 0);
    assert_int_equal(listener_open(&options, &listener, &error), 0);
    assert_int_equal(listener_start(listener, &error), 0);
    return listener;
}

static void connect_to(int client, const struct listener *listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)listener_sockets(listener)->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
}

/* Lowers the limit of descriptors to the lowest free descriptor, so that no new descriptor is possible. Returns the
 * former limit. */
static struct rlimit exhaust(void)
{
    struct rlimit limit;
    int lowest = dup(STDIN_FILENO);
    assert_true(lowest >= 0);
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)lowest, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(dup(STDIN_FILENO), -1);
    return limit;
}

static void test_closing_does_not_wait_for_an_unaccepted_client(void **state)
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

static void test_clients_are_accepted_once_descriptors_are_free(void **state)
{
    (void)state;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    struct listener *listener = open_listener();
    struct rlimit limit = exhaust();
    connect_to(client, listener);
    usleep(50000); /* by now, the listener has probably failed to accept the connection */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (atomic_load(&taken) == 0)
        usleep(1000);
    listener_close(listener);
    close(client);
}

/* With any error except a lost connection, the listener pauses for 20 ms after each failure. */
static void test_failing_accepts_use_no_cpu(void **state)
{
    (void)state;
    enum { PAUSE_NS = 20000000 };
    int client = socket(AF_INET, SOCK_STREAM, 0);
    struct listener *listener = open_listener();
    int64_t begin = clock_ns();
    atomic_store(&accept_failures, 0);
    atomic_store(&accept_error, EPERM);
    connect_to(client, listener);
    while (atomic_load(&accept_failures) < 5)
        usleep(1000);
    int64_t failures = atomic_load(&accept_failures), passed = clock_ns() - begin;
    assert_in_range(failures, 5, 1 + passed / PAUSE_NS);
    assert_int_equal(atomic_load(&taken), 0);
    atomic_store(&accept_error, 0);
    while (atomic_load(&taken) == 0)
        usleep(1000);
    listener_close(listener);
    close(client);
}

static void test_a_host_without_an_address_is_refused(void **state)
{
    (void)state;
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct addrinfo info = {.ai_family = AF_UNIX, .ai_addrlen = sizeof path, .ai_addr = (struct sockaddr *)&path};
    struct listener_options options = {.sockets = {.hosts = "odd"}, .accepted = accepted};
    struct listener *listener;
    struct error error;
    found_addresses = &info;
    assert_int_equal(listener_open(&options, &listener, &error), -1);
    found_addresses = NULL;
    char expected[256];
    snprintf(expected, sizeof expected, "cannot listen on odd port 0: %s", strerror(EAFNOSUPPORT));
    assert_string_equal(error.message, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closing_does_not_wait_for_an_unaccepted_client),
        cmocka_unit_test(test_clients_are_accepted_once_descriptors_are_free),
        cmocka_unit_test(test_failing_accepts_use_no_cpu),
        cmocka_unit_test(test_a_host_without_an_address_is_refused),
    };
    return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
