/* body: reads a body whose route has inputs of a model. Limits the sizes of its lists, and names its items in messages.
 */
#ifndef SERVER_DIALECTS_NATIVE_BODY_H
#define SERVER_DIALECTS_NATIVE_BODY_H

#include "server/dialects/items.h"
#include "server/http/routes.h"
#include "server/text/json_body.h"

#include <jansson.h>

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

/* Writes the name of an item for messages. It is "inputs[3]", or "inputs" if the request contains one item, or
 * "inputs.sentences[3]" for /similarity. Returns `path`. */
#define NATIVE_PATH 64
const char *native_item_path(const struct native_inputs *inputs, int64_t item, char path[NATIVE_PATH]);

/* The route's name of the key `inputs`. */
const char *native_inputs_key(const struct native_inputs *inputs);

/* The longest item of an input. If the request has truncate_prompt_tokens, longer items of the first input are cut. */
struct items_limit native_limit(const struct request *request, const struct native_inputs *inputs, int index);

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

/* The inputs that the request names. Bit i stands for input i. */
unsigned native_given(const struct native_inputs *inputs);

#endif
