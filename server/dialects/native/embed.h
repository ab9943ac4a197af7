/* embed: reads the keys of a body that concern vectors, and writes vectors into the answer. Used by all routes that
 * compute vectors. */
#ifndef SERVER_DIALECTS_NATIVE_EMBED_H
#define SERVER_DIALECTS_NATIVE_EMBED_H

#include "server/dialects/native/body.h"

/* The values of a body's keys that concern vectors. /embed and /v1/embeddings return one vector for each input. The
 * vector is the pooled last hidden state, or the output of a model that returns vectors.
 *
 * NATIVE_VECTOR_OPTIONS contains these keys for a table of options. The struct that such a table fills must begin with
 * a struct native_vectors. */
struct native_vectors {
    struct native_inputs inputs;
    bool normalize;
    const char *pooling; /* NULL means the model's pooling. No effect on a model that returns vectors */
    int64_t dimensions;  /* number of values of a vector that the answer contains, from the beginning. 0 means all */
    bool unwritten;      /* the answer does not contain the vectors, so their text needs no memory */
};
#define NATIVE_VECTOR_OPTIONS                                                   \
    {"normalize", OPTION_BOOL, offsetof(struct native_vectors, normalize)},     \
        {"pooling", OPTION_STRING, offsetof(struct native_vectors, pooling)},   \
    {                                                                           \
        "dimensions", OPTION_LIMIT, offsetof(struct native_vectors, dimensions) \
    }

/* Makes the items of the job, and allocates memory for the vector of each item. Sets request->options for
 * native_vector_write. On failure sets request->failure and returns -1. */
int native_vectors_want(struct request *request, struct native_vectors *vectors);

/* The vector of an item, as the model computed it. Call it after the job has run. Sets *count to the number of values
 * that the request wants. */
const float *native_vector(const struct request *request, int64_t item, int64_t *count);

/* Writes the first `dimensions` values of an item's vector into the answer. Normalises these values in place if the
 * request asks for it. Call it after the job has run, once for each item. */
void native_vector_write(struct request *request, int64_t item);

/* The `read` function of a route, after native_body has returned `json`. */
enum outcome native_embed_json(struct request *request, const json_t *json, const struct native_inputs *inputs);

#endif
