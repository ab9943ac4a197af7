/* native: the daemon's own dialect. It contains the routes of text-embeddings-inference. native.c has the table of its
 * routes. native_embed.c, native_similarity.c, native_logits.c, native_targets.c, native_fill_mask.c, native_predict.c,
 * native_text.c, native_generate.c, native_info.c, native_index.c, native_front.c and native_absent.c contain the
 * functions of the routes. native_served.c says which routes serve a model. native_inputs.c, native_named.c and
 * native_pictures.c read the inputs. */
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
enum outcome native_classify_read(struct request *request);
int native_classify_answer(struct request *request);
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
enum outcome native_rerank(struct request *request);
enum outcome native_embed_sparse(struct request *request);
enum outcome native_tokenize(struct request *request);
enum outcome native_decode(struct request *request);
enum outcome native_generate_read(struct request *request);
enum outcome native_generate_stream_read(struct request *request);
int native_generate_answer(struct request *request);
enum outcome native_front(struct request *request);
enum outcome native_index(struct request *request);
enum outcome native_live(struct request *request);
enum outcome native_ready(struct request *request);
enum outcome native_info(struct request *request);
enum outcome native_metrics(struct request *request);

/* ---- Models (native_served.c) ---- */

/* What routes return. A vector is a pooled hidden state, or the output of a model that returns one vector per item. */
enum native_result { NATIVE_VECTORS, NATIVE_TOKENS, NATIVE_LOGITS, NATIVE_CLASSES, NATIVE_RESULT_COUNT };

/* Fails if the model does not return this result. The message names the routes that serve the model. On failure sets
 * request->failure and returns -1. */
int native_serves(struct request *request, enum native_result result);

/* Writes a JSON list of routes that serve the model and need only one input. Routes that serve every model are left
 * out, so the list tells models apart. */
void native_write_routes(struct writer *writer, const struct served_model *served);

/* Whether the model has classes with names. Then POST / does the same as POST /predict. */
bool native_is_classifier(const struct served_model *served);

const struct served_model *native_model(const struct request *request);
bool native_takes_pictures(const struct request *request);

/* Checks that the model's first input is a sequence: ids, or rows of floats. */
int native_takes_sequences(struct request *request);

/* The number of floats in a row of the first input. 1 if this input accepts ids. */
int64_t native_columns(const struct model_info *info);

/* Sets the first input of the item, which is a sequence, to `length` rows. */
void native_place(const struct request *request, struct engine_item *item, const void *data, int64_t length);

/* ---- Inputs of a model (native_inputs.c) ---- */

/* The keys of a body that concern inputs. A table of options contains one or two of these macros:
 *
 *     NATIVE_ENCODING_OPTIONS  how texts become ids: truncate, truncation_direction, prompt_name and so on
 *     NATIVE_TEXT_OPTIONS      ENCODING, and the key model
 *     NATIVE_READING_OPTIONS   TEXT, and encoding_format, for routes whose answer may be base64
 *     NATIVE_GIVEN_OPTIONS     inputs and embeddings
 *     NATIVE_SEQUENCE_OPTIONS  GIVEN, TEXT, and options, which is ignored
 *     NATIVE_INPUT_OPTIONS     GIVEN, READING, and options, which is ignored
 *
 * The struct that such a table fills must begin with a struct native_inputs. */
