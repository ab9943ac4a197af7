/* reply: the status, headers and bytes that answer a request. */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include "server/http/routes.h"

#include <microhttpd.h>

struct reply {
    int status;            /* the HTTP status. 0 if nothing was sent */
    int64_t retry_after_s; /* seconds for the header Retry-After of 429 and 503. 0 means one second */
    int64_t total_ns;      /* time from the arrival of the headers to the reply */
    int64_t bytes; /* bytes of the answer's body that were given to libmicrohttpd or the socket, without the framing of
                      HTTP */
    bool close;    /* close the connection after the reply */
};

/* Sends request->answer, or request->failure in the dialect's format, through libmicrohttpd. */
enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection, const struct route_match *match,
                           struct request *request);

/* Sends a stream with the status 200. `read` returns its pieces (MHD_create_response_from_callback). The jobs of the
 * request may still run, so the headers contain no times. */
enum MHD_Result reply_stream(struct reply *reply, struct MHD_Connection *connection, const struct request *request,
                             MHD_ContentReaderCallback read, void *context);

/* Writes a failure directly to the socket or its encryption, while libmicrohttpd cannot accept a response. The caller
 * then closes the connection. */
void reply_send_raw(struct reply *reply, struct MHD_Connection *connection, const struct route_match *match,
                    struct request *request);

#endif
