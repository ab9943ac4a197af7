/* inherited: listening sockets that the service manager has opened, and that the daemon inherits (sd_listen_fds(3)).
 * While the daemon restarts, the service manager keeps these sockets open. So the connections of clients wait during
 * the restart, and are not refused.
 *
 *     LISTEN_PID      the process for which the sockets are meant
 *     LISTEN_FDS      the number of sockets. Their descriptors begin at 3
 *     LISTEN_FDNAMES  a name for each socket, with colons between them. May be missing */
#ifndef SERVER_INHERITED_H
#define SERVER_INHERITED_H

#include "config/config.h"

#define INHERITED_NAME_BYTES 64

/* Sets *count to the number of inherited sockets. The number is 0 if the variables are missing, or meant for another
 * process. Returns -1 if a variable is not a number, if there are more than `limit` sockets, or if a descriptor is not
 * a listening stream socket. Sets the flags O_NONBLOCK and FD_CLOEXEC of the descriptors. */
int inherited_sockets(int limit, int *count, struct error *error);

int inherited_descriptor(int index);

/* Writes the name of the socket number `index` from LISTEN_FDNAMES, or "unknown" if it has no name. Returns the
 * buffer. */
const char *inherited_name(int index, char name[INHERITED_NAME_BYTES]);

#endif
