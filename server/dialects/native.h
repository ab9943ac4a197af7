/* native: the daemon's own dialect, which clients of text-embeddings-inference speak, too. native.c has the table of
 * its routes. native_embed.c, native_similarity.c, native_logits.c, native_fill_mask.c, native_predict.c,
 * native_generate.c, native_text.c, native_info.c and native_index.c have the routes. native_served.c says which of
 * them serve a model. native_inputs.c and native_pictures.c read their inputs. */
#ifndef SERVER_NATIVE_H
#define SERVER_NATIVE_H

#include "server/dialects/items.h"
#include "server/dialects/text_inputs.h"
#include "server/http/routes.h"
#include "server/text/json_body.h"

#include <jansson.h>

extern const struct dialect native_dialect;

enum outcome native_root_read(struct request *request);
int native_root_answer(struct request *request);
enum outcome native_predict_read(struct request *request);
int native_predict_answer(struct request *request);
enum outcome native_embed_read(struct request *request);
int native_embed_answer(struct request *request);
enum outcome native_embed_all_read(struct request *request);
int native_embed_all_answer(struct request *request);
enum outcome native_logits_read(struct request *request);
int native_logits_answer(struct request *request);
enum outcome native_similarity_read(struct request *request);
int native_similarity_answer(struct request *request);
enum outcome native_fill_mask_read(struct request *request);
int native_fill_mask_answer(struct request *request);
enum outcome native_tokenize(struct request *request);
enum outcome native_decode(struct request *request);
enum outcome native_generate_read(struct request *request);
enum outcome native_generate_stream_read(struct request *request);
int native_generate_answer(struct request *request);
enum outcome native_index(struct request *request);
enum outcome native_live(struct request *request);
enum outcome native_ready(struct request *request);
enum outcome native_info(struct request *request);
enum outcome native_metrics(struct request *request);

/* ---- Models (native_served.c) ---- */

/* What routes give. A vector is pooled, or the model's own output. */
enum native_result { NATIVE_VECTORS, NATIVE_TOKENS, NATIVE_LOGITS, NATIVE_CLASSES, NATIVE_RESULT_COUNT };

/* Refuses a model that does not give this result. The message names the routes that serve the model. */
int native_serves(struct request *request, enum native_result result);

/* Whether the model has classes with names: POST / is then /predict. */
bool native_is_classifier(const struct served_model *served);

const struct served_model *native_model(const struct request *request);
bool native_takes_pictures(const struct request *request);

/* Checks that the model's first input is a sequence: ids, or rows of floats. */
int native_takes_sequences(struct request *request);

/* Floats of a row of the first input; 1 for ids. */
int64_t native_columns(const struct model_info *info);

/* Gives the item `length` rows as the first input, which is a sequence. */
void native_place(const struct request *request, struct engine_item *item, const void *data, int64_t length);

/* ---- Inputs of a model (native_inputs.c) ---- */

/* The keys about inputs. In tables of options, NATIVE_INPUT_OPTIONS stands for all of them, NATIVE_SEQUENCE_OPTIONS for
 * those of a route whose results are no vectors, NATIVE_READING_OPTIONS for those that every route of vectors names
 * alike, and NATIVE_ENCODING_OPTIONS for those that say how texts become ids. The struct that such a table fills begins
 * with native_inputs. */
struct native_inputs {
    const char *key;        /* the route's name for `inputs`; NULL: "inputs" */
    const char *other_list; /* another key of the route whose value may be a list; NULL: none */
    const char *model;
    json_t *inputs, *embeddings;
    bool truncate, add_special_tokens; /* native_body sets the defaults */
    const char *truncation_direction;
    bool truncate_left; /* the same; native_items sets it */
    const char *prompt_name;
    const char *encoding_format;
    struct items_lists lists; /* of the body */
    bool many;                /* the request gives a list of items, and not one item; native_items sets it */
    bool takes_files;         /* the body may be a picture's file, in place of JSON; set before native_body */
    bool is_file;             /* the body is one; native_body sets it */
    bool texts_in_lists;      /* `[["a text"]]` is a batch of one text; set before native_items */
    bool compared;            /* inputs of /similarity: the source, then the sentences */
};
#define NATIVE_ENCODING_OPTIONS                                                                        \
    {"truncate", OPTION_BOOL, offsetof(struct native_inputs, truncate)},                               \
        {"truncation_direction", OPTION_STRING, offsetof(struct native_inputs, truncation_direction)}, \
        {"add_special_tokens", OPTION_BOOL, offsetof(struct native_inputs, add_special_tokens)},       \
    {                                                                                                  \
        "prompt_name", OPTION_STRING, offsetof(struct native_inputs, prompt_name)                      \
    }
#define NATIVE_TEXT_OPTIONS {"model", OPTION_STRING, offsetof(struct native_inputs, model)}, NATIVE_ENCODING_OPTIONS
#define NATIVE_READING_OPTIONS                                                            \
    NATIVE_TEXT_OPTIONS,                                                                  \
    {                                                                                     \
        "encoding_format", OPTION_STRING, offsetof(struct native_inputs, encoding_format) \
    }
