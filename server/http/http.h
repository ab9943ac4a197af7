/* http: the daemon's face. Sockets, libmicrohttpd, routes and the way of a request to the batcher and back.
 *
 *     http_open -> http_ready -> … -> (http_unready ->) http_drain -> http_close
 *
 * http_open succeeded: http_close is owed. The batcher must still take jobs until http_close has returned, because
 * what was accepted before the drain may not have been submitted yet. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server/http/service.h"

struct http;

/* Listens (port 0: a free one); /health/ready is 503 until http_ready. */
int http_open(const struct service_options *options, struct http **http, struct error *error);
int http_port(const struct http *http);
void http_ready(struct http *http);

/* Readiness fails, and answers close their connections. Work is still accepted. */
void http_unready(struct http *http);

/* New work is refused with 503, what was accepted is answered. After http_unready nobody connects any more either, and
 * the call returns when the latest connections have brought their requests, or after two seconds. */
void http_drain(struct http *http);

/* Drains, waits until every accepted request is answered and its answer sent, which a client who does not read it
 * delays by ten seconds at most, stops. NULL is harmless. */
void http_close(struct http *http);

#endif
