/* linger: a late close for connections whose client was still sending when its answer was written. If a socket is
 * closed while bytes are unread, the kernel resets the connection, and the client may lose the answer. So a thread
 * reads and drops the client's bytes for at most two seconds, and then closes the socket. Until then, the socket
 * lingers. Any thread may call linger_add. */
#ifndef SERVER_LINGER_H
#define SERVER_LINGER_H

#include "config/config.h"

struct linger_room;

int linger_open(struct linger_room **room, struct error *error);
/* Takes over the descriptor, and lets its socket linger. If too many sockets linger already, closes it at once. */
void linger_add(struct linger_room *room, int fd);
void linger_close(struct linger_room *room); /* waits at most two seconds for the sockets that linger, then ends the
                                                thread. NULL is harmless */

#endif
