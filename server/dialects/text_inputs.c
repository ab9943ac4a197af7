#include "server/dialects/text_inputs.h"

#include "server/common/clock.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct served_model *served_model(const struct request *request)
{
    return &request->set->models[request->model_index];
}

const struct text_codec *text_inputs_codec(const struct request *request)
{
    return served_model(request)->codec;
}

/* Fails if the model has no tokenizer. */
static int check_tokenizer(struct request *request, const char *path)
{
    if (text_inputs_codec(request))
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s is a text, but model \"%s\" has no tokenizer: send lists of ids", path,
                       request_model_name(request));
}

/* Fails if the deadline has passed. Reading the texts of a request may take seconds. */
static int check_deadline(struct request *request)
{
    int64_t deadline_ns = request->job.deadline_ns;
    if (deadline_ns == 0 || clock_ns() < deadline_ns)
        return 0;
    return failure_set(&request->failure, FAILURE_EXPIRED, "the deadline passed while texts were read");
}

/* Charges the memory for the encoding to the budget. The next text reuses the memory of the encoding, so only the
 * largest text counts. */
static int charge(struct text_inputs *texts, const char *text, size_t length)
{
    int64_t bytes = text_codec_memory(text_inputs_codec(texts->request), text, length);
    if (bytes <= texts->charged)
        return 0;
    if (request_charge(texts->request, bytes - texts->charged) != 0)
        return -1;
    texts->charged = bytes;
    return check_deadline(texts->request);
}

int text_inputs_failed(struct request *request, const char *path, const struct error *error)
{
    if (strcmp(error->message, "out of memory") == 0)
        return failure_memory(&request->failure);
    return failure_set(&request->failure, FAILURE_INVALID, "%s: %s", path, error->message);
}

/* Checks the number of tokens against the limit. */
static int check_count(const struct text_inputs *texts, const char *path)
{
    struct request *request = texts->request;
    int64_t count = texts->encoding.count;
    if (count == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "%s has no tokens, at least one was expected", path);
    if (count <= texts->limit->tokens)
        return 0;
    if (!texts->options.truncate)
        return items_too_long(request, path, count, texts->limit);
    return failure_set(&request->failure, FAILURE_INVALID,
                       "the tokenizer of model \"%s\" adds %" PRId64
                       " special tokens to each text, but at most %" PRId64 " tokens are accepted",
                       request_model_name(request), count, texts->limit->tokens);
}

static int refuse_prompt(struct request *request, const char *name)
{
    char known[256] = "";
    const char *each;
    json_t *prompt;
    /* jansson cannot iterate over a constant object, so the cast removes `const`. The loop changes nothing. */
    json_object_foreach ((json_t *)served_model(request)->prompts, each, prompt)
        text_list_add(known, sizeof known, each);
    if (!*known)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "prompt_name is \"%.100s\", but model \"%s\" has no prompts", name,
                           request_model_name(request));
    return failure_set(&request->failure, FAILURE_INVALID,
                       "prompt_name is \"%.100s\"; the prompts of model \"%s\" are %s", name,
                       request_model_name(request), known);
}

/* Values of `input_type` that mean the same. query_types are for a question, document_types for a text to be
 * searched. */
static const char *const query_types[] = {"query", "search_query", NULL};
static const char *const document_types[] = {"document", "search_document", "passage", NULL};

static bool is_listed(const char *word, const char *const *list)
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list;
}

/* The name of the model's prompt for an input type. It is the type itself, or another word with the same meaning. NULL
 * if the model has no such prompt. */
static const char *prompt_of_type(const struct served_model *served, const char *type)
{
    if (json_object_get(served->prompts, type))
        return type;
    const char *const *others = is_listed(type, query_types)      ? query_types
                                : is_listed(type, document_types) ? document_types
                                                                  : NULL;
    for (; others && *others; others++)
        if (json_object_get(served->prompts, *others))
            return *others;
    return NULL;
}

