/* Tests of the order in which a worker begins the tasks of several peers, and of which addresses belong to one peer. */
#include "server/http/peer.h"
#include "server/http/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 2000 };

struct piece {
    struct task task;
    char name[16];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_open, is_holding;
static char order[8 * MAX_TASKS];
static struct workers *workers;

/* A task that waits for let_go. */
static void run_holder(struct task *task)
{
    pthread_mutex_lock(&lock);
    is_holding = true;
    pthread_cond_broadcast(&changed);
    while (!is_open)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    free(task);
}

static void run_piece(struct task *task)
{
    pthread_mutex_lock(&lock);
    strcat(strcat(order, ((struct piece *)task)->name), " ");
    pthread_mutex_unlock(&lock);
    free(task);
}

static void add(const char *name)
{
    struct piece *piece = calloc(1, sizeof *piece);
    assert_non_null(piece);
    snprintf(piece->name, sizeof piece->name, "%s", name);
    piece->task.run = run_piece;
    piece->task.peer = (uint64_t)name[0];
    workers_add(workers, &piece->task);
}

/* Opens one worker, and occupies it with a task of the peer until let_go is called. */
static void open_held(char peer)
{
    struct error error;
    struct task *holder = calloc(1, sizeof *holder);
    is_open = is_holding = false;
    order[0] = '\0';
    assert_non_null(holder);
    *holder = (struct task){.run = run_holder, .peer = (uint64_t)peer};
    assert_int_equal(workers_open(1, &workers, &error), 0);
    workers_add(workers, holder);
    pthread_mutex_lock(&lock);
    while (!is_holding)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void let_go(void)
{
    pthread_mutex_lock(&lock);
    is_open = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    workers_close(workers);
}

static void one_peer_is_served_in_order(void **state)
{
    (void)state;
    open_held('A');
    for (int i = 1; i <= 5; i++)
        add((char[]){'A', (char)('0' + i), '\0'});
    let_go();
    assert_string_equal(order, "A1 A2 A3 A4 A5 ");
}

static void peers_take_turns(void **state)
{
    (void)state;
    static const char *const names[] = {"A1", "A2", "A3", "B1", "C1", "B2", "A4", "C2", "D1"};
    open_held('A');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        add(names[i]);
    let_go();
    assert_string_equal(order, "B1 C1 D1 A1 B2 C2 A2 A3 A4 ");
}

static void many_tasks_of_one_peer_delay_another_by_one(void **state)
{
    (void)state;
    open_held('Z');
    for (int i = 0; i < MAX_TASKS; i++)
        add("A");
    add("B");
    let_go();
    assert_memory_equal(order, "A B A A ", 8);
    assert_int_equal(strlen(order), 2 * (MAX_TASKS + 1));
}

static uint64_t peer(int family, const char *host, uint16_t port)
{
    struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    void *address = family == AF_INET ? (void *)&ipv4.sin_addr : &ipv6.sin6_addr;
    assert_int_equal(inet_pton(family, host, address), 1);
    return peer_of(family == AF_INET ? (struct sockaddr *)&ipv4 : (struct sockaddr *)&ipv6);
}

static void a_peer_is_an_address_without_its_port(void **state)
{
    (void)state;
    uint64_t one = peer(AF_INET, "192.0.2.1", 1000), six = peer(AF_INET6, "2001:db8:0:1::1", 1000);
    assert_true(one == peer(AF_INET, "192.0.2.1", 2000));
    assert_true(one == peer(AF_INET6, "::ffff:192.0.2.1", 3000));
    assert_true(one != peer(AF_INET, "192.0.2.2", 1000));
    assert_true(peer(AF_INET6, "::ffff:192.0.2.1", 1) != peer(AF_INET6, "::ffff:192.0.2.2", 1));
    assert_true(six == peer(AF_INET6, "2001:db8:0:1:ffff::2", 2000));
    assert_true(six != peer(AF_INET6, "2001:db8:0:2::1", 1000));
    assert_true(six != one);
    assert_true(peer_of(NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_peer_is_served_in_order),
        cmocka_unit_test(peers_take_turns),
        cmocka_unit_test(a_peer_is_an_address_without_its_port),
        cmocka_unit_test(many_tasks_of_one_peer_delay_another_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