struct native_inputs {
    const char *key;         /* the route's name of the key `inputs`. NULL means "inputs" */
    const char *other_list;  /* another key of the route whose value may be a list. NULL if there is none */
    const char *number_list; /* another key of the route whose list items_read reads. NULL if there is none */
    const char *model;
    json_t *inputs, *embeddings;
    bool truncate, add_special_tokens; /* native_body sets their defaults */
    const char *truncation_direction;
    bool truncate_left; /* whether truncation_direction is left. Set by native_items */
    const char *prompt_name, *input_type;
    const char *encoding_format;
    json_t *truncate_prompt_tokens;
    int64_t most_tokens;      /* the value of truncate_prompt_tokens. 0 if it is absent. Set by native_items */
    struct items_lists lists; /* the lists of the body that are not parsed yet */
    bool many;                /* the request contains a list of items of some input. Set by native_items */
    bool takes_files;         /* the body may be the file of a picture in place of JSON. Set it before native_body */
    bool is_file;             /* the body is the file of a picture. Set by native_body */
    bool texts_in_lists;      /* `[["a text"]]` is a batch of one text. Set it before native_items */
    bool compared;            /* the inputs are the source of /similarity, followed by its sentences */
    bool named;               /* the route takes all inputs of a model by their names. Set it before native_body */

