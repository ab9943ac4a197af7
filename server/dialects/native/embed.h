/* embed: vectors, for all routes that return them. */
#ifndef SERVER_DIALECTS_NATIVE_EMBED_H
#define SERVER_DIALECTS_NATIVE_EMBED_H

#include "server/dialects/native/body.h"

/* The keys of a body that concern vectors. /embed and /v1/embeddings return one vector for each input. It is the pooled
 * last hidden state, or the output of a model that returns vectors. NATIVE_VECTOR_OPTIONS contains these keys for a
 * table of options. The struct that such a table fills must begin with a struct native_vectors. */
struct native_vectors {
    struct native_inputs inputs;
    bool normalize;
    const char *pooling; /* NULL means the model's pooling. It has no effect on a model that returns vectors */
    int64_t dimensions;  /* number of values of a vector that are returned. 0 means all */
    bool unwritten;      /* the answer does not contain the vectors, so their text needs no memory */
};
#define NATIVE_VECTOR_OPTIONS                                                   \
    {"normalize", OPTION_BOOL, offsetof(struct native_vectors, normalize)},     \
        {"pooling", OPTION_STRING, offsetof(struct native_vectors, pooling)},   \
    {                                                                           \
        "dimensions", OPTION_LIMIT, offsetof(struct native_vectors, dimensions) \
    }

/* Makes the job's items, and allocates memory for the vector of each item. Sets request->options for
 * native_vector_write. */
int native_vectors_want(struct request *request, struct native_vectors *vectors);

/* After the run, returns the first `dimensions` values of an item's vector, as the model computed them. Sets *count to
 * the number of values. */
const float *native_vector(const struct request *request, int64_t item, int64_t *count);

/* After the run, writes the first `dimensions` values of an item's vector into the answer. Normalises the values in
 * place before, if the request asks for it. Call it once for each item. */
void native_vector_write(struct request *request, int64_t item);

/* Does what remains of a route's `read` after native_body. */
enum outcome native_embed_json(struct request *request, const json_t *json, const struct native_inputs *inputs);

#endif
