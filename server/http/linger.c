/* linger: a thread that reads and drops the bytes of clients. The lock guards `closing` and the list of descriptors
 * that other threads have added. */
#include "server/http/linger.h"

#include "server/common/clock.h"
#include "server/common/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 256 /* maximum number of connections that linger at once */ };
#define STAY_NS INT64_C(2000000000) /* maximum time that a connection lingers */

struct linger_room {
    pthread_t thread;
    int wake; /* an eventfd: readable when a descriptor was added, or when `closing` was set */

    pthread_mutex_t lock; /* guards the next three members */
    int added[ROOM];
    int n_added;
    bool closing;

    /* Only the thread uses the members below. */
    struct pollfd inside[ROOM + 1]; /* the first entry polls `wake`, the other entries poll the sockets */
    int64_t until_ns[ROOM + 1];
    int n_inside;
};

/* Drops the bytes that have arrived. Returns true if the client has closed the connection, or an error has ended it. */
static bool finished(int fd)
{
    char dropped[16384];
    for (int i = 0; i < 16; i++) { /* a limited number of reads, so that one client does not delay the others */
        ssize_t length = recv(fd, dropped, sizeof dropped, MSG_DONTWAIT);
        if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR))
            return true;
        if (length < 0)
            return false;
    }
    return false;
}

/* Moves the added descriptors to the list of the thread. Returns true if the room is closing. */
static bool take_added(struct linger_room *room)
{
    uint64_t count = 0;
    if (read(room->wake, &count, sizeof count) < 0 && errno != EAGAIN)
        return false;
    pthread_mutex_lock(&room->lock);
    while (room->n_added > 0) {
        int fd = room->added[--room->n_added];
        if (room->n_inside == ROOM) {
            close(fd);
            continue;
        }
        room->n_inside++;
        room->inside[room->n_inside] = (struct pollfd){.fd = fd, .events = POLLIN};
        room->until_ns[room->n_inside] = clock_ns() + STAY_NS;
    }
    bool closing = room->closing;
    pthread_mutex_unlock(&room->lock);
    return closing;
}

static void *linger_thread(void *argument)
{
    struct linger_room *room = argument;
    bool closing = false;
    room->inside[0] = (struct pollfd){.fd = room->wake, .events = POLLIN};
    while (!closing || room->n_inside > 0) {
        poll(room->inside, (nfds_t)room->n_inside + 1, room->n_inside > 0 ? 100 : -1);
        for (int i = room->n_inside; i > 0; i--) {
            if (!(room->inside[i].revents && finished(room->inside[i].fd)) && clock_ns() < room->until_ns[i])
                continue;
            close(room->inside[i].fd);
            room->inside[i] = room->inside[room->n_inside];
            room->until_ns[i] = room->until_ns[room->n_inside--];
        }
        closing = take_added(room) || closing;
    }
    return NULL;
}

int linger_open(struct linger_room **opened, struct error *error)
{
    struct linger_room *room = calloc(1, sizeof *room);
    if (!room)
        return error_set(error, "out of memory");
    room->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (room->wake < 0) {
        free(room);
        return error_set(error, "eventfd: %s", strerror(errno));
    }
    pthread_mutex_init(&room->lock, NULL);
    int status = pthread_create(&room->thread, NULL, linger_thread, room);
    if (status != 0) {
        pthread_mutex_destroy(&room->lock);
        close(room->wake);
        free(room);
        return thread_refused("closed connections", status, error);
    }
    *opened = room;
    return 0;
}

static void wake(struct linger_room *room)
{
    uint64_t one = 1;
    while (write(room->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void linger_add(struct linger_room *room, int fd)
{
    pthread_mutex_lock(&room->lock);
    bool full = room->n_added == ROOM;
    if (!full)
        room->added[room->n_added++] = fd;
    pthread_mutex_unlock(&room->lock);
    if (full)
        close(fd);
    else
        wake(room);
}

void linger_close(struct linger_room *room)
{
    if (!room)
        return;
    pthread_mutex_lock(&room->lock);
    room->closing = true;
    pthread_mutex_unlock(&room->lock);
    wake(room);
    pthread_join(room->thread, NULL);
    close(room->wake);
    pthread_mutex_destroy(&room->lock);
    free(room);
}
