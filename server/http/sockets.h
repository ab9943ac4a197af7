/* sockets: the listening sockets. They are TCP and Unix sockets that the daemon opens, or sockets that it inherits
 * (inherited.h). */
#ifndef SERVER_SOCKETS_H
#define SERVER_SOCKETS_H

#include "config/config.h"

#include <sys/types.h>
#include <sys/un.h>

#define SOCKETS_MAX 16
#define SOCKET_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)
#define SOCKET_NAME_BYTES 300 /* length of "HOST:PORT" in bytes. A host name has at most 253 characters */

struct sockets_options {
    const char *hosts; /* a list, separated by commas. An entry is an address, a host name, or "unix:" and a path. A
                          host name stands for all of its addresses */
    int port;          /* port of all TCP sockets. 0 means a port that is free on all addresses */
    bool reuse_port;   /* other processes may listen on the same port (SO_REUSEPORT), and a Unix socket in use may be
                          replaced */
    int unix_mode;     /* file permissions of the Unix sockets */
};

struct listening_socket {
    int fd;
    bool inherited; /* the service manager has opened the socket, and also keeps it open */
    /* The path of a Unix socket that the daemon has opened. Empty for all other sockets. */
    char path[SOCKET_PATH_BYTES];
    dev_t device; /* `device` and `inode` tell whether the file at `path` is still this socket */
    ino_t inode;
};

struct sockets {
    struct listening_socket list[SOCKETS_MAX];
    int count;
    int port;    /* port of the TCP sockets. 0 if there are none */
    bool shared; /* other processes can accept new connections when this process has stopped listening */
    /* "HOST:PORT" or "unix:PATH" for each host, or for each inherited socket. */
    char names[SOCKETS_MAX][SOCKET_NAME_BYTES];
    int n_names;
};

/* Opens the sockets that `options` describes. If there are inherited sockets, uses only these, and ignores `options`.
 * After success the caller must call sockets_close. */
int sockets_open(const struct sockets_options *options, struct sockets *sockets, struct error *error);

/* After this call, the kernel establishes no new connections. Connections that are already established can still be
 * accepted. Removes the files of Unix sockets. Inherited sockets stay unchanged. */
void sockets_retire(struct sockets *sockets);

/* Closes the sockets. Connections that were not accepted are reset, except on inherited sockets. */
void sockets_close(struct sockets *sockets);

#endif
