/* body: parses a request's body for a route that runs a model on inputs. Limits the length of its inputs and lists, and
 * names its inputs in messages. */
#ifndef SERVER_DIALECTS_NATIVE_BODY_H
#define SERVER_DIALECTS_NATIVE_BODY_H

#include "server/dialects/items.h"
#include "server/http/routes.h"
#include "server/text/json_body.h"

#include <jansson.h>

/* The values of a body's keys that concern inputs. A table of options (request_options) contains one or two of these
 * macros:
 *
 *     NATIVE_ENCODING_OPTIONS  how texts become ids: truncate, truncation_direction, prompt_name and so on
 *     NATIVE_TEXT_OPTIONS      those of NATIVE_ENCODING_OPTIONS, and model
 *     NATIVE_READING_OPTIONS   those of NATIVE_TEXT_OPTIONS, and encoding_format, because the answer may be base64
 *     NATIVE_GIVEN_OPTIONS     inputs and embeddings
 *     NATIVE_SEQUENCE_OPTIONS  those of NATIVE_GIVEN_OPTIONS and NATIVE_TEXT_OPTIONS, and options, which is ignored
 *     NATIVE_INPUT_OPTIONS     those of NATIVE_GIVEN_OPTIONS and NATIVE_READING_OPTIONS, and options, which is ignored
 *
 * The struct that such a table fills must begin with a struct native_inputs. native_body, native_options and
 * native_items fill the members that are not keys. */
struct native_inputs {
    const char *key; /* the key that replaces `inputs` on this route, such as "input". NULL if the key is "inputs" */
    const char *other_list;  /* another key of the route, with a list that jansson parses. NULL if there is none */
    const char *number_list; /* another key of the route, with a value that items_read reads. NULL if there is none */
    const char *model;
    json_t *inputs, *embeddings;
    bool truncate, add_special_tokens; /* native_body sets their defaults */
    const char *truncation_direction;
    bool truncate_left; /* truncation_direction is "Left". Set by native_items */
    const char *prompt_name, *input_type;
    const char *encoding_format;
    json_t *truncate_prompt_tokens;
    int64_t most_tokens; /* the value of truncate_prompt_tokens, at most the model's limit. 0 if the key is absent. Set
                            by native_items */
    struct items_lists lists; /* the lists of numbers of the body that jansson has not parsed */
    bool many;                /* an input of the request is a list of items. Set by native_items */
    bool takes_files;         /* the body may be a picture file instead of JSON. Set it before native_body */
    bool is_file;             /* the body is a picture file. Set by native_body */
    bool texts_in_lists;      /* an item may be a list of one text, as in `[["a text"]]`. Set it before native_items */
    bool compared;            /* the first item is source_sentence of /similarity, the other items are its sentences */
    bool named;               /* the keys of the body may be names of the model's inputs. Set it before native_body */

    /* Index i stands for input i of the model. native_options sets `given`, native_items the other members. */
    json_t *given[ENGINE_MAX_INPUTS]; /* the value of the key with the input's name. NULL if the key is absent */
    bool listed[ENGINE_MAX_INPUTS];   /* the request contains a list of items of this input, not a single item */
    unsigned in_object;               /* bit i is set if input i is a member of the object `inputs` */
    const char *own_name; /* the parameter of forward() that is the request's key for the first input. NULL if the key
                             is `inputs` or `embeddings` */
    int message_input;    /* index of an input. Messages about an item contain the name of this input, as in "tgt[3]" */
    const char *message_input_name; /* the name of input `message_input`. NULL if it is the first input */
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
 * `inputs` is NULL for a route that runs no model on inputs. Otherwise the caller first sets the members key,
 * other_list, number_list, takes_files and named. native_body sets inputs->lists and inputs->is_file, and calls
 * native_defaults. If the body is a picture file, the result is an empty object, and the model is the first model of
 * the server. */
json_t *native_body(struct request *request, struct native_inputs *inputs);

/* The model that the path names, as in Azure's paths. If the path names no model, returns `named`, the key `model` of
 * the body. */
const char *native_path_model(const struct request *request, const char *named);

/* Sets the defaults of truncate and add_special_tokens. They may depend on the model. */
void native_defaults(const struct request *request, struct native_inputs *inputs);

/* Writes the name of an item for messages to `path`. It is "inputs[3]", or "inputs" if the request is a single item.
 * For /similarity it is "inputs.sentences[3]". Returns `path`. */
#define NATIVE_PATH 64
const char *native_item_path(const struct native_inputs *inputs, int64_t item, char path[NATIVE_PATH]);

/* The key for the inputs on this route, such as "inputs" or "input". */
const char *native_inputs_key(const struct native_inputs *inputs);

/* The limit for the length of input `index` of an item. For the first input, it is the value of truncate_prompt_tokens
 * if the request contains this key. */
struct items_limit native_limit(const struct request *request, const struct native_inputs *inputs, int index);

/* Cuts *length to the limit of input `index`. If the request does not allow this, refuses an input that is longer. Sets
 * *skip to the number of rows that are cut off at the start. Refuses an empty input. */
int native_fit(struct request *request, const struct native_inputs *inputs, int index, const char *path,
               int64_t *length, int64_t *skip);

/* Fails if `count` is above the limit for the number of inputs of a request. */
int native_check_count(struct request *request, int64_t count);

/* Counts the elements of the list under a key of the body. The body need not be valid JSON. */
struct numbers_counts native_count(const struct request *request, const char *key);

/* Fails if a list has too many elements to be parsed by jansson, which allocates an object for each element. The
 * message calls the list `name`. The limit is the largest of these numbers:
 * - NATIVE_MAX_TOKENS
 * - the maximum number of inputs of a request
 * - the maximum length of the first input of any model
 * - the number of columns of the first input of any model */
#define NATIVE_MAX_TOKENS (INT64_C(1) << 20)
int native_check_elements(struct request *request, const char *name, int64_t count);

/* Like native_check_elements, for the list under a key of the body, and for each list in it. Call it before jansson
 * parses the body. */
int native_check_list(struct request *request, const char *key);

/* Reads a row of floats, which is a list of `columns` numbers, into `out`. Messages call it `path`[row]. */
int native_read_floats(struct request *request, const char *path, int64_t row, const json_t *list, int64_t columns,
                       float *out);

/* Refuses a number that is outside the range of a float. Returns -1. */
int native_refuse_float(struct request *request, const char *path, int64_t row, int64_t column, double value);

/* The inputs that the request names. Bit i is set if input i is among them. */
unsigned native_given(const struct native_inputs *inputs);

#endif
