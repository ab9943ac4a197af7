/* framing: refuses requests whose end is ambiguous.
 *
 * A proxy in front of the daemon may understand a header differently from libmicrohttpd. So the two may see different
 * ends of the request. One of them may treat a part of the body as the next request, possibly of another client. This
 * attack is called request smuggling. A request that could be read in two ways is refused, and its connection is
 * closed. */
#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include "server/common/failure.h"

#include <microhttpd.h>
#include <stdbool.h>

/* The request target (path and query) as the client sent it. */
struct framing_target {
    const char *end;  /* the first NUL behind the target in libmicrohttpd's buffer: the end of the target, or a NUL that
                         the client sent */
    bool encoded_nul; /* the target contains %00 */
};

/* Call it before libmicrohttpd decodes the target. */
struct framing_target framing_target_of(const char *target);

/* Call it when libmicrohttpd calls the handler for the first time for a request. Pass the method, URL and version of
 * that call. Returns -1 and sets a failure of kind FAILURE_MALFORMED if the request is ambiguous. */
int framing_check(struct MHD_Connection *connection, const struct framing_target *target, const char *method,
                  const char *url, const char *version, struct failure *failure);

/* Whether the request has a chunked body. The end of such a body is always ambiguous, so the connection must be closed
 * after the answer. Call it after framing_check. */
bool framing_is_chunked(struct MHD_Connection *connection);

/* Call it when the body is complete. Refuses trailers: returns -1 and sets a failure of kind FAILURE_MALFORMED. */
int framing_check_end(struct MHD_Connection *connection, struct failure *failure);

#endif
