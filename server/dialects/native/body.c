/* body: checks every count before it allocates memory for that count. */
#include "server/dialects/native/body.h"

#include "server/dialects/native/model.h"
#include "server/dialects/native/pictures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *native_inputs_key(const struct native_inputs *inputs)
{
    return inputs->key ? inputs->key : "inputs";
}

const char *native_item_path(const struct native_inputs *inputs, int64_t item, char path[NATIVE_PATH])
{
    if (inputs->compared) {
        snprintf(path, NATIVE_PATH, item > 0 ? "inputs.sentences[%" PRId64 "]" : "inputs.source_sentence", item - 1);
        return path;
    }
    const char *name = inputs->is_file              ? "the body"
                       : inputs->message_input_name ? inputs->message_input_name
                       : inputs->own_name           ? inputs->own_name
                       : inputs->inputs             ? native_inputs_key(inputs)
                                                    : "embeddings";
    const char *object = inputs->in_object >> inputs->message_input & 1 ? "inputs." : "";
    snprintf(path, NATIVE_PATH, inputs->listed[inputs->message_input] ? "%s%.40s[%" PRId64 "]" : "%s%.40s", object,
             name, item);
    return path;
}

/* ---- The body ---- */

int native_check_count(struct request *request, int64_t count)
{
    int64_t limit = request->service->options.settings->max_client_batch_size;
    if (count <= limit)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "the request has %" PRId64 " inputs, this server accepts at most %" PRId64 " in one request",
                       count, limit);
}

struct numbers_counts native_count(const struct request *request, const char *key)
{
    return numbers_count(request->body, request->body_length, key);
}

static int64_t most_elements(const struct request *request)
{
    const struct service_options *options = &request->service->options;
    int64_t most = options->settings->max_client_batch_size;
    most = most > NATIVE_MAX_TOKENS ? most : NATIVE_MAX_TOKENS;
    for (int64_t i = 0; i < request->set->n_models; i++) {
        const struct model_info *info = model_info(request->set->models[i].model);
        int64_t length = items_limit(info, 0).tokens, columns = native_columns(info);
        most = most > length ? most : length;
        most = most > columns ? most : columns;
    }
    return most;
}

int native_check_elements(struct request *request, const char *name, int64_t count)
{
    int64_t most = most_elements(request);
    if (count <= most)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s has %" PRId64 " elements, this server accepts at most %" PRId64 ": send less at once", name,
                       count, most);
}

int native_check_list(struct request *request, const char *key)
{
    struct numbers_counts counts = native_count(request, key);
    if (native_check_elements(request, key, counts.elements) != 0)
        return -1;
    char name[NATIVE_PATH];
    snprintf(name, sizeof name, "a list in %s", key);
    return native_check_elements(request, name, counts.longest);
}

/* Refuses lists that are too long before jansson allocates an object for each element.
 *
 * If the elements of `inputs` begin like a text or a list, each element is an input. Otherwise the whole list is one
 * input. `embeddings` may be one input, which is a list of rows, so its elements are not counted as inputs. */
static int check_lists(struct request *request, const void *context)
{
    const struct native_inputs *inputs = context;
    struct numbers_counts counts = native_count(request, native_inputs_key(inputs));
    if ((counts.first == '"' || counts.first == '[') && counts.elements > 1 &&
        native_check_count(request, counts.elements) != 0)
        return -1;
    if ((int64_t)request->body_length / 2 < NATIVE_MAX_TOKENS)
        return 0; /* no list is too long, because each element and its comma have at least two bytes */
    if (native_check_list(request, native_inputs_key(inputs)) != 0 || native_check_list(request, "embeddings") != 0)
        return -1;
    return inputs->other_list ? native_check_list(request, inputs->other_list) : 0;
}

#define MAX_KEYS 32

static void add_key(const char *keys[MAX_KEYS + 1], const char *key)
{
    size_t n = 0;
    while (keys[n] && strcmp(keys[n], key) != 0)
        n++;
    if (n < MAX_KEYS)
        keys[n] = key;
}

/* Finds the keys whose lists of numbers jansson does not parse. The model is unknown before the body is parsed, so the
 * names of the inputs of all models are such keys. inputs->other_list is no such key, because jansson parses its
 * list. */
