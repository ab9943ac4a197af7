/* listener: the sockets that clients connect to, and a thread that accepts connections. libmicrohttpd could accept them
 * itself. But at its limit of connections it stops accepting, and MHD_quiesce_daemon may abort the process under load
 * (0.9.75). */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include "server/http/sockets.h"

#include <sys/socket.h>

struct listener;

struct listener_options {
    struct sockets_options sockets;

    /* Called on the listener's thread. It takes over `fd`, a non-blocking socket. */
    void (*accepted)(void *context, int fd, const struct sockaddr *address, socklen_t length);
    void *context;
};

/* Opens the sockets. The kernel already establishes connections, which wait for listener_start. */
int listener_open(const struct listener_options *options, struct listener **listener, struct error *error);

/* Starts the thread that accepts connections. */
int listener_start(struct listener *listener, struct error *error);

const struct sockets *listener_sockets(const struct listener *listener);

/* Passes connections that the kernel has already established to `accepted`. Then closes the sockets and ends the
 * thread. Connections of inherited sockets that are not accepted yet stay for the next process. */
void listener_close(struct listener *listener);

#endif
