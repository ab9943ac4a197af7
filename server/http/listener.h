/* listener: the sockets that clients connect to, and a thread that accepts connections. libmicrohttpd could accept them
 * itself. But at its limit of connections it stops accepting, and MHD_quiesce_daemon may abort the process under load
 * (0.9.75). */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include "config/config.h"

#include <sys/socket.h>

struct listener;

struct listener_options {
    const char *host; /* an address, or a name. For a name, the server listens on all addresses of the name */
    int port;         /* 0 for a free port, which is the same on all addresses */

    /* Called on the listener's thread. It takes over `fd`, a non-blocking socket. */
    void (*accepted)(void *context, int fd, const struct sockaddr *address, socklen_t length);
    void *context;
};

int listener_open(const struct listener_options *options, struct listener **listener, struct error *error);
int listener_port(const struct listener *listener);

/* Passes connections that the kernel has already established to `accepted`. Then closes the sockets and ends the
 * thread. */
void listener_close(struct listener *listener);

#endif
