/* query: reads numbers in the query of a URL. */
#ifndef SERVER_DIALECTS_V2_QUERY_H
#define SERVER_DIALECTS_V2_QUERY_H

#include "server/http/request.h"

/* Reads decimal digits at *text, and moves *text behind them. Returns the number. Returns -1 if there is no digit, or
 * if the number exceeds `most`. */
int64_t v2_query_digits(const char **text, int64_t most);

/* Reads the integer under a key of the query into *value. It must be in [least, most], where least >= 0. If the key is
 * absent, *value stays unchanged. On failure sets request->failure and returns -1. */
int v2_query_integer(struct request *request, const char *key, int64_t least, int64_t most, int64_t *value);

#endif
