/* dialects: the list of all dialects, for http_open. */
#ifndef SERVER_DIALECTS_DIALECTS_H
#define SERVER_DIALECTS_DIALECTS_H

#include "server/http/routes.h"

/* The list ends with NULL. The first route that matches serves a path, whatever dialect the route is in. If no route
 * matches, the first dialect with a prefix of the path writes the error. The native dialect comes last, and writes the
 * errors of all other paths. */
extern const struct dialect *const all_dialects[];

#endif