static void find_keys(const struct request *request, const struct native_inputs *inputs, const char *keys[MAX_KEYS + 1])
{
    const struct model_set *set = request->set;
    memset(keys, 0, (MAX_KEYS + 1) * sizeof *keys);
    add_key(keys, native_inputs_key(inputs));
    add_key(keys, "embeddings");
    if (inputs->number_list)
        add_key(keys, inputs->number_list);
    for (int64_t m = 0; inputs->named && m < set->n_models; m++) {
        const struct model_info *info = model_info(set->models[m].model);
        for (int i = 0; i < info->n_inputs; i++)
            if (!inputs->other_list || strcmp(info->inputs[i].name, inputs->other_list) != 0)
                add_key(keys, info->inputs[i].name);
    }
}

static json_t *parse_body(struct request *request, struct native_inputs *inputs)
{
    if (!inputs)
        return request_json(request, request->body, request->body_length);
    const char *keys[MAX_KEYS + 1];
    const struct numbers_place place = {.keys = keys, .least_depth = 1, .most_depth = inputs->named ? 2 : 1};
    find_keys(request, inputs, keys);
    return items_parse(request, request->body_length, place, check_lists, inputs, &inputs->lists);
}

void native_defaults(const struct request *request, struct native_inputs *inputs)
{
    inputs->truncate = request_auto_truncate(request);
    inputs->add_special_tokens = true;
}

const char *native_path_model(const struct request *request, const char *named)
{
    return request->parameters[0][0] ? request->parameters[0] : named;
}

json_t *native_body(struct request *request, struct native_inputs *inputs)
{
    if (inputs && inputs->takes_files && native_body_is_picture(request))
        inputs->is_file = true;
    json_t *body = inputs && inputs->is_file ? json_object() : parse_body(request, inputs);
    if (!body) {
        if (request->failure.kind == FAILURE_NONE)
            failure_memory(&request->failure);
        return NULL;
    }
    const json_t *model = json_object_get(body, "model");

    if (model && !json_is_null(model) && !json_is_string(model))
        failure_set(&request->failure, FAILURE_INVALID, "model is %s, a string was expected", json_kind(model));
    else if (json_is_string(model) && !json_word(model))
        failure_set(&request->failure, FAILURE_INVALID, "model contains a NUL character");
    else
        request_model(request, native_path_model(request, json_word(model)));
    if (request->failure.kind == FAILURE_NONE) {
        if (inputs)
            native_defaults(request, inputs);
        return body;
    }
    json_decref(body);
    return NULL;
}

/* ---- Lengths ---- */

struct items_limit native_limit(const struct request *request, const struct native_inputs *inputs, int index)
{
    struct items_limit limit = items_limit_beside(request->info, index, native_given(inputs));
    if (index == 0 && inputs->most_tokens > 0)
        limit.tokens = inputs->most_tokens;
    return limit;
}

int native_fit(struct request *request, const struct native_inputs *inputs, int index, const char *path,
               int64_t *length, int64_t *skip)
{
    const struct items_limit limit = native_limit(request, inputs, index);
    *skip = 0;
    if (*length == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "%s is empty, at least one token was expected", path);
    if (*length <= limit.tokens)
        return 0;
    if (!inputs->truncate)
        return items_too_long(request, path, *length, &limit);
    if (inputs->truncate_left)
        *skip = *length - limit.tokens;
    *length = limit.tokens;
    return 0;
}

unsigned native_given(const struct native_inputs *inputs)
{
    unsigned given = 0;
    for (int i = 0; i < ENGINE_MAX_INPUTS; i++)
        given |= inputs->given[i] ? 1u << i : 0;
    return given;
}

/* ---- Floats ---- */

int native_refuse_float(struct request *request, const char *path, int64_t row, int64_t column, double value)
{
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s[%" PRId64 "][%" PRId64 "] is %g, outside the range of a 32 bit float", path, row, column,
                       value);
}

int native_read_floats(struct request *request, const char *path, int64_t row, const json_t *list, int64_t columns,
                       float *out)
{
    for (int64_t i = 0; i < columns; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        if (!json_is_number(number))
            return failure_set(&request->failure, FAILURE_INVALID,
                               "%s[%" PRId64 "][%" PRId64 "] is %s, a number was expected", path, row, i,
                               json_kind(number));
        out[i] = (float)json_number_value(number);
        if (!isfinite(out[i]))
            return native_refuse_float(request, path, row, i, json_number_value(number));
    }
    return 0;
}
