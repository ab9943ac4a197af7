/* infer: see infer.h. */
#include "tests/http/infer.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TENSORS 8 /* maximum number of inputs or outputs of a call */

/* ---- Calls ---- */

int64_t infer_elements(const struct infer_tensor *tensor)
{
    int64_t count = 1;
    for (int d = 0; d < tensor->rank; d++)
        count *= tensor->shape[d];
    return count;
}

static json_t *describe(const struct infer_tensor *tensor)
{
    json_t *shape = json_array();
    for (int d = 0; d < tensor->rank; d++)
        json_array_append_new(shape, json_integer(tensor->shape[d]));
    return json_pack("{s:s, s:s, s:o, s:{s:I}}", "name", tensor->name, "datatype", tensor->datatype, "shape", shape,
                     "parameters", "binary_data_size", (json_int_t)tensor->bytes);
}

struct infer_request infer_body_of(const struct infer_tensor *inputs, size_t n_inputs, const char *const *outputs,
                                   size_t n_outputs)
{
    json_t *list = json_array(), *wanted = json_array();
    struct infer_request body = {NULL, 0, 0};
    for (size_t i = 0; i < n_inputs; i++) {
        json_array_append_new(list, describe(&inputs[i]));
        body.length += inputs[i].bytes;
    }
    for (size_t i = 0; i < n_outputs; i++)
        json_array_append_new(wanted, json_pack("{s:s}", "name", outputs[i]));
    json_t *json =
        json_pack("{s:o, s:o, s:{s:b}}", "inputs", list, "outputs", wanted, "parameters", "binary_data_output", 1);
    char *text = json_dumps(json, JSON_COMPACT);
    assert_non_null(text);
    body.json = strlen(text);
    body.length += body.json;
    body.bytes = realloc(text, body.length);
    assert_non_null(body.bytes);
    char *end = body.bytes + body.json;
    for (size_t i = 0; i < n_inputs; end += inputs[i].bytes, i++)
        memcpy(end, inputs[i].data, inputs[i].bytes);
    json_decref(json);
    return body;
}

void infer_body_free(struct infer_request *body)
{
    free(body->bytes);
    *body = (struct infer_request){NULL, 0, 0};
}

struct answer infer_call(const struct daemon *daemon, const char *model, const struct infer_request *body, void *curl)
{
    char path[256], header[80];
    snprintf(path, sizeof path, "/v2/models/%s/infer", model);
    snprintf(header, sizeof header, "Inference-Header-Content-Length: %zu", body->json);
    return daemon_call(daemon, &(struct call){.path = path,
                                              .body = body->bytes,
                                              .length = body->length,
                                              .headers = {"Content-Type:", header},
                                              .curl = curl});
}

struct infer_answer infer_read(struct answer given)
{
    struct infer_answer answer = {.answer = given};
    char *length = answer_header(&given, "Inference-Header-Content-Length");
    if (given.status != 200 || !length)
        fail_msg("%ld (curl %d) %s", given.status, given.error, given.body);
    size_t json = (size_t)atol(length);
    assert_true(json <= given.length);
    answer.json = json_loadb(given.body, json, 0, NULL);
    assert_non_null(answer.json);
    answer.bytes = given.body + json;
    answer.length = given.length - json;
    free(length);
    return answer;
}

struct infer_answer infer_send(const struct daemon *daemon, const char *model, const struct infer_request *body)
{
    return infer_read(infer_call(daemon, model, body, NULL));
}

size_t infer_count(const struct infer_answer *answer)
{
    return json_array_size(json_object_get(answer->json, "outputs"));
}

static size_t bytes_of(const json_t *output)
{
    return (size_t)json_integer_value(json_object_get(json_object_get(output, "parameters"), "binary_data_size"));
}

struct infer_tensor infer_output(const struct infer_answer *answer, size_t index)
{
    const json_t *outputs = json_object_get(answer->json, "outputs"), *output = json_array_get(outputs, index);
    const json_t *shape = json_object_get(output, "shape");
    struct infer_tensor tensor = {.name = json_string_value(json_object_get(output, "name")),
                                  .datatype = json_string_value(json_object_get(output, "datatype")),
                                  .rank = (int)json_array_size(shape),
                                  .bytes = bytes_of(output)};
    size_t place = 0;
    assert_true(tensor.name && tensor.datatype && tensor.rank > 0 && tensor.rank <= WEIGHTS_MAX_RANK);
    for (int d = 0; d < tensor.rank; d++)
        tensor.shape[d] = json_integer_value(json_array_get(shape, (size_t)d));
    for (size_t i = 0; i < index; i++)
        place += bytes_of(json_array_get(outputs, i));
    assert_true(place + tensor.bytes <= answer->length);
    assert_string_equal(tensor.datatype, "FP32");
    assert_int_equal(tensor.bytes, infer_elements(&tensor) * 4);
    tensor.data = answer->bytes + place;
    return tensor;
}

void infer_answer_free(struct infer_answer *answer)
{
    json_decref(answer->json);
    answer_free(&answer->answer);
}

