/* native_text: /tokenize and /decode. They use the tokenizer of a model, but run no model. */
#include "server/dialects/byte_tokenizer.h"
#include "server/dialects/native.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Most bytes of a token in the answer: {"id":258,"text":"\u0000","special":false,"start":12345678,"stop":…}. */
#define TOKEN_TEXT 96

struct tokenize_body {
    const char *model;
    json_t *inputs;
    bool add_special_tokens;
};

static const struct option tokenize_options[] = {
    {"inputs", OPTION_JSON, offsetof(struct tokenize_body, inputs)},
    {"model", OPTION_STRING, offsetof(struct tokenize_body, model)},
    {"add_special_tokens", OPTION_BOOL, offsetof(struct tokenize_body, add_special_tokens)}, /* there are none to add */
};

struct decode_body {
    const char *model;
    json_t *ids;
    bool skip_special_tokens;
};

static const struct option decode_options[] = {
    {"ids", OPTION_JSON, offsetof(struct decode_body, ids)},
    {"model", OPTION_STRING, offsetof(struct decode_body, model)},
    {"skip_special_tokens", OPTION_BOOL, offsetof(struct decode_body, skip_special_tokens)},
};

static int check_tokenizer(struct request *request)
{
    if (request->info->tokenizer == TOKENIZER_BYTE)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" has no tokenizer",
                       request_model_name(request));
}

/* Checks that a list of the request has at most as many entries as the server allows. */
static int check_most(struct request *request, const char *name, int64_t count)
{
    int64_t limit = request->service->options.settings->max_client_batch_size;
    if (count > limit)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s has %" PRId64 " entries, this server takes at most %" PRId64 " in one request", name,
                           count, limit);
    return 0;
}

/* The same, and that it has one at least. */
static int check_count(struct request *request, const char *name, const json_t *list)
{
    if (json_array_size(list) == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "%s is empty, at least one was expected", name);
    return check_most(request, name, (int64_t)json_array_size(list));
}

static void write_tokens(struct writer *writer, int offset, const char *text, size_t length)
{
    bool first = true;
    writer_text(writer, "[");
    for (size_t at = 0; at < length; first = false) {
        size_t start = at;
        int32_t id = byte_tokenizer_next(offset, text, length, &at);
        writer_text(writer, first ? "{\"id\":" : ",{\"id\":");
        writer_integer(writer, id);
        writer_text(writer, ",\"text\":");
        writer_string(writer, text + start, at - start);
        if (byte_tokenizer_special(offset, id)) {
            writer_text(writer, ",\"special\":true,\"start\":null,\"stop\":null}");
            continue;
        }
        writer_text(writer, ",\"special\":false,\"start\":");
        writer_integer(writer, (int64_t)start);
        writer_text(writer, ",\"stop\":");
        writer_integer(writer, (int64_t)at);
        writer_text(writer, "}");
    }
    writer_text(writer, "]");
}

/* Checks that one answer may hold the tokens of all texts. Each takes some 75 bytes of text. text-embeddings-inference
 * accepts bodies of at most 2 MB. */
static int check_tokens(struct request *request, int64_t tokens)
{
    int64_t most = native_max_length(request->info);
    most = most > NATIVE_MOST_TOKENS ? most : NATIVE_MOST_TOKENS;
    if (tokens > most)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "inputs has %" PRId64 " tokens, this route tells at most %" PRId64
                           " in one answer: send less at once",
                           tokens, most);
    return request_charge(request, tokens * TOKEN_TEXT);
}

/* Refuses too many texts before jansson makes an object of each. */
static int check_texts(struct request *request)
{
    struct numbers_counts counts = native_count(request, "inputs");
    return check_most(request, "inputs", counts.elements) == 0 ? native_check_list(request, "inputs") : -1;
}

static int tokenize(struct request *request, json_t *inputs)
{
    struct writer *writer = &request->answer;
    bool many = json_is_array(inputs);
    size_t count = many ? json_array_size(inputs) : 1;
    int64_t tokens = 0;
    int offset = request->info->byte_offset;
    if (!inputs || (!many && !json_is_string(inputs)))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "inputs is %s, a string or a list of strings was expected",
                           inputs ? json_kind(inputs) : "missing");
    if (many && check_count(request, "inputs", inputs) != 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        const json_t *text = many ? json_array_get(inputs, i) : inputs;
        if (!json_is_string(text))
            return failure_set(&request->failure, FAILURE_INVALID, "inputs[%zu] is %s, a string was expected", i,
                               json_kind(text));
        tokens += byte_tokenizer_count(offset, json_string_value(text), json_string_length(text));
    }
    if (check_tokens(request, tokens) != 0)
        return -1;
    writer_text(writer, "[");
    for (size_t i = 0; i < count; i++) {
        const json_t *text = many ? json_array_get(inputs, i) : inputs;
        if (i > 0)
            writer_text(writer, ",");
        write_tokens(writer, offset, json_string_value(text), json_string_length(text));
    }
    writer_text(writer, "]");
    return 0;
}

