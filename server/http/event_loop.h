/* event_loop: a thread that runs one libmicrohttpd daemon, with an inbox that other threads put work into.
 *
 * libmicrohttpd could start threads of its own, but these may sleep while there is work. MHD_epoll asks epoll_wait for
 * 128 events. When it gets all 128, it asks for more before it handles them, and may wait (daemon.c of 0.9.75). Here
 * libmicrohttpd never waits: this thread waits, and calls MHD_run when there is something to do. */
#ifndef SERVER_EVENT_LOOP_H
#define SERVER_EVENT_LOOP_H

#include "config/config.h"

#include <microhttpd.h>
#include <sys/socket.h>

struct event_loop;

/* libmicrohttpd's callbacks get the event loop as their first argument. They come on its thread. */
struct event_loop_options {
    /* MHD_OPTION_URI_LOG_CALLBACK. */
    void *(*target)(void *loop, const char *target, struct MHD_Connection *connection);
    MHD_AccessHandlerCallback handle;
    MHD_RequestCompletedCallback completed;
    MHD_NotifyConnectionCallback changed;
    /* The descriptor that was added under this number was closed, because memory is out. `changed` may have been called
     * for it before, or not. Any thread. */
    void (*lost)(void *context, int descriptor, int64_t number);
    void *context;
    unsigned int max_connections, timeout_s;
    size_t connection_memory; /* bytes */
};

/* An entry of the inbox. It stays there until the loop resumes its connection. */
struct resumption {
    struct MHD_Connection *connection;
    struct resumption *next;
};

int event_loop_open(const struct event_loop_options *options, struct event_loop **loop, struct error *error);
void *event_loop_context(const struct event_loop *loop);

/* Both from any thread. Afterwards the loop owns the descriptor or the resumption, and the caller does not touch it any
 * more. `number` is passed to `lost`, because another connection may have the same descriptor by then. */
void event_loop_add(struct event_loop *loop, int descriptor, int64_t number, const struct sockaddr *address,
                    socklen_t length);
void event_loop_resume(struct event_loop *loop, struct resumption *resumption);

/* To be called when no connection is left and none comes: libmicrohttpd aborts if it stops while one is suspended. */
void event_loop_close(struct event_loop *loop);

#endif
