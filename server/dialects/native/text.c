/* text: /tokenize and /decode. They use the tokenizer of a model, but do not run the model. */
#include "server/dialects/native/body.h"
#include "server/dialects/native/routes.h"
#include "server/dialects/text_inputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum numbers of bytes of text. TOKEN_TEXT: a token in the answer,
 * {"id":258,"text":"","special":false,"start":12345678,"stop":…}, without its text. ESCAPE_TEXT: each byte of its text,
 * as an escape. */
enum { TOKEN_TEXT = 96, ESCAPE_TEXT = 6 };

struct tokenize_body {
    const char *model;
    json_t *inputs;
    const char *prompt_name, *input_type;
    bool add_special_tokens;
};

static const struct option tokenize_options[] = {
    {"inputs", OPTION_JSON, offsetof(struct tokenize_body, inputs)},
    {"model", OPTION_STRING, offsetof(struct tokenize_body, model)},
    {"add_special_tokens", OPTION_BOOL, offsetof(struct tokenize_body, add_special_tokens)},
    {"prompt_name", OPTION_STRING, offsetof(struct tokenize_body, prompt_name)},
    {"input_type", OPTION_STRING, offsetof(struct tokenize_body, input_type)},
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
    if (text_inputs_codec(request))
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" has no tokenizer",
                       request_model_name(request));
}

/* Fails if a list of the request has more entries than the server allows. */
static int check_most(struct request *request, const char *name, int64_t count)
{
    int64_t limit = request->service->options.settings->max_client_batch_size;
    if (count > limit)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s has %" PRId64 " entries, this server accepts at most %" PRId64 " in one request", name,
                           count, limit);
    return 0;
}

/* Like check_most, but also fails if the list is empty. */
static int check_count(struct request *request, const char *name, const json_t *list)
{
    if (json_array_size(list) == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "%s is empty, at least one was expected", name);
    return check_most(request, name, (int64_t)json_array_size(list));
}

/* Fails if one answer may not contain `count` tokens, the number of tokens of all texts so far.
 * text-embeddings-inference limits bodies to 2 MB instead. */
static int check_tokens(struct request *request, int64_t count)
{
    int64_t most = items_limit(request->info, 0).tokens;
    most = most > NATIVE_MAX_TOKENS ? most : NATIVE_MAX_TOKENS;
    if (count <= most)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "inputs has %" PRId64 " tokens, this route returns at most %" PRId64
                       " in one answer: send less at once",
                       count, most);
}

static void write_token(struct writer *writer, const struct text_token *token)
{
    writer_text(writer, "{\"id\":");
    writer_integer(writer, token->id);
    writer_text(writer, ",\"text\":");
    writer_string(writer, token->text, token->length);
    if (token->special) {
        writer_text(writer, ",\"special\":true,\"start\":null,\"stop\":null}");
        return;
    }
    writer_text(writer, ",\"special\":false,\"start\":");
    writer_integer(writer, token->begin);
    writer_text(writer, ",\"stop\":");
    writer_integer(writer, token->end);
    writer_text(writer, "}");
}

/* Writes a list with the tokens of the encoded text. */
static int write_tokens(struct text_inputs *texts)
{
    struct request *request = texts->request;
    struct text_token token;
    struct error error;
    int found;
    writer_text(&request->answer, "[");
    for (int64_t i = 0; (found = text_encoding_next(&texts->encoding, &token, &error)) > 0; i++) {
        if (request_charge(request, TOKEN_TEXT + ESCAPE_TEXT * (int64_t)token.length) != 0)
            return -1;
        if (i > 0)
            writer_text(&request->answer, ",");
        write_token(&request->answer, &token);
    }
    writer_text(&request->answer, "]");
    return found == 0 ? 0 : failure_memory(&request->failure);
}

/* Refuses too many texts before jansson allocates an object for each text. */
static int check_texts(struct request *request)
{
    struct numbers_counts counts = native_count(request, "inputs");
    return check_most(request, "inputs", counts.elements) == 0 ? native_check_list(request, "inputs") : -1;
}

static int tokenize_text(struct text_inputs *texts, const json_t *text, const char *path, int64_t *count)
{
    if (!json_is_string(text))
        return failure_set(&texts->request->failure, FAILURE_INVALID, "%s is %s, a string was expected", path,
                           json_kind(text));
    if (text_inputs_encode(texts, path, json_string_value(text), json_string_length(text)) != 0)
        return -1;
    *count += texts->encoding.count;
    return check_tokens(texts->request, *count) == 0 ? write_tokens(texts) : -1;
}