    /* By input of the model. native_options sets `given`, native_items the other members. */
    json_t *given[ENGINE_MAX_INPUTS]; /* the value under the input's name. NULL if there is none */
    bool listed[ENGINE_MAX_INPUTS];   /* the request contains a list of items of this input, not a single item */
    unsigned in_object;               /* bit i: input i is a member of the object `inputs` */
    const char *own_name;             /* the name in forward() under which the request has the first input. NULL if it
                                         came as `inputs` or `embeddings` */
    int shown;                        /* index of an input. Messages about an item name this input, such as "tgt[3]" */
    const char *shown_name;           /* the name of this input. NULL if it is the first input */
};
#define NATIVE_ENCODING_OPTIONS                                                                        \
    {"truncate", OPTION_BOOL, offsetof(struct native_inputs, truncate)},                               \
        {"truncation_direction", OPTION_STRING, offsetof(struct native_inputs, truncation_direction)}, \
        {"add_special_tokens", OPTION_BOOL, offsetof(struct native_inputs, add_special_tokens)},       \
        {"prompt_name", OPTION_STRING, offsetof(struct native_inputs, prompt_name)},                   \
        {"input_type", OPTION_STRING, offsetof(struct native_inputs, input_type)},                     \
    {                                                                                                  \
        "truncate_prompt_tokens", OPTION_JSON, offsetof(struct native_inputs, truncate_prompt_tokens)  \
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

/* Parses the body, finds its model, and sets the defaults of options, which may depend on the model. Returns a new
 * reference. On failure sets request->failure and returns NULL.
 *
 * `inputs` is NULL for a route without inputs of a model. Otherwise the caller sets inputs->key, inputs->other_list and
 * inputs->number_list first. This function sets inputs->lists and inputs->is_file, and calls native_defaults. If the
 * body is the file of a picture, the result is an empty object, and the model is the first one. */
json_t *native_body(struct request *request, struct native_inputs *inputs);

/* The model that the path names, as Azure's paths do. If it names none, returns `named`, the key `model` of the body.
 */
const char *native_path_model(const struct request *request, const char *named);

/* Sets the defaults of truncate and add_special_tokens. They may depend on the model. */
void native_defaults(const struct request *request, struct native_inputs *inputs);

/* Calls request_options for a body whose route takes named inputs. Names of the model's inputs are options, too, unless
 * the table has an option of this name. `table` has at most NATIVE_MOST_OPTIONS entries. `out` begins with a struct
 * native_inputs. */
#define NATIVE_MOST_OPTIONS 24
int native_options(struct request *request, const json_t *json, const struct option *table, size_t count, void *out);

/* Makes the job's items. Their first input comes from `inputs` or `embeddings`, or from the body if the body is the
 * file of a picture. Their other inputs come from `given`. The route must then say which results it wants. Here and
 * below, a failing function sets request->failure and returns -1. */
int native_items(struct request *request, struct native_inputs *inputs);

/* Finds out whether the vectors of the answer are written as base64. */
int native_encoding(struct request *request, const struct native_inputs *inputs, bool *base64);

/* Calls model_check for each item. The message names the input. */
int native_check(struct request *request, const struct native_inputs *inputs);

/* Writes the name of an item for messages. It is "inputs[3]", or "inputs" if the request contains one item, or
 * "inputs.sentences[3]" for /similarity. Returns `path`. */
#define NATIVE_PATH 64
const char *native_item_path(const struct native_inputs *inputs, int64_t item, char path[NATIVE_PATH]);

/* Cuts *length to the limit of an input. If the request does not ask for cutting, refuses a longer input. Sets *skip to
 * the number of rows that are cut off at the start. */
int native_fit(struct request *request, const struct native_inputs *inputs, int index, const char *path,
               int64_t *length, int64_t *skip);

/* Fails if a request may not have `count` inputs. */
int native_check_count(struct request *request, int64_t count);

/* Counts the elements of the list under a key of the body. The body need not be valid JSON. */
struct numbers_counts native_count(const struct request *request, const char *key);

/* Fails if a list is too long to be parsed by jansson, which makes an object of each element. The message calls the
 * list `name`. The limit is the largest of these numbers:
 * - NATIVE_MOST_TOKENS
 * - the most inputs of a request
 * - the longest input and the widest row of any model */
#define NATIVE_MOST_TOKENS (INT64_C(1) << 20)
int native_check_elements(struct request *request, const char *name, int64_t count);

/* Like native_check_elements, for the list under a key of the body, and for each list in it. Call it before jansson has
 * made an object of any element. */
int native_check_list(struct request *request, const char *key);

/* ---- Inputs by their names (native_named.c), for native_items ---- */

/* Finds the inputs that the request names. Sets inputs->inputs or inputs->embeddings to the first one. Fails if a name
 * is unknown or appears twice, or if an input is missing that the model requires. */
int native_named_find(struct request *request, struct native_inputs *inputs);

/* Reads all inputs but the first one, and adds them to the job's items. If only one input has several items, the items
 * of the others are repeated. */
int native_named_read(struct request *request, struct native_inputs *inputs);

/* The inputs that the request names. Bit i stands for input i. */
unsigned native_given(const struct native_inputs *inputs);

/* Like native_item_path, for an input other than the first one. */
const char *native_input_path(const struct request *request, const struct native_inputs *inputs, int index,
                              int64_t item, char path[NATIVE_PATH]);

/* ---- Log-probabilities of given ids (native_targets.c), for /logits ---- */

/* Makes each item request the log-probabilities of its targets. `targets` is the value of the key, `base64` the form of
 * the answer. Call it after native_items. */
int native_targets_want(struct request *request, struct native_inputs *inputs, json_t *targets, bool base64);

/* Writes the answer after the run. */
void native_targets_write(struct request *request, bool base64);

/* ---- Pictures (native_pictures.c) ---- */

/* Whether the body is the file of a picture, according to Content-Type or to the first bytes of the body. */
bool native_body_is_picture(const struct request *request);

/* These functions make the item of a model that accepts pictures. native_picture reads a file, native_picture_text
 * reads a file in base64. `path` names the picture in messages. */
int native_picture(struct request *request, const char *path, const void *file, size_t size, struct engine_item *item);
int native_picture_text(struct request *request, const char *path, const char *text, size_t length,
                        struct engine_item *item);

/* ---- Generation (native_generate.c), for POST / ---- */

/* Whether a body of POST / is a request to generate. In text-generation-inference, POST / is such a route. The body of
 * such a request has a key `stream`. If the model generates, a key `parameters` is enough. */
bool native_wants_generation(const struct request *request, const json_t *body);

/* Reads a body of POST / as a request to generate. The answer is a list with one element, unless it is streamed. */
enum outcome native_generate_root(struct request *request, bool streamed);

/* ---- Classes (native_predict.c), and POST / ---- */

/* These functions do what remains of a route's `read` after native_body. */
enum outcome native_predict_json(struct request *request, const json_t *json, const struct native_inputs *inputs);
enum outcome native_embed_json(struct request *request, const json_t *json, const struct native_inputs *inputs);

/* ---- Vectors (native_embed.c) ---- */

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

#endif