static double float_at(const struct infer_tensor *tensor, int64_t index)
{
    float value;
    memcpy(&value, (const char *)tensor->data + index * (int64_t)sizeof value, sizeof value);
    return (double)value;
}

double infer_relative_l2(const struct infer_tensor *found, const struct infer_tensor *expected)
{
    double difference = 0, norm = 0;
    assert_int_equal(found->bytes, expected->bytes);
    for (int64_t i = 0; i < infer_elements(expected); i++) {
        difference += pow(float_at(found, i) - float_at(expected, i), 2);
        norm += pow(float_at(expected, i), 2);
    }
    return difference == 0 ? 0 : sqrt(difference / norm);
}

/* ---- The reference cases ---- */

static int is_case(const struct dirent *entry)
{
    return !strchr(entry->d_name, '.');
}

struct cases cases_find(const char *folder, int fewest)
{
    struct dirent **entries = NULL;
    struct cases cases = {NULL, 0};
    char path[512];
    int count = scandir(folder, &entries, is_case, alphasort);
    cases.names = calloc(count > 0 ? (size_t)count : 1, sizeof *cases.names);
    assert_non_null(cases.names);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s/config.json", folder, entries[i]->d_name);
        if (access(path, F_OK) == 0)
            cases.names[cases.count++] = strdup(entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (cases.count < (size_t)fewest)
        fail_msg("%zu cases in %s, expected %d or more: run from the root of the repository", cases.count, folder,
                 fewest);
    return cases;
}

void cases_free(struct cases *cases)
{
    for (size_t i = 0; i < cases->count; i++)
        free(cases->names[i]);
    free(cases->names);
}

struct weights *case_calls(const char *folder, const char *name)
{
    struct weights *calls;
    struct error error;
    char path[512];
    snprintf(path, sizeof path, "%s/%s/calls.safetensors", folder, name);
    if (weights_open(path, &calls, &error) != 0 || weights_read(calls, &error) != 0)
        fail_msg("%s", error.message);
    return calls;
}

static const char *datatype_of(enum weights_dtype dtype)
{
    switch (dtype) {
    case WEIGHTS_F32:
        return "FP32";
    case WEIGHTS_I64:
        return "INT64";
    case WEIGHTS_I32:
        return "INT32";
    case WEIGHTS_BOOL:
        return "BOOL";
    default:
        fail_msg("a case has a tensor of %s, which no client sends", weights_dtype_name(dtype));
        return NULL;
    }
}

size_t case_tensors(const struct weights *calls, int index, const char *way, struct infer_tensor *tensors, size_t room)
{
    char prefix[32];
    size_t count = 0;
    snprintf(prefix, sizeof prefix, "%d/%s/", index, way);
    for (size_t i = 0; i < weights_count(calls); i++) {
        const struct weights_tensor *tensor = weights_at(calls, i);

        if (strncmp(tensor->name, prefix, strlen(prefix)) != 0)
            continue;
        assert_true(count < room);
        struct infer_tensor *out = &tensors[count++];
        *out = (struct infer_tensor){.name = tensor->name + strlen(prefix),
                                     .datatype = datatype_of(tensor->dtype),
                                     .rank = tensor->rank,
                                     .data = tensor->data,
                                     .bytes = tensor->bytes};
        memcpy(out->shape, tensor->shape, sizeof out->shape);
    }
    return count;
}

struct infer_request case_body(const struct weights *calls, int index)
{
    struct infer_tensor inputs[MAX_TENSORS], outputs[MAX_TENSORS];
    const char *names[MAX_TENSORS];
    size_t n_inputs = case_tensors(calls, index, "in", inputs, MAX_TENSORS);
    size_t n_outputs = case_tensors(calls, index, "out", outputs, MAX_TENSORS);
    if (n_inputs == 0)
        return (struct infer_request){NULL, 0, 0};
    assert_true(n_outputs > 0);
    for (size_t i = 0; i < n_outputs; i++)
        names[i] = outputs[i].name;
    return infer_body_of(inputs, n_inputs, names, n_outputs);
}

double case_compare(const struct weights *calls, int index, const struct infer_answer *answer, double tolerance)
{
    struct infer_tensor expected[MAX_TENSORS];
    size_t count = case_tensors(calls, index, "out", expected, MAX_TENSORS);
    double largest = 0;
    assert_int_equal(infer_count(answer), count);
    for (size_t i = 0; i < count; i++) {
        struct infer_tensor found = infer_output(answer, i);

        assert_string_equal(found.name, expected[i].name);
        assert_int_equal(found.rank, expected[i].rank);
        assert_memory_equal(found.shape, expected[i].shape, (size_t)found.rank * sizeof *found.shape);
        double distance = infer_relative_l2(&found, &expected[i]);
        if (!(distance <= tolerance)) /* also true for NaN */
            fail_msg("call %d, %s: relative L2 error %.2g, expected %.2g or less", index, found.name, distance,
                     tolerance);
        largest = distance > largest ? distance : largest;
    }
    return largest;
}
