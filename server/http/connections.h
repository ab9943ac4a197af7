/* connections: the open ones, by descriptor. When there are as many as may be, the one that has been idle longest makes
 * room for the next, so that clients who connect and stay silent keep nobody else out. Any thread. */
#ifndef SERVER_CONNECTIONS_H
#define SERVER_CONNECTIONS_H

#include "server/common/budget.h"
#include "server/http/linger.h"

struct connections;

/* At most `limit` connections, fewer where the process may not have so many descriptors. `room` outlives them. */
int connections_open(int64_t limit, struct linger_room *room, struct connections **connections, struct error *error);
void connections_close(struct connections *connections); /* none is open. NULL is harmless */
int64_t connections_limit(const struct connections *connections);

/* A new descriptor becomes a connection, an idle one; the longest idle may have to go for it. Returns the admission's
 * number, above 0, and connections_closed is owed, or connections_lost where libmicrohttpd did not take it; 0: there is
 * no room. One thread admits. */
int64_t connections_admit(struct connections *connections, int fd);

/* libmicrohttpd has closed the descriptor, whose number may be another admission's by now, and may have told
 * connections_closed: then nothing is left to do. */
void connections_lost(struct connections *connections, int fd, int64_t admission);

void connections_busy(struct connections *connections, int fd);   /* a request is complete: it stays */
void connections_idle(struct connections *connections, int fd);   /* waits for bytes, and showed life just now */
void connections_unread(struct connections *connections, int fd); /* its client may still be sending a body */

/* From now on it is up to the client how long the share is held: its body comes in, or its answer goes out. NULL: no
 * longer. */
void connections_holds(struct connections *connections, int fd, struct share *share);

/* Breaks off the slow clients that hold most of the budget, until `bytes` of it are free. False: nothing was done, for
 * all that slow ones hold would not do. */
bool connections_make_room(struct connections *connections, struct budget *budget, int64_t bytes);

/* Before the descriptor is closed: where bytes are unread, a copy of it lingers. */
void connections_closed(struct connections *connections, int fd);

/* Waits until the newest connections have brought a request; each gets a second for it. Nothing is admitted meanwhile.
 */
void connections_settle(struct connections *connections);

/* Lets each connection read what it has, no more, and waits until all are closed; the newest ones get a second to say
 * what they were made for, and answers `patience_ns` to be read. Nothing is admitted meanwhile. */
void connections_finish(struct connections *connections, int64_t patience_ns);

#endif
