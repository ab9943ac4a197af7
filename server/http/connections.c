/* connections: a table indexed by descriptor, and a list of the idle connections. The connection that has been idle
 * longest comes first in the list. One lock guards the table and the list.
 *
 * Between connections_started and connections_closed the descriptor is certainly open. Only during this time may it be
 * shut down. Before connections_started, the descriptor may already be closed, because libmicrohttpd closes a new
 * descriptor if memory is lacking. Its number may then belong to another file, or to a newer connection. The newer
 * connection may even be admitted before connections_lost is called for the older one. So the shutdown of a connection
 * is delayed until connections_started.
 *
 * A connection that has not reached its event loop yet counts as idle. So a burst of new connections cannot exceed the
 * limit of connections, and cannot prevent the eviction of a silent connection. */
#define _GNU_SOURCE /* F_DUPFD_CLOEXEC */
#include "server/http/connections.h"

#include "server/common/clock.h"
#include "server/common/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
    SPARE_DESCRIPTORS = 768,   /* kept for other uses, such as files of models, epoll sets and lingering sockets */
    HIGHER_DESCRIPTORS = 4096, /* slots beyond the limit of connections. Other files use low numbers, so the descriptors
                                  of connections can be higher than the limit */
    NONE = -1,                 /* stands for "no descriptor" */
};

/* How long connections_settle waits for the first request of a new connection, in nanoseconds. */
#define START_PATIENCE_NS INT64_C(1000000000)

/* A client is slow if it holds memory for more than one second, plus one second per SLOW_BYTES_PER_S bytes of this
 * memory. Connections of slow clients are shut down only if memory is short. */
#define SLOW_BYTES_PER_S (INT64_C(4) << 20)
#define SECOND_NS INT64_C(1000000000)

enum slot_state { SLOT_FREE, SLOT_IDLE, SLOT_BUSY, SLOT_EVICTED };

struct slot {
    int previous, next;  /* descriptors of the neighbours in the idle list, or NONE */
    unsigned char state; /* a value of enum slot_state */
    bool started;        /* libmicrohttpd has accepted the descriptor */
    bool unread;
    bool silent; /* the client has sent no request yet */
    int64_t admission;
    int64_t admitted_ns;
    struct share *share; /* the share of memory that connections_set_share has set. NULL if there is none */
    int64_t held_ns;     /* time when the client began to hold the share */
};

struct connections {
    struct linger_room *room;
    int64_t limit;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when a connection was closed, or when a client has sent its first request.
                               After connections_dismiss, also signalled when a connection is no longer idle */
    int64_t admissions;     /* number of admissions so far */
    int64_t count;          /* number of connections that are admitted and not closed */
    int64_t evicted;        /* number of connections in the state SLOT_EVICTED. `count` includes them */
    int ending;      /* the argument `how` of shutdown() for all connections: SHUT_RD, later SHUT_RDWR. NONE before
                        connections_finish */
    bool dismissing; /* connections_dismiss was called */
    int first_idle, last_idle;
    int n_slots;
    struct slot slots[];
};

/* The number of connections for which there are enough descriptors, at most `limit`. If the process may open only few
 * descriptors, connections use a quarter of them. */
static int64_t lower_limit(int64_t limit)
{
    struct rlimit descriptors;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0 || descriptors.rlim_cur == RLIM_INFINITY)
        return limit;
    int64_t all = (int64_t)descriptors.rlim_cur, quarter = all / 4;
    int64_t most = all - SPARE_DESCRIPTORS > quarter ? all - SPARE_DESCRIPTORS : quarter;
    most = most > 1 ? most : 1;
    if (most >= limit)
        return limit;
    log_write(LOG_LEVEL_WARNING, "the limit of open files is too low for --max-connections",
              LOG_INTEGER("connections", most), LOG_INTEGER("max_connections", limit), LOG_INTEGER("open_files", all),
              NULL);
    return most;
}

