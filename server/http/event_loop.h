/* event_loop: a thread that runs one libmicrohttpd daemon, and an inbox for what other threads have for it.
 *
 * libmicrohttpd has threads of its own, which may sleep on work: when epoll_wait hands MHD_epoll as many events as it
 * asked for (128), it asks for more before it looks at them, and waits for those as long as for the first (daemon.c of
 * 0.9.75). Here it never waits: the thread does, and lets it run when there is something. */
#ifndef SERVER_EVENT_LOOP_H
#define SERVER_EVENT_LOOP_H

#include "config/config.h"

#include <microhttpd.h>
#include <sys/socket.h>

struct event_loop;

/* libmicrohttpd's callbacks get the event loop as their first argument. They come on its thread. */
struct event_loop_options {
    MHD_AccessHandlerCallback handle;
    MHD_RequestCompletedCallback completed;
    MHD_NotifyConnectionCallback changed;
    /* Was added under this number, and closed for want of memory, with or without a word to `changed`. Any thread. */
    void (*lost)(void *context, int descriptor, int64_t number);
    void *context;
    unsigned int max_connections, timeout_s;
    size_t connection_memory; /* bytes */
};

/* In the inbox until the loop resumes its connection. */
struct resumption {
    struct MHD_Connection *connection;
    struct resumption *next;
};

int event_loop_open(const struct event_loop_options *options, struct event_loop **loop, struct error *error);
void *event_loop_context(const struct event_loop *loop);

/* Any thread. Afterwards the connection is the loop's: the caller touches neither any more. The number is for `lost`:
 * another connection may have the descriptor's by then. */
void event_loop_add(struct event_loop *loop, int descriptor, int64_t number, const struct sockaddr *address,
                    socklen_t length);
void event_loop_resume(struct event_loop *loop, struct resumption *resumption);

/* When no connection is left and none comes: libmicrohttpd aborts when it stops with one suspended. */
void event_loop_close(struct event_loop *loop);

#endif
