/* linger: a late close for connections whose client was still sending when its answer was written. If a socket is
 * closed while bytes are unread, the kernel resets the connection, and the client may lose the answer. So a thread
 * reads and drops the client's bytes for a while, and then closes the socket. Any thread may call linger_add. */
#ifndef SERVER_LINGER_H
#define SERVER_LINGER_H

#include "config/config.h"

struct linger_room;

int linger_open(struct linger_room **room, struct error *error);
/* Takes over the descriptor. If the room is full, closes it at once. */
void linger_add(struct linger_room *room, int fd);
void linger_close(struct linger_room *room); /* waits for the sockets inside, at most two seconds. NULL is harmless */

#endif
