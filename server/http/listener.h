/* listener: the sockets that clients connect to, and a thread that accepts connections. libmicrohttpd could accept them
 * itself, but at its limit it accepts nothing more, and quiescing it under load may abort (0.9.75). */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include "config/config.h"

#include <sys/socket.h>

struct listener;

struct listener_options {
    const char *host; /* an address, or a name that stands for all of its addresses */
    int port;         /* 0: a free one, the same for all addresses */

    /* Called on the listener's thread. The callee owns `fd`, a non-blocking socket. */
    void (*accepted)(void *context, int fd, const struct sockaddr *address, socklen_t length);
    void *context;
};

int listener_open(const struct listener_options *options, struct listener **listener, struct error *error);
int listener_port(const struct listener *listener);

/* Passes the connections that the kernel has established to `accepted`. Then closes the sockets and ends the thread. */
void listener_close(struct listener *listener);

#endif
