/* dialects: the list of all dialects, for http_open. */
#ifndef SERVER_DIALECTS_DIALECTS_H
#define SERVER_DIALECTS_DIALECTS_H

#include "server/http/routes.h"

/* Ends with NULL. The first dialect with a prefix of the path serves it. The native dialect matches every path and
 * comes last. */
extern const struct dialect *const all_dialects[];

#endif
