#include "server/dialects/results.h"

/* Maximum numbers of bytes of text. FLOAT_TEXT: a float with its comma, such as -0.0000123456789. BASE64_TEXT: the four
 * bytes of a float as base64. VECTOR_TEXT: the characters around a vector, and the few bytes that the writer reserves
 * but does not need. */
enum { FLOAT_TEXT = 17, BASE64_TEXT = 6, VECTOR_TEXT = 96 };

static int too_large(struct request *request)
{
    return failure_set(&request->failure, FAILURE_INVALID,
                       "the size of the results exceeds 64 bits: request less at once");
}

int results_count(struct request *request, int64_t rows, int64_t columns, int64_t *floats)
{
    int64_t product;
    /* A float needs less than RESULTS_FLOAT_BYTES, including its text, its id and its position. Callers add the texts
     * of tokens with results_add. */
    if (__builtin_mul_overflow(rows, columns, &product) || __builtin_add_overflow(*floats, product, floats) ||
        *floats > INT64_MAX / RESULTS_FLOAT_BYTES)
        return too_large(request);
    return 0;
}

int results_add(struct request *request, int64_t *bytes, int64_t count, int64_t each)
{
    int64_t product;
    if (__builtin_mul_overflow(count, each, &product) || __builtin_add_overflow(*bytes, product, bytes))
        return too_large(request);
    return 0;
}

int64_t results_text_bytes(int64_t floats, int64_t vectors, bool base64)
{
    return floats * (base64 ? BASE64_TEXT : FLOAT_TEXT) + vectors * VECTOR_TEXT;
}

int64_t results_bytes(int64_t floats, bool base64)
{
    return floats * (int64_t)sizeof(float) + results_text_bytes(floats, 0, base64);
}
