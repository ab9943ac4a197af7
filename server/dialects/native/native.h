/* native: the daemon's own dialect, with the routes of text-embeddings-inference. native.c contains the table of its
 * routes, and routes.h declares their functions. */
#ifndef SERVER_DIALECTS_NATIVE_NATIVE_H
#define SERVER_DIALECTS_NATIVE_NATIVE_H

#include "server/http/routes.h"

extern const struct dialect native_dialect;

#endif
