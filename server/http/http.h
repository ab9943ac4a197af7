/* http: the HTTP server. It contains the sockets, libmicrohttpd and the routes. It passes the job of a request to the
 * batcher, and sends the answer.
 *
 *     http_open -> http_ready -> … -> (http_unready or http_hand_over ->) http_drain -> http_close
 *
 * After a successful http_open, the caller must call http_close. The batcher must accept jobs until http_close has
 * returned, because a request that was accepted before the drain may submit its job late. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server/http/service.h"

struct http;

/* Listens on the hosts and the port of the settings. If the port is 0, chooses a free one. New connections wait until
 * http_ready, and are not refused. Clients may already have connected to an inherited socket. */
int http_open(const struct service_options *options, struct http **http, struct error *error);

#define HTTP_ADDRESS_BYTES 320
/* Writes the address number `index`, counted from 0: "http://HOST:PORT", "https://HOST:PORT" or "unix:PATH". Returns
 * false if the index is too large. Call it before the server drains. */
bool http_address(const struct http *http, int index, char text[HTTP_ADDRESS_BYTES]);

/* Accepts connections from now on. */
int http_ready(struct http *http, struct error *error);

/* Whether each event loop has begun a turn since the last call (event_loop.h). Only one thread may call it. */
bool http_turns(struct http *http);

/* After this call, /health/ready answers 503, and each answer closes its connection. Requests for work are still
 * accepted. */
void http_unready(struct http *http);

/* Whether another process shares the listening sockets, and accepts new connections when this process has stopped
 * listening. */
bool http_shares_sockets(const struct http *http);

/* Leaves new connections to the process that shares the sockets. Each open connection ends when its request is
 * answered, or at once if it is between two requests. Waits for this, at most `patience_ns`. No request is refused
 * meanwhile. */
void http_hand_over(struct http *http, int64_t patience_ns);

/* After this call, new requests for work (gate.h) are refused with 503. Accepted requests are still answered. If
 * http_unready was called before, this function first stops listening, and waits until the latest connections have sent
 * their requests. It waits at most two seconds. */
void http_drain(struct http *http);

/* Drains, waits until the answers of all accepted requests are sent, and stops. A client that does not read its answer
 * delays the end by at most eleven seconds. NULL is harmless. */
void http_close(struct http *http);

#endif
