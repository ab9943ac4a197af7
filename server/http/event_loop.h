/* event_loop: a thread that runs one libmicrohttpd daemon, and an inbox into which other threads put work for it.
 *
 * libmicrohttpd could start its own threads, but these may sleep while there is work. MHD_epoll asks epoll_wait for 128
 * events. If it receives all 128, it asks for more events before it handles them, and may wait (daemon.c of 0.9.75). In
 * an event loop of event_loop.c, libmicrohttpd never waits. The thread of the loop waits for events, and calls MHD_run
 * to handle them. */
#ifndef SERVER_EVENT_LOOP_H
#define SERVER_EVENT_LOOP_H

#include "config/config.h"

#include <microhttpd.h>
#include <sys/socket.h>

struct event_loop;
struct tls;

/* The callbacks of libmicrohttpd receive the event loop as their first argument. They run on the thread of the loop. */
struct event_loop_options {
    /* libmicrohttpd calls `target` for the option MHD_OPTION_URI_LOG_CALLBACK. */
    void *(*target)(void *loop, const char *target, struct MHD_Connection *connection);
    MHD_AccessHandlerCallback handle;
    MHD_RequestCompletedCallback completed;
    MHD_NotifyConnectionCallback changed;
    /* Called after the descriptor that was added with this number was closed because memory was lacking. `changed` may
     * have been called for this descriptor before. `lost` may be called on any thread. */
    void (*lost)(void *context, int descriptor, int64_t number);
    void *context;
    unsigned int max_connections, timeout_s;
    size_t connection_memory; /* memory of libmicrohttpd for each connection, in bytes */
    struct tls *tls;          /* the certificate for all connections of the loop. NULL if they are not encrypted */
};

/* An entry of the inbox. It stays there until the loop resumes its connection. */
struct resumption {
    struct MHD_Connection *connection;
    struct resumption *next;
};

int event_loop_open(const struct event_loop_options *options, struct event_loop **loop, struct error *error);
void *event_loop_context(const struct event_loop *loop);

/* Any thread may call these two functions. Afterwards the loop owns the descriptor or the resumption, and the caller
 * must not access it any more. If the descriptor is lost, `number` is passed to `lost` with the descriptor, because a
 * newer connection may already use the same descriptor. */
void event_loop_add(struct event_loop *loop, int descriptor, int64_t number, const struct sockaddr *address,
                    socklen_t length);
void event_loop_resume(struct event_loop *loop, struct resumption *resumption);

/* Whether the loop has begun a turn since the last call. A turn handles all events that are ready. The first call
 * returns true. Only one thread may call event_loop_turns. */
bool event_loop_turns(struct event_loop *loop);

/* Call it when all connections are closed and no new ones can come. libmicrohttpd aborts the process if it is stopped
 * while a connection is suspended. */
void event_loop_close(struct event_loop *loop);

#endif
