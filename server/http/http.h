/* http: the HTTP server. Sockets, libmicrohttpd, routes, and the way of a request to the batcher and back.
 *
 *     http_open -> http_ready -> … -> (http_unready ->) http_drain -> http_close
 *
 * After a successful http_open, http_close is owed. The batcher must take jobs until http_close has returned, because a
 * request that was accepted before the drain may submit its job late. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server/http/service.h"

struct http;

/* Listens on the settings' port; 0: a free one. /health/ready is 503 until http_ready. */
int http_open(const struct service_options *options, struct http **http, struct error *error);
int http_port(const struct http *http); /* the port that it listens on */
void http_ready(struct http *http);

/* /health/ready is 503 from now on, and each answer closes its connection. Work is still accepted. */
void http_unready(struct http *http);

/* From now on new work is refused with 503, and accepted work is answered. After http_unready it also stops listening
 * first, and waits until the latest connections have brought their requests, at most two seconds. */
void http_drain(struct http *http);

/* Drains, waits until every accepted request is answered and its answer sent, and stops. A client that does not read
 * its answer delays this by ten seconds at most. NULL is harmless. */
void http_close(struct http *http);

#endif
