/* exchange: one request and its answer on a connection, and the state that all exchanges share. Only http.c and
 * exchange.c include this header.
 *
 * Lifetime: an exchange lives from libmicrohttpd's first callback for a request to its completion callback. Both run on
 * the connection's event loop. While a worker or a thread of the batcher uses the exchange, its connection is
 * suspended. libmicrohttpd does not complete suspended connections, so the exchange cannot end meanwhile. The thread
 * ends the suspension with event_loop_resume, and must not touch the exchange afterwards.
 *
 * While a streamed answer is being sent, a thread of the batcher and the event loop use the exchange at the same time
 * (stream.h). Such an exchange lives until both threads have finished with it. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "server/http/connections.h"
#include "server/http/event_loop.h"
#include "server/http/gate.h"
#include "server/http/request.h"
#include "server/http/workers.h"

#include <microhttpd.h>

/* Shared by all exchanges of a server. */
struct exchange_shared {
    struct service service;
    struct budget bodies; /* limit on the memory of all bodies that are being received */
    struct gate gate;
    struct workers *workers;
    /* One thread, for work that may take minutes, such as loading a model. NULL if no route has such work. */
    struct workers *slow;
    struct connections *connections;
};

/* The callbacks of libmicrohttpd. Their first argument is the event loop, whose context is the struct exchange_shared.
 * exchange_target is called first, with the request target before decoding. It returns the context of the request. */
void *exchange_target(void *loop, const char *target, struct MHD_Connection *connection);
enum MHD_Result exchange_handle(void *loop, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *data, size_t *data_size, void **context);
void exchange_completed(void *loop, struct MHD_Connection *connection, void **context,
                        enum MHD_RequestTerminationCode code);

int connection_descriptor(struct MHD_Connection *connection);

#endif
