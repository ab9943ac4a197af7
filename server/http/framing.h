/* framing: whether it is certain where a request ends.
 *
 * A proxy in front that reads a header otherwise than libmicrohttpd does sees another end. It would then take part of a
 * body for the next request, perhaps of another client, or the other way round. So a request that could be read in two
 * ways is refused, and its connection closed. */
#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include "server/common/failure.h"

#include <microhttpd.h>

/* In libmicrohttpd's first call for a request, with the method and version of that call. -1: `failure`, of kind
 * FAILURE_MALFORMED. */
int framing_check(struct MHD_Connection *connection, const char *method, const char *version, struct failure *failure);

#endif
