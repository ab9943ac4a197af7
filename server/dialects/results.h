/* results: sizes of what a request's results take, as floats and as text. All dialects share it. */
#ifndef SERVER_DIALECTS_RESULTS_H
#define SERVER_DIALECTS_RESULTS_H

#include "server/http/request.h"

/* Adds `rows` x `columns` results of one item to *floats. -1: request->failure, they are too many. Afterwards *floats
 * times RESULTS_FLOAT_BYTES does not overflow. */
#define RESULTS_FLOAT_BYTES 256
int results_count(struct request *request, int64_t rows, int64_t columns, int64_t *floats);

/* Adds count * each to *bytes. -1: request->failure, the sum is too large. */
int results_add(struct request *request, int64_t *bytes, int64_t count, int64_t each);

/* Most bytes of text for `floats` results in `vectors` rows. */
int64_t results_text_bytes(int64_t floats, int64_t vectors, bool base64);

/* Most bytes of `floats` results and of their text. */
int64_t results_bytes(int64_t floats, bool base64);

#endif
