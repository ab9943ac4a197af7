/* listener: the sockets that clients connect to, and a thread that takes what comes. libmicrohttpd could do it, but
 * then a limit on connections keeps everybody out, and quiescing it under load may abort (0.9.75). */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include "config/config.h"

#include <sys/socket.h>

struct listener;

struct listener_options {
    const char *host; /* address or name; a name is listened to on all of its addresses */
    int port;         /* 0: a free one, the same for all addresses */

    /* Called on the listener's thread with a non-blocking socket that is now the callee's. */
    void (*accepted)(void *context, int fd, const struct sockaddr *address, socklen_t length);
    void *context;
};

int listener_open(const struct listener_options *options, struct listener **listener, struct error *error);
int listener_port(const struct listener *listener);

/* Hands over the connections that the kernel has established, then closes the sockets and ends the thread. */
void listener_close(struct listener *listener);

#endif
