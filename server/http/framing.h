/* framing: refuses requests whose end is ambiguous.
 *
 * A proxy in front of the daemon may understand a header differently from libmicrohttpd. Then both see different ends
 * of the request. One of them takes a part of the body for the next request, perhaps of another client. This attack is
 * called request smuggling. So a request that could be read in two ways is refused, and its connection is closed. */
#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include "server/common/failure.h"

#include <microhttpd.h>
#include <stdbool.h>

/* The request target, which is path and query, as the client sent it. */
struct framing_target {
    const char *end;  /* points into libmicrohttpd's buffer: to the final NUL, or to a NUL that the client sent */
    bool encoded_nul; /* the target contains %00 */
};

/* Call it with the target before libmicrohttpd decodes it. */
struct framing_target framing_target_of(const char *target);

/* Call it in libmicrohttpd's first call for a request, with the method, URL and version of this call. Returns -1 and
 * sets a failure of kind FAILURE_MALFORMED if the request is ambiguous. */
int framing_check(struct MHD_Connection *connection, const struct framing_target *target, const char *method,
                  const char *url, const char *version, struct failure *failure);

/* Whether the request has a chunked body. The end of such a body is always ambiguous, so the connection must be closed
 * after the answer. Call it after framing_check. */
bool framing_is_chunked(struct MHD_Connection *connection);

/* Call it when the body is complete. Refuses trailers: returns -1 and sets a failure of kind FAILURE_MALFORMED. */
int framing_check_end(struct MHD_Connection *connection, struct failure *failure);

#endif