int connections_open(int64_t limit, struct linger_room *room, struct connections **opened, struct error *error)
{
    limit = lower_limit(limit);
    struct connections *connections =
        calloc(1, sizeof *connections + (size_t)(limit + HIGHER_DESCRIPTORS) * sizeof connections->slots[0]);
    if (!connections)
        return error_set(error, "out of memory");
    connections->room = room;
    connections->limit = limit;
    connections->n_slots = (int)(limit + HIGHER_DESCRIPTORS);
    connections->first_idle = connections->last_idle = connections->ending = NONE;
    pthread_condattr_t attributes;
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

/* ---- The idle list. Callers hold the lock ---- */

static void idle_append(struct connections *connections, int fd)
{
    struct slot *slot = &connections->slots[fd];
    slot->previous = connections->last_idle;
    slot->next = NONE;
    *(slot->previous == NONE ? &connections->first_idle : &connections->slots[slot->previous].next) = fd;
    connections->last_idle = fd;
    slot->state = SLOT_IDLE;
}

/* Sets a state other than SLOT_IDLE. Removes the slot from the list if it was idle. */
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

/* Calls shutdown() for a connection that has started. connections_started shuts down the others later. The lock is
 * held. */
static void shut(struct connections *connections, int fd, int how)
{
    if (connections->slots[fd].started)
        shutdown(fd, how);
}

/* Shuts the connection down. Its event loop notices this, and closes it. The lock is held. */
static void evict(struct connections *connections, int fd)
{
    idle_remove(connections, fd, SLOT_EVICTED);
    connections->evicted++;
    shut(connections, fd, SHUT_RDWR);
}

/* Frees the slot of a connection that is closed. The lock is held. */
static void release(struct connections *connections, int fd)
{
    connections->evicted -= connections->slots[fd].state == SLOT_EVICTED;
    idle_remove(connections, fd, SLOT_FREE);
    connections->count--;
    pthread_cond_broadcast(&connections->changed);
}

int64_t connections_admit(struct connections *connections, int fd)
{
    bool admitted = fd < connections->n_slots;
    int64_t admission = 0;
    pthread_mutex_lock(&connections->lock);
    if (admitted && connections->slots[fd].state != SLOT_FREE)
        /* Libmicrohttpd has lost the earlier connection with this descriptor. connections_lost will still be called for
         * it. */
        release(connections, fd);
    if (admitted && connections->count - connections->evicted >= connections->limit) {
        int oldest = connections->first_idle;
        admitted = oldest != NONE;
        if (admitted)
            evict(connections, oldest);
    }
    if (admitted) {
        admission = ++connections->admissions;
        connections->count++;
        connections->slots[fd] = (struct slot){.silent = true, .admission = admission, .admitted_ns = clock_ns()};
        idle_append(connections, fd);
    }
    pthread_mutex_unlock(&connections->lock);
    return admission;
}

void connections_started(struct connections *connections, int fd)
{
    pthread_mutex_lock(&connections->lock);
    connections->slots[fd].started = true;
    if (connections->slots[fd].state == SLOT_EVICTED)
        shut(connections, fd, SHUT_RDWR);
    else if (connections->ending != NONE)
        shut(connections, fd, connections->ending);
    pthread_mutex_unlock(&connections->lock);
}

void connections_lost(struct connections *connections, int fd, int64_t admission)
{
    pthread_mutex_lock(&connections->lock);
    if (connections->slots[fd].state != SLOT_FREE && connections->slots[fd].admission == admission)
        release(connections, fd);
    pthread_mutex_unlock(&connections->lock);
}

void connections_busy(struct connections *connections, int fd)
{
    pthread_mutex_lock(&connections->lock);
    if (connections->slots[fd].state == SLOT_IDLE)
        idle_remove(connections, fd, SLOT_BUSY);
    if (connections->dismissing)
        pthread_cond_broadcast(&connections->changed);
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

void connections_end_request(struct connections *connections, int fd)
{
    connections_set_share(connections, fd, NULL);
    connections_idle(connections, fd);
    pthread_mutex_lock(&connections->lock);
    if (connections->dismissing)
        shut(connections, fd, SHUT_RD);
    pthread_mutex_unlock(&connections->lock);
}

void connections_unread(struct connections *connections, int fd)
{
    pthread_mutex_lock(&connections->lock);
    connections->slots[fd].unread = true;
    pthread_mutex_unlock(&connections->lock);
}

void connections_set_share(struct connections *connections, int fd, struct share *share)
{
    pthread_mutex_lock(&connections->lock);
    connections->slots[fd].share = share;
    connections->slots[fd].held_ns = clock_ns();
    pthread_mutex_unlock(&connections->lock);
}

/* The bytes of the budget that this connection holds, if its client is slow. 0 otherwise. The lock is held. */
static int64_t held_slowly(const struct slot *slot, const struct budget *budget, int64_t now)
{
    if (slot->state == SLOT_FREE || slot->state == SLOT_EVICTED || !slot->share || slot->share->budget != budget)
        return 0;
    int64_t bytes = atomic_load(&slot->share->bytes);
    return (now - slot->held_ns) / SECOND_NS > bytes / SLOW_BYTES_PER_S ? bytes : 0;
}

bool connections_make_room(struct connections *connections, struct budget *budget, int64_t bytes)
{
    int64_t now = clock_ns(), held = 0, freed = 0;
    pthread_mutex_lock(&connections->lock);
    for (int fd = 0; fd < connections->n_slots; fd++)
        held += held_slowly(&connections->slots[fd], budget, now);
    while (held >= bytes && freed < bytes) {
        int64_t most = 0, found = NONE;
        for (int fd = 0; fd < connections->n_slots; fd++) {
            int64_t here = held_slowly(&connections->slots[fd], budget, now);
            if (here > most) {
                most = here;
                found = fd;
            }
        }
        if (found == NONE)
            break;
        freed += share_end(connections->slots[found].share); /* the event loop of the connection frees the memory */
        evict(connections, (int)found);
    }
    pthread_mutex_unlock(&connections->lock);
    return bytes > 0 && freed >= bytes;
}

void connections_closed(struct connections *connections, int fd)
{
    int waiting = 0, copy = -1;
    pthread_mutex_lock(&connections->lock);
    bool evicted = connections->slots[fd].state == SLOT_EVICTED;
    if (!evicted && (connections->slots[fd].unread || (ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0)))
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    release(connections, fd);
    pthread_mutex_unlock(&connections->lock);
    if (copy >= 0)
        linger_add(connections->room, copy);
}

/* The time until which connections_settle waits for silent connections. 0 if there are none. The lock is held. */
static int64_t patience_until(const struct connections *connections)
{
    int64_t now = clock_ns(), until = 0;
    for (int fd = 0; fd < connections->n_slots; fd++) {
        const struct slot *slot = &connections->slots[fd];
        int64_t patience = slot->admitted_ns + START_PATIENCE_NS;
        if (slot->state == SLOT_IDLE && slot->silent && patience > now && patience > until)
            until = patience;
    }
    return until;
}

/* Calls shutdown() for all connections, also for those that start later. The lock is held. */
static void shut_all(struct connections *connections, int how)
{
    connections->ending = how;
    for (int fd = 0; fd < connections->n_slots; fd++) {
        if (connections->slots[fd].state != SLOT_FREE)
            shut(connections, fd, how);
    }
}

/* Waits for a change of the table. Returns false if the time `until_ns` has passed. The lock is held. */
static bool wait_until(struct connections *connections, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / SECOND_NS, .tv_nsec = until_ns % SECOND_NS};
    return pthread_cond_timedwait(&connections->changed, &connections->lock, &until) == 0;
}

void connections_settle(struct connections *connections)
{
    int64_t last_ns = clock_ns() + 2 * START_PATIENCE_NS, until_ns;
    pthread_mutex_lock(&connections->lock);
    while ((until_ns = patience_until(connections)) != 0 && clock_ns() < last_ns)
        wait_until(connections, until_ns);
    pthread_mutex_unlock(&connections->lock);
}

/* Whether the client has no request in progress, but has sent one before. The lock is held. */
static bool is_between_requests(const struct slot *slot)
{
    return slot->state == SLOT_IDLE && !slot->silent && !slot->share;
}

void connections_dismiss(struct connections *connections, int64_t patience_ns)
{
    int64_t last_ns = clock_ns() + patience_ns;
    pthread_mutex_lock(&connections->lock);
    connections->dismissing = true;
    for (int fd = 0; fd < connections->n_slots; fd++)
        if (is_between_requests(&connections->slots[fd]))
            shut(connections, fd, SHUT_RD); /* SHUT_RD, because a request that has already arrived must still be read */
    while (connections->first_idle != NONE && wait_until(connections, last_ns))
        ;
    pthread_mutex_unlock(&connections->lock);
}

void connections_finish(struct connections *connections, int64_t patience_ns)
{
    connections_settle(connections);
    pthread_mutex_lock(&connections->lock);
    /* Bytes that have already arrived can still be read. The end of the stream follows them. */
    shut_all(connections, SHUT_RD);
    int64_t last_ns = clock_ns() + patience_ns;
    while (connections->count > 0 && wait_until(connections, last_ns))
        ;
    shut_all(connections, SHUT_RDWR);
    while (connections->count > 0)
        pthread_cond_wait(&connections->changed, &connections->lock);
    pthread_mutex_unlock(&connections->lock);
}
