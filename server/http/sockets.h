/* sockets: the sockets that clients connect to. They are TCP and Unix sockets that the daemon opens, or sockets that it
 * inherits (inherited.h). */
#ifndef SERVER_SOCKETS_H
#define SERVER_SOCKETS_H

#include "config/config.h"

#include <sys/types.h>
#include <sys/un.h>

#define SOCKETS_MOST 16
#define SOCKET_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)
#define SOCKET_NAME_BYTES 300 /* a host name has at most 253 characters */

struct sockets_options {
    const char *hosts; /* a list with commas. An entry is an address, a name, or "unix:" and a path. A name stands for
                          all of its addresses */
    int port;          /* of all TCP sockets. 0 means a port that is free on all of them */
    bool reuse_port;   /* several processes may listen on the same port (SO_REUSEPORT), or replace a Unix socket */
    int unix_mode;     /* permissions of the Unix sockets */
};

struct listening_socket {
    int fd;
    bool inherited;               /* another process has the socket, too */
    char path[SOCKET_PATH_BYTES]; /* the file of a Unix socket that the daemon opened. Otherwise empty */
    dev_t device;                 /* together with `inode`, tells whether the path is still this socket */
    ino_t inode;
};

struct sockets {
    struct listening_socket list[SOCKETS_MOST];
    int count;
    int port;    /* of the TCP sockets. 0 if there are none */
    bool shared; /* other processes accept new connections when this one has stopped listening */
    char names[SOCKETS_MOST][SOCKET_NAME_BYTES]; /* "HOST:PORT" or "unix:PATH". One for each host, or for each
                                                    inherited socket */
    int n_names;
};

/* Opens the sockets, or takes the inherited ones. Inherited sockets replace all of `options`. After success the caller
 * must call sockets_close. */
int sockets_open(const struct sockets_options *options, struct sockets *sockets, struct error *error);

/* From now on, the kernel establishes no new connections. Connections that are already established can still be
 * accepted. Removes the files of Unix sockets. Does nothing to inherited sockets. */
void sockets_retire(struct sockets *sockets);

/* Closes the sockets. Connections that were not accepted are reset, except on inherited sockets. */
void sockets_close(struct sockets *sockets);

#endif
