/* results: the number of bytes of a request's results, as floats and as text. All dialects use it. */
#ifndef SERVER_DIALECTS_RESULTS_H
#define SERVER_DIALECTS_RESULTS_H

#include "server/http/request.h"

/* Adds rows * columns, the number of floats of one item's results, to *floats. If the sum is too large, sets
 * request->failure and returns -1. On success, *floats times RESULTS_FLOAT_BYTES does not overflow. */
#define RESULTS_FLOAT_BYTES 256
int results_count(struct request *request, int64_t rows, int64_t columns, int64_t *floats);

/* Adds count * each to *bytes. If the sum is too large, sets request->failure and returns -1. */
int results_add(struct request *request, int64_t *bytes, int64_t count, int64_t each);

/* The maximum number of bytes of text for `floats` floats in `vectors` rows. */
int64_t results_text_bytes(int64_t floats, int64_t vectors, bool base64);

/* The maximum number of bytes of `floats` floats and of their text together. */
int64_t results_bytes(int64_t floats, bool base64);

#endif
