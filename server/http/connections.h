/* connections: the table of open connections, by descriptor. When it is full, a new connection replaces the connection
 * that has been idle longest. So clients that connect and send nothing cannot block other clients. Any thread may call
 * the functions. */
#ifndef SERVER_CONNECTIONS_H
#define SERVER_CONNECTIONS_H

#include "server/common/budget.h"
#include "server/http/linger.h"

struct connections;

/* Allows at most `limit` connections, or fewer if the process may open too few descriptors. `room` must outlive the
 * table. */
int connections_open(int64_t limit, struct linger_room *room, struct connections **connections, struct error *error);
void connections_close(struct connections *connections); /* call it when no connection is open. NULL is harmless */
int64_t connections_limit(const struct connections *connections);

/* Admits a new descriptor as an idle connection. It may shut down the connection that has been idle longest. Returns a
 * number above 0 that identifies this admission, or 0 if there is no room. Later the caller must call
 * connections_closed, or connections_lost if libmicrohttpd did not accept the descriptor. Only one thread may call
 * connections_admit. */
int64_t connections_admit(struct connections *connections, int fd);

/* Call it when libmicrohttpd has accepted the descriptor. Shuts the connection down if a newer connection has meanwhile
 * replaced it. */
void connections_started(struct connections *connections, int fd);

/* Call it when libmicrohttpd could not accept the descriptor and has closed it. `admission` identifies the admission,
 * because a newer connection may already use the same descriptor. Does nothing if connections_closed was already called
 * for this admission. */
void connections_lost(struct connections *connections, int fd, int64_t admission);

/* A request is complete, so the connection is not idle. */
void connections_busy(struct connections *connections, int fd);
/* The connection is idle from this call on, and waits for more bytes. */
void connections_idle(struct connections *connections, int fd);
/* Records that the client may still be sending a body when its connection is closed. connections_closed then lets the
 * socket linger. */
void connections_unread(struct connections *connections, int fd);

/* The connection's request has ended. Removes the share of memory from the connection, and makes the connection
 * idle. */
void connections_end_request(struct connections *connections, int fd);

/* Sets the share of memory that the connection's request holds (budget.h). NULL removes the share. While a share is
 * set, the client is sending a body or receiving an answer, and may count as slow. */
void connections_set_share(struct connections *connections, int fd, struct share *share);

/* Shuts down connections of slow clients, largest shares first, until their shares have freed `bytes` of the budget. A
 * client is slow if it holds its share for longer than one second, plus one second for every 4 MiB of the share. If all
 * slow clients together hold less than `bytes`, returns false and shuts nothing down. */
bool connections_make_room(struct connections *connections, struct budget *budget, int64_t bytes);

/* Call it before the descriptor is closed. If bytes are unread, a copy of the descriptor stays open for a while
 * (linger.h). */
void connections_closed(struct connections *connections, int fd);

/* Waits until every connection that was admitted less than a second ago has sent a request. Waits for at most one
 * second after each admission, and for at most two seconds in all. No connection may be admitted meanwhile. */
void connections_settle(struct connections *connections);

/* Ends each connection that has no request in progress, also connections that become idle later. Waits until no
 * connection is idle, but at most `patience_ns`. A new connection may still send its first request during this time. No
 * connection may be admitted meanwhile. */
void connections_dismiss(struct connections *connections, int64_t patience_ns);

/* First calls connections_settle. Then ends all connections, and waits until they are closed. Bytes that have already
 * arrived are still read, and clients have `patience_ns` to receive their answers. No connection may be admitted
 * meanwhile. */
void connections_finish(struct connections *connections, int64_t patience_ns);

#endif
