/* cors: the headers that let a page of another origin read the daemon's answers. The setting --cors-allow-origin names
 * the origins. https://fetch.spec.whatwg.org/#http-cors-protocol defines the headers. */
#ifndef SERVER_CORS_H
#define SERVER_CORS_H

#include "server/http/routes.h"

/* Calls `add` with `context` for each CORS header of the answer to this request. Without the setting, the answer needs
 * no such headers. The strings are valid only during the call. `match` is the matched route if the method is OPTIONS,
 * and NULL for all other methods. */
void cors_headers(const struct request *request, const struct route_match *match,
                  void (*add)(void *context, const char *name, const char *value), void *context);

/* Whether a page of another origin sent the request, and the setting does not name this origin. A browser tells in the
 * header Sec-Fetch-Site whether the page has another origin, if the server uses TLS or runs on the same machine.
 * Clients that are not browsers do not send this header. The header stays correct behind a proxy, where a comparison of
 * Origin with Host could fail. */
bool cors_is_foreign(const struct request *request);

/* Whether the request has no header Origin, or an origin that the setting names. A browser sends Origin with each POST,
 * and clients that are not browsers do not send it. So among pages, only those that the setting names are trusted. */
bool cors_trusts(const struct request *request);

#endif
