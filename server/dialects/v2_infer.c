/* v2_infer: one call of a model, from its body to a job. The batch dimension becomes items, which the batcher mixes
 * with those of others; their results come to lie behind one another again, and so are the output tensors. */
#include "server/dialects/v2_call.h"

#include <string.h>

struct infer_body {
    const char *id;
    json_t *parameters, *inputs, *outputs;
};

static const struct option infer_options[] = {
    {"id", OPTION_STRING, offsetof(struct infer_body, id)},
    {"inputs", OPTION_LIST, offsetof(struct infer_body, inputs)},
    {"outputs", OPTION_LIST, offsetof(struct infer_body, outputs)},
    {"parameters", OPTION_OBJECT, offsetof(struct infer_body, parameters)},
    {"model_name", OPTION_IGNORED, 0}, /* KServe says again what the path says */
    {"model_version", OPTION_IGNORED, 0},
};

/* ---- Small things of JSON ---- */

int v2_read_bool(struct v2_reader *reader, const json_t *parameters, const char *name, bool *value)
{
    const json_t *found = json_object_get(parameters, name);

    if (!found || json_is_null(found))
        return 0;
    if (!json_is_boolean(found))
        return failure_set(&reader->request->failure, FAILURE_INVALID, "parameter %s is %s, true or false was expected",
                           name, json_kind(found));
    *value = json_is_true(found);
    return 0;
}

int v2_read_entry(struct v2_reader *reader, const char *key, size_t index, const json_t *json,
                  const struct option *table, size_t count, struct v2_entry *entry)
{
    struct failure *failure = &reader->request->failure;

    *entry = (struct v2_entry){0};
    if (!json_is_object(json))
        return failure_set(failure, FAILURE_INVALID, "%s[%zu] is %s, an object was expected", key, index,
                           json_kind(json));
    if (request_options(reader->request, json, table, count, entry) == 0 && entry->name)
        return 0;
    if (failure->kind == FAILURE_NONE)
        failure_set(failure, FAILURE_INVALID, "name is missing");
    return error_prefix(&failure->error, "%s[%zu]", key, index);
}

/* ---- The body ---- */

static int copy_id(struct v2_reader *reader, const char *id)
{
    char *copy;

    if (!id)
        return 0;
    copy = request_memory(reader->request, (int64_t)strlen(id) + 1, 1);
    if (!copy)
        return -1;
    reader->call->id = strcpy(copy, id);
    return 0;
}

static int read_json(struct v2_reader *reader, const json_t *json)
{
    struct infer_body body = {0};

    if (request_options(reader->request, json, infer_options, COUNT(infer_options), &body) ||
        v2_read_bool(reader, body.parameters, "binary_data_output", &reader->binary_output) ||
        copy_id(reader, body.id) || v2_read_inputs(reader, body.inputs) || v2_read_outputs(reader, body.outputs))
        return -1;
    return v2_make_items(reader);
}

/* Reads the JSON without the numbers in it, where these can be read without. False: all of it is to be read. Failures
 * but those of memory are of that kind: they happen again, and then say where. *why is such a failure, FAILURE_NONE
 * where it said nothing. */
static bool read_numbers(struct v2_reader *reader, size_t length, json_t **json, int *result, struct failure *why)
{
    struct numbers_place place = {.key = "data", .depth = 3}; /* of the object, its list `inputs`, an entry of that */
    struct request *request = reader->request;
    struct v2_reader blank = *reader;
    char rest[NUMBERS_REST];
    size_t rest_length;

    reader->n_numbers = numbers_find(request->body, length, place, reader->numbers, COUNT(reader->numbers));
    if (reader->n_numbers == 0 || reader->n_numbers == COUNT(reader->numbers)) /* there may be more */
        goto all;
    rest_length = numbers_rest(reader->numbers, reader->n_numbers, request->body, length, rest);
    if (memchr(rest, '\\', rest_length)) /* a key could be `data` that does not look like it */
        goto all;
    *json = request_json(request, rest, rest_length);
    *result = *json ? read_json(reader, *json) : -1;
    if (*result == 0 && reader->n_read == reader->n_numbers)
        return true;
    if (request->failure.kind == FAILURE_BACKEND || request->failure.kind == FAILURE_OVERLOADED)
        return true;
    json_decref(*json);
    *json = NULL;
    *why = request->failure;
    request->failure.kind = FAILURE_NONE;
    *reader->call = (struct v2_call){0};
all:
    *reader = blank;
    return false;
}

/* A body without JSON: the bytes of the one input that the model needs. */
static int read_raw(struct v2_reader *reader)
{
    struct v2_tensor *tensor = &reader->tensors[0];
    struct request *request = reader->request;

    tensor->bytes = reader->bytes;
    tensor->n_bytes = reader->n_bytes;
    reader->binary_output = true;
    if (v2_tensor_raw(request, &request->info->inputs[0], tensor))
        return -1;
    reader->values[0] = v2_tensor_values(request, tensor, &request->info->inputs[0]);
    if (!reader->values[0] || v2_read_outputs(reader, NULL))
        return -1;
    return v2_make_items(reader);
}

/* How much of the body is JSON: all of it unless a header says less. -1: request->failure. */
static int64_t json_length(struct request *request)
{
    const char *text = request->header(request, "Inference-Header-Content-Length");
    uint64_t length = 0;

    if (!text)
        return (int64_t)request->body_length;
    for (const char *digit = text; *digit; digit++) {
        if (*digit < '0' || *digit > '9' || length > request->body_length)
            length = UINT64_MAX / 16;
        else
            length = length * 10 + (uint64_t)(*digit - '0');
    }
    if (*text && length <= request->body_length)
        return (int64_t)length;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "Inference-Header-Content-Length is \"%.40s\", an integer of at most %zu was expected: the body "
                       "has no more bytes",
                       text, request->body_length);
}

enum outcome v2_infer_read(struct request *request)
{
    struct v2_reader reader = {.request = request};
    struct failure why = {.kind = FAILURE_NONE};
    json_t *json = NULL;
    int64_t length;
    int result;

    if (v2_model(request) != 0)
        return OUTCOME_FAILED;
    length = json_length(request);
    request->options = reader.call = request_memory(request, 1, sizeof *reader.call);
    if (length < 0 || !reader.call)
        return OUTCOME_FAILED;
    reader.bytes = request->body ? request->body + length : NULL;
    reader.n_bytes = (int64_t)request->body_length - length;
    if (length == 0 && reader.n_bytes > 0) {
        result = read_raw(&reader);
    } else if (!read_numbers(&reader, (size_t)length, &json, &result, &why)) {
        json = request_json(request, request->body, (size_t)length);
        if (request->failure.kind == FAILURE_TOO_LARGE && why.kind != FAILURE_NONE)
            request->failure = why; /* all of it would take too much memory, and is wrong in any case */
        result = json ? read_json(&reader, json) : -1;
    }
    if (result == 0)
        result = v2_want_outputs(request, reader.call);
    json_decref(json);
    return result == 0 ? OUTCOME_RUN : OUTCOME_FAILED;
}
