/* exchange: one request and its answer on a connection, and what all of them share. Private to http.c and exchange.c.
 *
 * Lifetime: from libmicrohttpd's first call for a request to its completion callback, on the connection's event loop.
 * While other threads have the exchange (a worker, the batcher) its connection is suspended, and libmicrohttpd
 * completes no suspended connection: so it lives until the one event_loop_resume that ends each suspension, the last
 * thing that a thread does with it. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "server/http/connections.h"
#include "server/http/event_loop.h"
#include "server/http/gate.h"
#include "server/http/request.h"
#include "server/http/workers.h"

#include <microhttpd.h>

/* Shared by all exchanges of a server. */
struct server {
    struct service service;
    struct budget bodies; /* memory of bodies that are being read */
    struct gate gate;
    struct workers *workers;
    struct connections *connections;
};

/* libmicrohttpd's callbacks; their first argument is the event loop, whose context is the server. */
enum MHD_Result exchange_handle(void *loop, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *data, size_t *data_size, void **context);
void exchange_completed(void *loop, struct MHD_Connection *connection, void **context,
                        enum MHD_RequestTerminationCode code);

int connection_descriptor(struct MHD_Connection *connection);

#endif