/* Counts the key input_type as ignored. */
static int ignore_type(struct request *request, const char *type)
{
    if (request->ignored.strict)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "unknown key \"input_type\": model \"%s\" has no prompt \"%.100s\"",
                           request_model_name(request), type);
    ignored_keys_add(&request->ignored, "input_type");
    return 0;
}

int text_inputs_prompt(struct request *request, const char *name, const char *input_type,
                       struct text_inputs_options *options)
{
    const struct served_model *served = served_model(request);
    const char *typed = input_type ? prompt_of_type(served, input_type) : NULL;
    if (input_type && !typed && ignore_type(request, input_type) != 0)
        return -1;
    const char *wanted = name ? name : typed ? typed : served->default_prompt;
    if (!wanted)
        return 0;
    const json_t *prompt = json_object_get(served->prompts, wanted);
    if (!prompt)
        return refuse_prompt(request, wanted);
    options->prompt = json_string_value(prompt);
    options->prompt_length = json_string_length(prompt);
    return 0;
}

int text_inputs_truncation(struct request *request, const json_t *value, int64_t most, int64_t *tokens)
{
    *tokens = 0;
    if (!value || json_is_null(value))
        return 0;
    json_int_t given = json_integer_value(value);
    if (!json_is_integer(value) || given < -1 || given == 0)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "truncate_prompt_tokens is %s, -1 or an integer of at least 1 was expected",
                           json_is_integer(value) ? given == 0 ? "0" : "below -1" : json_kind(value));
    *tokens = given == -1 || given > most ? most : given;
    return 0;
}

/* Puts the prompt before the text. */
static int add_prompt(struct text_inputs *texts, const char **text, size_t *length)
{
    const struct text_inputs_options *options = &texts->options;
    if (options->prompt_length == 0)
        return 0;
    size_t bytes = options->prompt_length + *length; /* both texts are in memory, so the sum does not overflow */
    if (bytes > texts->prompted_bytes) {
        if (request_charge(texts->request, (int64_t)(bytes - texts->prompted_bytes)) != 0)
            return -1;
        free(texts->prompted);
        texts->prompted = malloc(bytes);
        texts->prompted_bytes = bytes;
        if (!texts->prompted)
            return failure_memory(&texts->request->failure);
    }
    memcpy(texts->prompted, options->prompt, options->prompt_length);
    memcpy(texts->prompted + options->prompt_length, *text, *length);
    *text = texts->prompted;
    *length = bytes;
    return 0;
}

int text_inputs_encode(struct text_inputs *texts, const char *path, const char *text, size_t length)
{
    struct request *request = texts->request;
    struct error error;
    if (check_tokenizer(request, path) != 0)
        return -1;
    if (length == 0 && texts->limit)
        return failure_set(&request->failure, FAILURE_INVALID, "%s is empty, at least one token was expected", path);
    const struct text_options options = {
        .add_special_tokens = texts->options.add_special_tokens,
        .truncate_left = texts->options.truncate_left,
        .max_tokens = texts->limit && texts->options.truncate ? texts->limit->tokens : TEXT_NO_LIMIT,
    };
    if (add_prompt(texts, &text, &length) != 0 || charge(texts, text, length) != 0)
        return -1;
    if (text_codec_encode(text_inputs_codec(request), text, length, &options, &texts->encoding, &error) != 0)
        return text_inputs_failed(request, path, &error);
    return texts->limit ? check_count(texts, path) : 0;
}

int32_t *text_inputs_ids(struct text_inputs *texts, const char *path, const char *text, size_t length, int64_t *count)
{
    if (text_inputs_encode(texts, path, text, length) != 0)
        return NULL;
    int32_t *ids = request_take(texts->request, texts->encoding.count, sizeof *ids);
    if (!ids)
        return NULL;
    text_encoding_ids(&texts->encoding, ids);
    *count = texts->encoding.count;
    return ids;
}

void text_inputs_end(struct text_inputs *texts)
{
    text_encoding_free(&texts->encoding);
    free(texts->prompted);
    texts->prompted = NULL;
    share_give(&texts->request->memory, texts->charged + (int64_t)texts->prompted_bytes);
    texts->charged = 0;
    texts->prompted_bytes = 0;
}