#define NATIVE_GIVEN_OPTIONS                                                  \
    {"inputs", OPTION_JSON, offsetof(struct native_inputs, inputs)},          \
    {                                                                         \
        "embeddings", OPTION_JSON, offsetof(struct native_inputs, embeddings) \
    }
#define NATIVE_SEQUENCE_OPTIONS                \
    NATIVE_GIVEN_OPTIONS, NATIVE_TEXT_OPTIONS, \
    {                                          \
        "options", OPTION_IGNORED, 0           \
    }
#define NATIVE_INPUT_OPTIONS                      \
    NATIVE_GIVEN_OPTIONS, NATIVE_READING_OPTIONS, \
    {                                             \
        "options", OPTION_IGNORED, 0              \
    }

/* Parses the body and finds its model, whose settings may be defaults of options. Returns a new reference; NULL:
 * request->failure. Sets inputs->lists, ->truncate and ->add_special_tokens; inputs->key and ->other_list are set
 * before. `inputs` is NULL for a route without inputs of a model. For a picture's file it is an empty object, and the
 * first model. */
json_t *native_body(struct request *request, struct native_inputs *inputs);

/* Sets the defaults of options. native_body does this for inputs that it gets. */
void native_defaults(const struct request *request, struct native_inputs *inputs);

/* Makes the job's items from `inputs` or `embeddings`, or from the body's file. The route then sets the results that it
 * wants. -1: request->failure, here and below. */
int native_items(struct request *request, struct native_inputs *inputs);

/* Whether the vectors of the answer are base64. */
int native_encoding(struct request *request, const struct native_inputs *inputs, bool *base64);

/* model_check for each item. The message names the input. */
int native_check(struct request *request, const struct native_inputs *inputs);

/* Writes "inputs[3]", or "inputs" if the request gives one item; of /similarity "inputs.sentences[3]". Returns `path`.
 */
#define NATIVE_PATH 64
const char *native_item_path(const struct native_inputs *inputs, int64_t item, char path[NATIVE_PATH]);

/* Counts the list under a key of the body, which need not be JSON. */
struct numbers_counts native_count(const struct request *request, const char *key);

/* Most elements of one list that jansson reads: NATIVE_MOST_TOKENS, or the inputs of a request or the longest input of
 * any model if these are more. */
#define NATIVE_MOST_TOKENS (INT64_C(1) << 20)
int64_t native_most_elements(const struct request *request);

/* Refuses `count` > native_most_elements. The message calls the list `name`. */
int native_check_elements(struct request *request, const char *name, int64_t count);

/* The same for the list under a key of the body, and for each list in it. No element is an object yet. */
int native_check_list(struct request *request, const char *key);

/* ---- Pictures (native_pictures.c) ---- */

/* Whether the body is a picture's file: by Content-Type, or by the body's first bytes. */
bool native_body_is_picture(const struct request *request);

/* Make the item of a model that takes pictures, from a file or from base64 of one. `path` names it in messages. */
int native_picture(struct request *request, const char *path, const void *file, size_t size, struct engine_item *item);
int native_picture_text(struct request *request, const char *path, const char *text, size_t length,
                        struct engine_item *item);

/* ---- Generation (native_generate.c), for POST / ---- */

/* Whether a body of POST / is a request to generate. text-generation-inference has its compatible route there. Such a
 * body has a key `stream`, or `parameters` if the model generates. */
bool native_wants_generation(const struct request *request, const json_t *body);

/* Reads the body again. The answer is a list of one unless it is streamed. */
enum outcome native_generate_root(struct request *request, bool streamed);

/* ---- Classes (native_predict.c), and POST / ---- */

/* The rest of a `read`, after native_body. */
enum outcome native_predict_json(struct request *request, const json_t *json, const struct native_inputs *inputs);
enum outcome native_embed_json(struct request *request, const json_t *json, const struct native_inputs *inputs);

/* ---- Vectors (native_embed.c) ---- */

/* The keys about vectors. /embed and /v1/embeddings give one vector for each input: its pooled last hidden state, or
 * the output of a model that gives vectors. In tables of options, NATIVE_VECTOR_OPTIONS stands for these keys. The
 * struct that such a table fills begins with native_vectors. */
struct native_vectors {
    struct native_inputs inputs;
    bool normalize;
    const char *pooling; /* NULL: the model's. No effect on a model that gives vectors */
    int64_t dimensions;  /* values of a vector that are kept; 0: all */
    bool unwritten;      /* the answer has no vectors, so their text takes no memory */
};
#define NATIVE_VECTOR_OPTIONS                                                     \
    {"normalize", OPTION_BOOL, offsetof(struct native_vectors, normalize)},       \
        {"pooling", OPTION_STRING, offsetof(struct native_vectors, pooling)},     \
    {                                                                             \
        "dimensions", OPTION_INTEGER, offsetof(struct native_vectors, dimensions) \
    }

/* Makes the job's items and gives each memory for its vector. Sets request->options for native_vector_write. */
int native_vectors_want(struct request *request, struct native_vectors *vectors);

/* The vector of an item after the run, as the model gives it, cut to `dimensions`: *count values. */
const float *native_vector(const struct request *request, int64_t item, int64_t *count);

/* Writes the vector of an item after the run: cut to `dimensions`, then normalised in place. Call once for each item.
 */
void native_vector_write(struct request *request, int64_t item);

#endif