static int tokenize(struct text_inputs *texts, const json_t *inputs)
{
    struct request *request = texts->request;
    bool many = json_is_array(inputs);
    size_t n_texts = many ? json_array_size(inputs) : 1;
    int64_t count = 0;
    char path[NATIVE_PATH] = "inputs";
    if (!inputs || (!many && !json_is_string(inputs)))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "inputs is %s, a string or a list of strings was expected",
                           inputs ? json_kind(inputs) : "missing");
    if (many && check_count(request, "inputs", inputs) != 0)
        return -1;
    writer_text(&request->answer, "[");
    for (size_t i = 0; i < n_texts; i++) {
        if (many)
            snprintf(path, sizeof path, "inputs[%zu]", i);
        if (i > 0)
            writer_text(&request->answer, ",");
        if (tokenize_text(texts, many ? json_array_get(inputs, i) : inputs, path, &count) != 0)
            return -1;
    }
    writer_text(&request->answer, "]");
    return 0;
}

static int tokenize_body(struct request *request, const json_t *json)
{
    struct tokenize_body body = {.add_special_tokens = true};
    if (request_options(request, json, tokenize_options, OPTION_COUNT(tokenize_options), &body) != 0 ||
        check_tokenizer(request) != 0)
        return -1;
    struct text_inputs texts = {.request = request, .options.add_special_tokens = body.add_special_tokens};
    if (text_inputs_prompt(request, body.prompt_name, body.input_type, &texts.options) != 0)
        return -1;
    int status = tokenize(&texts, body.inputs);
    text_inputs_end(&texts);
    return status;
}

enum outcome native_tokenize(struct request *request)
{
    json_t *json = check_texts(request) == 0 ? native_body(request, NULL) : NULL;
    if (!json)
        return OUTCOME_FAILED;
    int status = tokenize_body(request, json);
    json_decref(json);
    return status == 0 ? OUTCOME_ANSWERED : OUTCOME_FAILED;
}

/* ---- /decode ---- */

/* Reads `list` into `ids`, which has as many elements. */
static int read_ids(struct request *request, const json_t *list, const char *path, int32_t *ids)
{
    int64_t most = text_codec_ids(text_inputs_codec(request));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *number = json_array_get(list, i);
        json_int_t id = json_integer_value(number);
        if (!json_is_integer(number))
            return failure_set(&request->failure, FAILURE_INVALID, "%s[%zu] is %s, an integer id was expected", path, i,
                               json_kind(number));
        if (id < 0 || id >= most)
            return failure_set(&request->failure, FAILURE_INVALID,
                               "%s[%zu] is %lld; ids of the model's tokenizer are at least 0 and below %" PRId64, path,
                               i, (long long)id, most);
        ids[i] = (int32_t)id;
    }
    return 0;
}

/* Writes the text of the ids as a JSON string. All ids are decoded at once, because a character may consist of several
 * tokens. Bytes that are not UTF-8 become U+FFFD. */
static int write_text(struct request *request, const int32_t *ids, int64_t count, bool skip_special)
{
    const struct text_codec *codec = text_inputs_codec(request);
    int64_t memory = text_codec_decode_memory(codec, ids, count);
    size_t length;
    struct error error;
    if (request_charge(request, memory) != 0)
        return -1;
    char *text = text_codec_decode(codec, ids, count, skip_special, &length, &error);
    int status =
        text ? request_charge(request, ESCAPE_TEXT * (int64_t)length) : text_inputs_failed(request, "ids", &error);
    if (status == 0)
        writer_string(&request->answer, text, length);
    free(text);
    share_give(&request->memory, memory);
    return status;
}

static int decode_list(struct request *request, const json_t *list, const char *path, bool skip_special)
{
    int64_t count = (int64_t)json_array_size(list);
    int32_t *ids = request_take(request, count, sizeof *ids);
    return ids && read_ids(request, list, path, ids) == 0 ? write_text(request, ids, count, skip_special) : -1;
}

/* Refuses too many lists or ids before jansson allocates an object for each. */
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
                           "ids is %s, a list of ids or a list of such lists was expected",
                           ids ? json_kind(ids) : "missing");
    if ((json_array_size(ids) == 0 || many) && check_count(request, "ids", ids) != 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        n_ids += (int64_t)json_array_size(many ? json_array_get(ids, i) : ids);
    if (native_check_elements(request, "ids", n_ids) != 0)
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
