/* native: the daemon's own dialect, which the clients of text-embeddings-inference speak too. The routes are spread
 * over native_embed.c, native_logits.c, native_text.c, native_info.c and native_index.c; native.c has their table. */
#ifndef SERVER_NATIVE_H
#define SERVER_NATIVE_H

#include "server/http/routes.h"
#include "server/text/json_body.h"
#include "server/text/numbers.h"

#include <jansson.h>

extern const struct dialect native_dialect;

enum outcome native_embed_read(struct request *request);
int native_embed_answer(struct request *request);
enum outcome native_embed_all_read(struct request *request);
int native_embed_all_answer(struct request *request);
enum outcome native_logits_read(struct request *request);
int native_logits_answer(struct request *request);
enum outcome native_tokenize(struct request *request);
enum outcome native_decode(struct request *request);
enum outcome native_index(struct request *request);
enum outcome native_live(struct request *request);
enum outcome native_ready(struct request *request);
enum outcome native_info(struct request *request);
enum outcome native_metrics(struct request *request);

/* ---- What the routes with a model's inputs share ---- */

/* The keys that name inputs, and how they are read. Tables of options have them as a row for a struct that begins with
 * native_inputs: NATIVE_INPUT_OPTIONS all of them, NATIVE_READING_OPTIONS those that every route calls the same. */
struct native_inputs {
    const char *key; /* what the route calls `inputs`; NULL: that */
    const char *model;
    json_t *inputs, *embeddings;
    bool truncate; /* native_body sets the default */
    const char *truncation_direction;
    const char *encoding_format;
    json_t *body;           /* borrowed */
    struct numbers numbers; /* when there are any, `inputs` or `embeddings` is an empty list in their place */
};
#define NATIVE_READING_OPTIONS                                                                         \
    {"model", OPTION_STRING, offsetof(struct native_inputs, model)},                                   \
        {"truncate", OPTION_BOOL, offsetof(struct native_inputs, truncate)},                           \
        {"truncation_direction", OPTION_STRING, offsetof(struct native_inputs, truncation_direction)}, \
    {                                                                                                  \
        "encoding_format", OPTION_STRING, offsetof(struct native_inputs, encoding_format)              \
    }
#define NATIVE_INPUT_OPTIONS                                                                             \
    {"inputs", OPTION_JSON, offsetof(struct native_inputs, inputs)},                                     \
        {"embeddings", OPTION_JSON, offsetof(struct native_inputs, embeddings)}, NATIVE_READING_OPTIONS, \
    {                                                                                                    \
        "options", OPTION_IGNORED, 0                                                                     \
    }

/* Parses the body and finds its model, whose settings may be defaults of options. The caller owns the object; NULL:
 * request->failure. `inputs`, whose key is set, gets the body and its numbers; NULL: the route has no such inputs. */
json_t *native_body(struct request *request, struct native_inputs *inputs);

/* Makes the job's items from `inputs` or `embeddings`; what they want is the route's to set. */
int native_items(struct request *request, struct native_inputs *inputs);

/* Whether vectors are wanted as base64. -1: request->failure. */
int native_encoding(struct request *request, const struct native_inputs *inputs, bool *base64);

/* model_check for each item; the message names the input. */
int native_check(struct request *request, const struct native_inputs *inputs);

/* "inputs[3]", or "inputs" where the request has but one and not in a list. Returns buffer. */
#define NATIVE_PATH 64
const char *native_item_path(const struct native_inputs *inputs, int64_t item, char buffer[NATIVE_PATH]);

/* What /embed and its like are told of the vectors that they give, one an input: its pooled last hidden state. Tables
 * of options have NATIVE_VECTOR_OPTIONS as a row for a struct that begins with native_vectors. */
struct native_vectors {
    struct native_inputs inputs;
    bool normalize;
    const char *pooling; /* NULL: the model's */
    int64_t dimensions;  /* 0: all that there are */
};
#define NATIVE_VECTOR_OPTIONS                                                     \
    {"normalize", OPTION_BOOL, offsetof(struct native_vectors, normalize)},       \
        {"pooling", OPTION_STRING, offsetof(struct native_vectors, pooling)},     \
    {                                                                             \
        "dimensions", OPTION_INTEGER, offsetof(struct native_vectors, dimensions) \
    }

/* Makes the job's items, each of which wants a vector, and keeps in request->options how vectors are written. */
int native_vectors_want(struct request *request, struct native_vectors *vectors);

/* Writes an item's after the run, cut and then normalised. Once for each item. */
void native_vector_write(struct request *request, int64_t item);

/* At most so many bytes of text do `floats` results in `vectors` rows become. */
int64_t native_text_bytes(int64_t floats, int64_t vectors, bool base64);

/* Bytes of `floats` results and of the text that they become. */
int64_t native_floats_bytes(int64_t floats, bool base64);

/* Memory of an input, `length` rows of it, once it is counted. NULL: request->failure. */
void *native_input_memory(struct request *request, int64_t length, size_t row_bytes);

/* Whether the model's first input is a sequence, which these routes give, and no image. -1: request->failure. */
int native_takes_sequences(struct request *request);

/* Rows that an item of a request with one input may have. */
int64_t native_max_length(const struct model_info *info);

/* Counts `rows` x `columns` results of one item towards *floats; -1: request->failure, more than can be. Up to
 * NATIVE_FLOAT_MOST bytes for each of *floats can be counted without overflow. */
#define NATIVE_FLOAT_MOST 256
int native_count_floats(struct request *request, int64_t rows, int64_t columns, int64_t *floats);

#endif
