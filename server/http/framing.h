/* framing: refuses requests whose end is not certain.
 *
 * A proxy in front of the daemon may read a header otherwise than libmicrohttpd does, and then sees another end. It
 * takes part of a body for the next request, perhaps of another client, or the reverse (request smuggling). So a
 * request that could be read in two ways is refused, and its connection is closed. */
#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include "server/common/failure.h"

#include <microhttpd.h>
#include <stdbool.h>

/* The request target, that is path and query, as the client sent it. */
struct framing_target {
    const char *end;  /* in libmicrohttpd's buffer: its terminator, or a NUL that the client sent */
    bool encoded_nul; /* it holds %00 */
};

/* To be called with the target before libmicrohttpd decodes it. */
struct framing_target framing_target_of(const char *target);

/* To be called in libmicrohttpd's first call for a request, with that call's method, URL and version. -1: `failure`, of
 * kind FAILURE_MALFORMED. */
int framing_check(struct MHD_Connection *connection, const struct framing_target *target, const char *method,
                  const char *url, const char *version, struct failure *failure);

/* Whether the request has a chunked body, whose end is never certain: its connection must end with its answer. After
 * framing_check. */
bool framing_is_chunked(struct MHD_Connection *connection);

/* To be called when the body is complete: refuses trailers. -1: `failure`, of kind FAILURE_MALFORMED. */
int framing_check_end(struct MHD_Connection *connection, struct failure *failure);

#endif
