/* dialects: the list of all dialects, for http_open. */
#ifndef SERVER_DIALECTS_DIALECTS_H
#define SERVER_DIALECTS_DIALECTS_H

#include "server/http/routes.h"

/* The list ends with NULL. A path is served by the first dialect that has a prefix with which the path begins. The
 * native dialect matches every path, so it comes last. */
extern const struct dialect *const all_dialects[];

#endif