enum outcome native_tokenize(struct request *request)
{
    json_t *json = check_texts(request) == 0 ? native_body(request, NULL) : NULL;
    struct tokenize_body body = {.add_special_tokens = true};
    enum outcome outcome = OUTCOME_FAILED;
    if (!json)
        return OUTCOME_FAILED;
    if (request_options(request, json, tokenize_options, OPTION_COUNT(tokenize_options), &body) == 0 &&
        check_tokenizer(request) == 0 && tokenize(request, body.inputs) == 0)
        outcome = OUTCOME_ANSWERED;
    json_decref(json);
    return outcome;
}

/* Writes the text of a list of ids as a JSON string. A character may take several ids: invalid UTF-8 becomes U+FFFD
 * only after all bytes are in place. */
static int decode_list(struct request *request, const json_t *list, const char *path, bool skip_special)
{
    int64_t count = (int64_t)json_array_size(list);
    int offset = request->info->byte_offset, vocabulary = byte_tokenizer_vocabulary(offset);
    size_t length = 0;
    char *bytes = request_memory(request, count, BYTE_TOKENIZER_BYTES);
    if (!bytes)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        json_int_t id = json_integer_value(number);
        if (!json_is_integer(number))
            return failure_set(&request->failure, FAILURE_INVALID, "%s[%" PRId64 "] is %s, an integer id was expected",
                               path, i, json_kind(number));
        if (id < 0 || id >= vocabulary)
            return failure_set(&request->failure, FAILURE_INVALID,
                               "%s[%" PRId64 "] is %lld; ids of the byte tokenizer are at least 0 and below %d", path,
                               i, (long long)id, vocabulary);
        if (!skip_special || !byte_tokenizer_special(offset, (int32_t)id))
            length += (size_t)byte_tokenizer_bytes(offset, (int32_t)id, bytes + length);
    }
    writer_string(&request->answer, bytes, length);
    return 0;
}

/* Refuses too many lists or ids before jansson makes an object of each. */
static int check_ids(struct request *request)
{
    struct numbers_counts counts = native_count(request, "ids");
    if (counts.first == '[' && check_most(request, "ids", counts.elements) != 0)
        return -1;
    return native_check_elements(request, "ids", counts.values);
}

static int decode(struct request *request, json_t *ids, bool skip_special)
{
    bool many = json_is_array(json_array_get(ids, 0));
    size_t count = many ? json_array_size(ids) : 1;
    int64_t n_ids = 0;
    char path[NATIVE_PATH] = "ids";
    if (!json_is_array(ids))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "ids is %s, a list of ids or a list of those was expected",
                           ids ? json_kind(ids) : "missing");
    if ((json_array_size(ids) == 0 || many) && check_count(request, "ids", ids) != 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        n_ids += (int64_t)json_array_size(many ? json_array_get(ids, i) : ids);
    if (native_check_elements(request, "ids", n_ids) != 0)
        return -1;
    if (request_charge(request, 8 * (int64_t)request->body_length) != 0)
        return -1;
    writer_text(&request->answer, "[");
    for (size_t i = 0; i < count; i++) {
        const json_t *list = many ? json_array_get(ids, i) : ids;
        if (many)
            snprintf(path, sizeof path, "ids[%zu]", i);
        if (!json_is_array(list))
            return failure_set(&request->failure, FAILURE_INVALID, "%s is %s, a list of ids was expected", path,
                               json_kind(list));
        if (i > 0)
            writer_text(&request->answer, ",");
        if (decode_list(request, list, path, skip_special) != 0)
            return -1;
    }
    writer_text(&request->answer, "]");
    return 0;
}

enum outcome native_decode(struct request *request)
{
    json_t *json = check_ids(request) == 0 ? native_body(request, NULL) : NULL;
    struct decode_body body = {.skip_special_tokens = true};
    enum outcome outcome = OUTCOME_FAILED;
    if (!json)
        return OUTCOME_FAILED;
    if (request_options(request, json, decode_options, OPTION_COUNT(decode_options), &body) == 0 &&
        check_tokenizer(request) == 0 && decode(request, body.ids, body.skip_special_tokens) == 0)
        outcome = OUTCOME_ANSWERED;
    json_decref(json);
    return outcome;
}
