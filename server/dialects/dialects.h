/* dialects: the list of all dialects, for http_open. A dialect is a group of routes whose errors have the same format
 * (routes.h). */
#ifndef SERVER_DIALECTS_DIALECTS_H
#define SERVER_DIALECTS_DIALECTS_H

#include "server/http/routes.h"

/* The list ends with NULL. The first route that matches a path serves it. The routes are tried in the order of the
 * dialects.
 *
 * If no route matches, the first dialect that has the beginning of the path among its prefixes writes the error. The
 * native dialect comes last, and writes the errors of all other paths. */
extern const struct dialect *const all_dialects[];

#endif
