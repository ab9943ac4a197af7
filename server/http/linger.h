/* linger: the last moments of connections whose client was still sending when its answer was written. To close such a
 * socket makes the kernel reset it, and the client may lose the answer; so its bytes are read and dropped for a while.
 * Any thread may add. */
#ifndef SERVER_LINGER_H
#define SERVER_LINGER_H

#include "config/config.h"

struct linger_room;

int linger_open(struct linger_room **room, struct error *error);
void linger_add(struct linger_room *room, int fd); /* takes the descriptor; closes it at once where the room is full */
void linger_close(struct linger_room *room);       /* waits for those inside, two seconds at most. NULL is harmless */

#endif
