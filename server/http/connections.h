/* connections: the table of open connections, by descriptor. When it is full, a new connection replaces the one that
 * has been idle longest. So clients that connect and stay silent cannot keep others out. Any thread. */
#ifndef SERVER_CONNECTIONS_H
#define SERVER_CONNECTIONS_H

#include "server/common/budget.h"
#include "server/http/linger.h"

struct connections;

/* Allows at most `limit` connections, or fewer if the process's limit of descriptors is lower. `room` must outlive the
 * table. */
int connections_open(int64_t limit, struct linger_room *room, struct connections **connections, struct error *error);
void connections_close(struct connections *connections); /* when none is open. NULL is harmless */
int64_t connections_limit(const struct connections *connections);

/* Admits a new descriptor as an idle connection, and may shut down the longest idle one for it. Returns the number of
 * the admission, above 0. The caller then owes connections_closed, or connections_lost if libmicrohttpd did not take
 * the descriptor. 0: there is no room. Only one thread admits. */
int64_t connections_admit(struct connections *connections, int fd);

/* To be called when libmicrohttpd has taken the descriptor. Shuts it down if it was evicted meanwhile. */
void connections_started(struct connections *connections, int fd);

/* libmicrohttpd could not take the descriptor, and has closed it. It may have reported this to connections_closed
 * before; then nothing is left to do. A later admission may have the descriptor by now, so `admission` tells which one
 * is meant. */
void connections_lost(struct connections *connections, int fd, int64_t admission);

void connections_busy(struct connections *connections, int fd);   /* a request is complete: it is not idle */
void connections_idle(struct connections *connections, int fd);   /* idle from now on: it waits for more bytes */
void connections_unread(struct connections *connections, int fd); /* its client may still be sending a body */

/* Sets the share of memory that the connection's request holds. While it is set, the share counts as held by a possibly
 * slow client, who is sending its body or receiving its answer. NULL: no share. */
void connections_holds(struct connections *connections, int fd, struct share *share);

/* Shuts down slow clients until `bytes` of the budget are free, in the order of the bytes that they hold, largest
 * first. False: nothing was done, because all slow clients together hold less than `bytes`. */
bool connections_make_room(struct connections *connections, struct budget *budget, int64_t bytes);

/* To be called before the descriptor is closed. If bytes are unread, a copy of the descriptor lingers (linger.h). */
void connections_closed(struct connections *connections, int fd);

/* Waits until the newest connections have brought a request, at most a second for each. Nothing is admitted
 * meanwhile. */
void connections_settle(struct connections *connections);

/* Ends all connections, and waits until they are closed. First it settles. Then each connection may still read the
 * bytes that have arrived, and answers may be received for `patience_ns`. Nothing is admitted meanwhile. */
void connections_finish(struct connections *connections, int64_t patience_ns);

#endif
