#include "server/dialects/v2/infer.h"

#include "server/dialects/v2/entry.h"
#include "server/dialects/v2/inputs.h"
#include "server/dialects/v2/model.h"
#include "server/dialects/v2/outputs.h"
#include "server/dialects/v2/texts.h"

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
    {"model_name", OPTION_IGNORED, 0}, /* clients of KServe repeat the path's model in this key */
    {"model_version", OPTION_IGNORED, 0},
};

/* Copies the id into request memory, because the answer contains it. */
static int copy_id(struct request *request, const char *id, struct v2_outputs *outputs)
{
    if (!id)
        return 0;
    char *copy = request_memory(request, (int64_t)strlen(id) + 1, 1);
    if (!copy)
        return -1;
    outputs->id = strcpy(copy, id);
    return 0;
}

static int read_body(struct v2_inputs *inputs, const json_t *json, struct v2_outputs *outputs)
{
    struct request *request = inputs->request;
    struct infer_body body = {0};
    bool binary = false;
    if (request_options(request, json, infer_options, OPTION_COUNT(infer_options), &body) != 0 ||
        v2_entry_bool(request, body.parameters, "binary_data_output", &binary) != 0 ||
        v2_texts_options(request, body.parameters, &inputs->options) != 0 || copy_id(request, body.id, outputs) != 0 ||
        v2_inputs_read(inputs, body.inputs) != 0)
        return -1;
    return v2_outputs_read(request, body.outputs, binary, outputs);
}

/* Reads a body whose first `length` bytes are JSON. The other bytes are binary data of tensors. */
static int read_json(struct v2_inputs *inputs, size_t length, struct v2_outputs *outputs)
{
    static const char *const keys[] = {"data", NULL};
    /* An entry of the list `inputs` has depth 3, because the body has depth 1 and the list has depth 2. */
    const struct numbers_place place = {.keys = keys, .least_depth = 3, .most_depth = 3};
    json_t *json = items_parse(inputs->request, length, place, NULL, NULL, &inputs->lists);
    if (!json)
        return -1;
    int status = read_body(inputs, json, outputs);
    if (status == 0)
        status = v2_inputs_place(inputs);
    json_decref(json);
    return status;
}

static int read_raw(struct v2_inputs *inputs, struct v2_outputs *outputs)
{
    if (v2_inputs_read_raw(inputs) != 0 || v2_outputs_read(inputs->request, NULL, true, outputs) != 0)
        return -1;
    return v2_inputs_place(inputs);
}

/* The number of bytes of JSON at the start of the body. It is the value of the header Inference-Header-Content-Length.
 * Without this header, the whole body is JSON. On failure sets request->failure and returns -1. */
static int64_t json_length(struct request *request)
{
    const char *text = request->header(request, "Inference-Header-Content-Length");
    uint64_t length = 0;
    if (!text)
        return (int64_t)request->body_length;
    for (const char *digit = text; *digit; digit++) {
        if (*digit < '0' || *digit > '9' || length > request->body_length)
            length = UINT64_MAX / 16; /* a number above any body's length that does not overflow in the next step */
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
    if (v2_model(request) != 0)
        return OUTCOME_FAILED;
    int64_t length = json_length(request);
    struct v2_outputs *outputs = request->options = request_memory(request, 1, sizeof *outputs);
    if (length < 0 || !outputs)
        return OUTCOME_FAILED;
    struct v2_inputs inputs = {
        .request = request,
        .bytes = request->body ? request->body + length : NULL,
        .n_bytes = (int64_t)request->body_length - length,
        .options = {.truncate = request_auto_truncate(request), .add_special_tokens = true},
    };
    bool raw = length == 0 && inputs.n_bytes > 0;
    int status = raw ? read_raw(&inputs, outputs) : read_json(&inputs, (size_t)length, outputs);
    if (status == 0)
        status = v2_outputs_want(request, outputs);
    return status == 0 ? OUTCOME_RUN : OUTCOME_FAILED;
}

int v2_infer_answer(struct request *request)
{
    v2_outputs_write(request, request->options);
    return 0;
}
