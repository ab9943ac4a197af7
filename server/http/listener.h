/* listener: the sockets that clients connect to, and a thread that accepts connections. libmicrohttpd 0.9.75 could
 * accept connections itself. But at its limit of connections it stops accepting, and its MHD_quiesce_daemon may abort
 * the process under load. */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include "server/http/sockets.h"

#include <sys/socket.h>

struct listener;

struct listener_options {
    struct sockets_options sockets;

    /* Called on the listener's thread for each accepted connection. The function takes over `fd`, a non-blocking
     * socket. */
    void (*accepted)(void *context, int fd, const struct sockaddr *address, socklen_t length);
    void *context;
};

/* Opens the sockets. From this call on, the kernel establishes connections, which wait until listener_start. */
int listener_open(const struct listener_options *options, struct listener **listener, struct error *error);

/* Starts the thread that accepts connections. */
int listener_start(struct listener *listener, struct error *error);

const struct sockets *listener_sockets(const struct listener *listener);

/* Accepts the connections that the kernel has already established, and passes them to `accepted`. Then closes the
 * sockets and ends the thread. Connections of inherited sockets that are not accepted yet are left to the next
 * process. */
void listener_close(struct listener *listener);

#endif
