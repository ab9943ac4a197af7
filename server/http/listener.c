/* listener: the thread that accepts connections on the listening sockets. */
#define _GNU_SOURCE /* accept4 */
#include "server/http/listener.h"

#include "server/common/log.h"
#include "server/common/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    HANDSHAKE_PAUSE = 100, /* milliseconds without a new connection until the listener ends */
    FAILURE_PAUSE = 20,    /* milliseconds to wait after an error of accept */
};

struct listener {
    struct listener_options options;
    struct sockets sockets;
    struct pollfd polled[SOCKETS_MAX + 1]; /* the listening sockets. The entry after the last socket polls `stop` */
    int stop;                              /* an eventfd, which is readable when the thread must end */
    struct log_limit limit;                /* limits how often the warning "cannot accept a connection" is logged */
    pthread_t thread;
    bool started;
};

/* Accepts all waiting connections. Returns false if accept fails, usually for lack of descriptors or memory.
 * Connections may then still be waiting. */
static bool accept_waiting(struct listener *listener, int socket)
{
    for (;;) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        int fd = accept4(socket, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            listener->options.accepted(listener->options.context, fd, (struct sockaddr *)&address, length);
        } else if (errno == EAGAIN) {
            return true; /* no connection waits */
        } else if (errno != ECONNABORTED && errno != EINTR) {
            log_write_limited(&listener->limit, LOG_LEVEL_WARNING, "cannot accept a connection", "reason",
                              strerror(errno), NULL);
            return false;
        }
    }
}

/* Accepts connections until none has come for HANDSHAKE_PAUSE, or until accept fails. Inherited sockets are skipped,
 * because the next process accepts their connections. */
static void take_the_last(struct listener *listener)
{
    bool takes = true;
    sockets_retire(&listener->sockets);
    for (int i = 0; i < listener->sockets.count; i++)
        if (listener->sockets.list[i].inherited)
            listener->polled[i].fd = -1; /* poll ignores the descriptor -1 */
    do {
        for (int i = 0; i < listener->sockets.count; i++)
            if (listener->polled[i].fd >= 0)
                takes = accept_waiting(listener, listener->polled[i].fd) && takes;
    } while (takes && poll(listener->polled, (nfds_t)listener->sockets.count, HANDSHAKE_PAUSE) > 0);
}

static void *listen_thread(void *argument)
{
    struct listener *listener = argument;
    struct pollfd *stop = &listener->polled[listener->sockets.count];
    *stop = (struct pollfd){.fd = listener->stop, .events = POLLIN};
    while (!stop->revents) {
        if (poll(listener->polled, (nfds_t)listener->sockets.count + 1, -1) < 0)
            continue;
        for (int i = 0; i < listener->sockets.count; i++) {
            if (listener->polled[i].revents && !accept_waiting(listener, listener->polled[i].fd))
                /* The socket stays readable, so without a pause the loop would use a whole CPU. */
                poll(stop, 1, FAILURE_PAUSE);
        }
    }
    take_the_last(listener);
    return NULL;
}

int listener_open(const struct listener_options *options, struct listener **opened, struct error *error)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return error_set(error, "out of memory");
    listener->options = *options;
    if (sockets_open(&options->sockets, &listener->sockets, error) != 0)
        goto fail_sockets;
    for (int i = 0; i < listener->sockets.count; i++)
        listener->polled[i] = (struct pollfd){.fd = listener->sockets.list[i].fd, .events = POLLIN};
    listener->stop = eventfd(0, EFD_CLOEXEC);
    if (listener->stop < 0) {
        error_set(error, "eventfd: %s", strerror(errno));
        goto fail_stop;
    }
    *opened = listener;
    return 0;

fail_stop:
    sockets_retire(&listener->sockets);
    sockets_close(&listener->sockets);
fail_sockets:
    free(listener);
    return -1;
}

int listener_start(struct listener *listener, struct error *error)
{
    int status = pthread_create(&listener->thread, NULL, listen_thread, listener);
    if (status != 0)
        return thread_refused("new connections", status, error);
    listener->started = true;
    return 0;
}

const struct sockets *listener_sockets(const struct listener *listener)
{
    return &listener->sockets;
}

void listener_close(struct listener *listener)
{
    uint64_t one = 1;
    while (write(listener->stop, &one, sizeof one) < 0 && errno == EINTR)
        ;
    if (listener->started)
        pthread_join(listener->thread, NULL);
    sockets_close(&listener->sockets);
    close(listener->stop);
    free(listener);
}
