/* cors: the headers that let a page of another origin read the daemon's answers. The setting --cors-allow-origin names
 * the origins. https://fetch.spec.whatwg.org/#http-cors-protocol defines the headers. */
#ifndef SERVER_CORS_H
#define SERVER_CORS_H

#include "server/http/routes.h"

/* Calls `add` with `context` for each header of the answer to this request. Without the setting, there are none. The
 * strings are valid only during the call. `match` is NULL if the answer is not one to OPTIONS. */
void cors_headers(const struct request *request, const struct route_match *match,
                  void (*add)(void *context, const char *name, const char *value), void *context);

/* Whether the browser says that a page of another origin sent the request, and the setting does not name this origin.
 * Browsers tell this to servers with TLS, and to those on the same machine (Sec-Fetch-Site). It holds behind any proxy,
 * unlike a comparison of the origin with the header Host. Other clients do not send this header. */
bool cors_is_foreign(const struct request *request);

/* Whether no page of another origin than those of the setting sent the request. Browsers name the origin of each POST,
 * and other clients name none. */
bool cors_trusts(const struct request *request);

#endif
