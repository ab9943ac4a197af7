/* connections: a table by descriptor, and a list of the idle ones, the longest idle first. One lock guards all of it.
 * A descriptor in the table is open: connections_closed comes before libmicrohttpd closes it. */
#define _GNU_SOURCE /* F_DUPFD_CLOEXEC */
#include "server/connections.h"

#include "server/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
    SPARE_DESCRIPTORS = 768, /* for all that is no connection: models, epoll, lingering */
    HIGHER_DESCRIPTORS = 4096,
    NONE = -1,
};
/* When all ends: for connections on their way into an event loop, and for new ones whose client connected in order to
 * say something and may not have got round to it. */
#define START_PATIENCE_NS INT64_C(1000000000)

enum slot_state { SLOT_FREE, SLOT_IDLE, SLOT_BUSY, SLOT_EVICTED };

struct slot {
    int previous, next; /* in the idle list */
    unsigned char state;
    bool unread;
    bool silent; /* no request came yet */
    int64_t started_ns;
};

struct connections {
    struct linger_room *room;
    int64_t limit;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t count, admitted, evicted; /* open; admitted but not yet open; open but shut down by us */
    int first_idle, last_idle;
    int n_slots;
    struct slot slots[];
};

int connections_open(int64_t limit, struct linger_room *room, struct connections **opened, struct error *error)
{
    struct connections *connections;
    struct rlimit descriptors;
    pthread_condattr_t attributes;

    if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0 && descriptors.rlim_cur != RLIM_INFINITY &&
        (int64_t)descriptors.rlim_cur - SPARE_DESCRIPTORS < limit)
        limit = (int64_t)descriptors.rlim_cur - SPARE_DESCRIPTORS;
    if (limit < 1)
        limit = 1;
    connections = calloc(1, sizeof *connections + (size_t)(limit + HIGHER_DESCRIPTORS) * sizeof connections->slots[0]);
    if (!connections)
        return error_set(error, "out of memory");
    connections->room = room;
    connections->limit = limit;
    connections->n_slots = (int)(limit + HIGHER_DESCRIPTORS);
    connections->first_idle = connections->last_idle = NONE;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&connections->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&connections->lock, NULL);
    *opened = connections;
    return 0;
}

void connections_close(struct connections *connections)
{
    if (!connections)
        return;
    pthread_cond_destroy(&connections->changed);
    pthread_mutex_destroy(&connections->lock);
    free(connections);
}

int64_t connections_limit(const struct connections *connections)
{
    return connections->limit;
}

/* ---- The idle list; the lock is held. ---- */

static void idle_append(struct connections *connections, int fd)
{
    struct slot *slot = &connections->slots[fd];

    slot->previous = connections->last_idle;
    slot->next = NONE;
    *(slot->previous == NONE ? &connections->first_idle : &connections->slots[slot->previous].next) = fd;
    connections->last_idle = fd;
    slot->state = SLOT_IDLE;
}

/* Leaves the slot in another state, in the list or not as it was. */
static void idle_remove(struct connections *connections, int fd, enum slot_state state)
{
    struct slot *slot = &connections->slots[fd];

    if (slot->state == SLOT_IDLE) {
        *(slot->previous == NONE ? &connections->first_idle : &connections->slots[slot->previous].next) = slot->next;
        *(slot->next == NONE ? &connections->last_idle : &connections->slots[slot->next].previous) = slot->previous;
    }
    slot->state = (unsigned char)state;
}

/* ---- The life of a connection ---- */

bool connections_admit(struct connections *connections, int fd)
{
    bool admitted = fd < connections->n_slots;

    pthread_mutex_lock(&connections->lock);
    if (admitted && connections->count + connections->admitted - connections->evicted >= connections->limit) {
        int oldest = connections->first_idle;

        admitted = oldest != NONE;
        if (admitted) {
            idle_remove(connections, oldest, SLOT_EVICTED);
            connections->evicted++;
            shutdown(oldest, SHUT_RDWR); /* its event loop notices and closes it */
        }
    }
    connections->admitted += admitted;
    pthread_mutex_unlock(&connections->lock);
    return admitted;
}

void connections_lost(struct connections *connections)
{
    pthread_mutex_lock(&connections->lock);
    connections->admitted--;
    pthread_cond_broadcast(&connections->changed);
    pthread_mutex_unlock(&connections->lock);
}

void connections_started(struct connections *connections, int fd)
{
    pthread_mutex_lock(&connections->lock);
    connections->admitted--;
    connections->count++;
    connections->slots[fd] = (struct slot){.silent = true, .started_ns = clock_ns()};
    idle_append(connections, fd);
    pthread_cond_broadcast(&connections->changed);
    pthread_mutex_unlock(&connections->lock);
}

void connections_busy(struct connections *connections, int fd)
{
    pthread_mutex_lock(&connections->lock);
    if (connections->slots[fd].state == SLOT_IDLE)
        idle_remove(connections, fd, SLOT_BUSY);
    pthread_mutex_unlock(&connections->lock);
}

void connections_idle(struct connections *connections, int fd)
{
    pthread_mutex_lock(&connections->lock);
    if (connections->slots[fd].silent) {
        connections->slots[fd].silent = false;
        pthread_cond_broadcast(&connections->changed);
    }
    if (connections->slots[fd].state == SLOT_IDLE)
        idle_remove(connections, fd, SLOT_BUSY);
    if (connections->slots[fd].state == SLOT_BUSY)
        idle_append(connections, fd);
    pthread_mutex_unlock(&connections->lock);
}

void connections_unread(struct connections *connections, int fd)
{
    pthread_mutex_lock(&connections->lock);
    connections->slots[fd].unread = true;
    pthread_mutex_unlock(&connections->lock);
}

void connections_closed(struct connections *connections, int fd)
{
    int waiting = 0, copy = -1;

    pthread_mutex_lock(&connections->lock);
    bool evicted = connections->slots[fd].state == SLOT_EVICTED;
    if (!evicted && (connections->slots[fd].unread || (ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0)))
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    idle_remove(connections, fd, SLOT_FREE);
    connections->evicted -= evicted;
    connections->count--;
    pthread_cond_broadcast(&connections->changed);
    pthread_mutex_unlock(&connections->lock);
    if (copy >= 0)
        linger_add(connections->room, copy);
}

/* Until when a client that has just connected is waited for; 0: there is none. The lock is held. */
static int64_t patience_until(const struct connections *connections)
{
    int64_t now = clock_ns(), until = connections->admitted > 0 ? now + START_PATIENCE_NS : 0;

    for (int fd = 0; fd < connections->n_slots; fd++) {
        const struct slot *slot = &connections->slots[fd];
        int64_t patience = slot->started_ns + START_PATIENCE_NS;

        if (slot->state == SLOT_IDLE && slot->silent && patience > now && patience > until)
            until = patience;
    }
    return until;
}

void connections_finish(struct connections *connections)
{
    int64_t last_ns = clock_ns() + 2 * START_PATIENCE_NS, until_ns;

    pthread_mutex_lock(&connections->lock);
    while ((until_ns = patience_until(connections)) != 0 && clock_ns() < last_ns) {
        struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};

        pthread_cond_timedwait(&connections->changed, &connections->lock, &until);
    }
    for (int fd = 0; fd < connections->n_slots; fd++) {
        if (connections->slots[fd].state != SLOT_FREE)
            shutdown(fd, SHUT_RD); /* what has arrived can still be read, then the stream ends */
    }
    while (connections->count > 0)
        pthread_cond_wait(&connections->changed, &connections->lock);
    pthread_mutex_unlock(&connections->lock);
}
