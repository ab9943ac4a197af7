/* native_inputs: from `inputs` and `embeddings` to the items of a job. Every count is looked at before memory is taken
 * for it, and every number before it is narrowed. */
#include "server/dialects/byte_tokenizer.h"
#include "server/dialects/native.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Bytes of text at most: of a float with its comma, -0.0000123456789; of its four bytes in base64; of what is around a
 * vector, and the few characters that the writer asks for beyond what it needs. */
enum { FLOAT_TEXT = 17, BASE64_TEXT = 6, VECTOR_TEXT = 96 };

static const char *inputs_key(const struct native_inputs *inputs)
{
    return inputs->key ? inputs->key : "inputs";
}

static int check_count(struct request *request, int64_t count)
{
    int64_t limit = request->service->options.settings->max_client_batch_size;

    if (count <= limit)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "the request has %" PRId64 " inputs, this server takes at most %" PRId64 " in one", count,
                       limit);
}

/* Refuses too many inputs of a body that needs jansson before that makes an object of each. */
static int check_elements(struct request *request, struct numbers_place place)
{
    const char *start, *end = request->body + request->body_length;
    int64_t count = numbers_elements(request->body, request->body_length, place, &start);

    if (count <= 1 || start == end || (*start != '"' && *start != '['))
        return 0; /* one input, of numbers */
    return check_count(request, count);
}

/* The body as JSON, without the numbers of its inputs where these can be read without. */
static json_t *parse_body(struct request *request, struct native_inputs *inputs)
{
    struct numbers_place place = {.key = inputs ? inputs_key(inputs) : NULL, .other = "embeddings", .depth = 1};
    const char *text = request->body;
    size_t length = request->body_length;
    char rest[NUMBERS_REST];
    json_t *body;

    if (inputs && numbers_find(text, length, place, &inputs->numbers, 1)) {
        body = request_json(request, rest, numbers_rest(&inputs->numbers, 1, text, length, rest));
        if (body || (request->failure.kind != FAILURE_MALFORMED && request->failure.kind != FAILURE_INVALID))
            return body;
        request->failure.kind = FAILURE_NONE; /* what is wrong, and where, the whole body will tell */
    }
    if (inputs) {
        inputs->numbers.text = NULL;
        place.other = NULL; /* `embeddings` may be one input, a list of rows */
        if (check_elements(request, place) != 0)
            return NULL;
    }
    return request_json(request, text, length);
}

json_t *native_body(struct request *request, struct native_inputs *inputs)
{
    json_t *body = parse_body(request, inputs);
    const json_t *model = body ? json_object_get(body, "model") : NULL;

    if (!body)
        return NULL;
    if (inputs)
        inputs->body = body;
    if (model && !json_is_null(model) && !json_is_string(model))
        failure_set(&request->failure, FAILURE_INVALID, "model is %s, a string was expected", json_kind(model));
    else if (json_is_string(model) && !json_word(model))
        failure_set(&request->failure, FAILURE_INVALID, "model holds a NUL character");
    else
        request_model(request, json_word(model));
    if (request->failure.kind == FAILURE_NONE) {
        if (inputs)
            inputs->truncate = request_auto_truncate(request);
        return body;
    }
    json_decref(body);
    return NULL;
}

/* Of the lists that are items. */
static int item_depth(const struct native_inputs *inputs)
{
    return inputs->inputs ? inputs->numbers.depth : inputs->numbers.depth - 1;
}

const char *native_item_path(const struct native_inputs *inputs, int64_t item, char buffer[NATIVE_PATH])
{
    const json_t *value = inputs->inputs ? inputs->inputs : inputs->embeddings;
    const json_t *first = json_array_get(value, 0);
    bool many =
        inputs->inputs ? json_is_string(first) || json_is_array(first) : json_is_array(json_array_get(first, 0));

    if (inputs->numbers.text)
        many = item_depth(inputs) == 2;

    snprintf(buffer, NATIVE_PATH, many ? "%s[%" PRId64 "]" : "%s", inputs->inputs ? inputs_key(inputs) : "embeddings",
             item);
    return buffer;
}

/* An optional input of the same kind stands for the first where it is not given, and may have the tighter limit: the
 * keys' length, where queries are free. */
static const struct model_input *limiting_input(const struct model_info *info)
{
    const struct model_input *first = &info->inputs[0], *limiting = first;

    for (int i = 1; i < info->n_inputs; i++) {
        const struct model_input *input = &info->inputs[i];

        if (input->optional && input->kind == first->kind && input->columns == first->columns &&
            input->max_length < limiting->max_length)
            limiting = input;
    }
    return limiting;
}

int64_t native_max_length(const struct model_info *info)
{
    return limiting_input(info)->max_length;
}

void *native_input_memory(struct request *request, int64_t length, size_t row_bytes)
{
    int64_t bytes;

    if (__builtin_mul_overflow(length, (int64_t)row_bytes, &bytes)) {
        failure_memory(&request->failure);
        return NULL;
    }
    return request_charge(request, bytes) ? NULL : request_memory(request, length, row_bytes);
}

/* Cuts *length to what the model takes, or refuses; *skip is how many rows go at the start. */
static int fit(struct request *request, const struct native_inputs *inputs, const char *path, int64_t *length,
               int64_t *skip)
{
    const struct model_input *limiting = limiting_input(request->info);
    int64_t limit = limiting->max_length;

    *skip = 0;
    if (*length == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "%s is empty, at least one token was expected", path);
    if (*length <= limit)
        return 0;
    if (!inputs->truncate && !limiting->own_limit)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s has %" PRId64 " tokens, this server takes at most %" PRId64
                           " for model \"%s\" (--max-batch-tokens): shorten it, or set truncate to true",
                           path, *length, limit, request_model_name(request));
    if (!inputs->truncate)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s has %" PRId64 " tokens, model \"%s\" takes at most %" PRId64
                           ": shorten it, or set truncate to true",
                           path, *length, request_model_name(request), limit);
    if (inputs->truncation_direction && strcasecmp(inputs->truncation_direction, "left") == 0)
        *skip = *length - limit;
    *length = limit;
    return 0;
}

static int text_item(struct request *request, const struct native_inputs *inputs, const json_t *value, const char *path,
                     struct engine_item *item)
{
    const char *text = json_string_value(value);
    size_t bytes = json_string_length(value);
    int64_t length, skip;
    int32_t *ids;

    if (request->info->tokenizer != TOKENIZER_BYTE)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s is a text, but model \"%s\" has no tokenizer: give lists of ids", path,
                           request_model_name(request));
    length = byte_tokenizer_count(request->info->byte_offset, text, bytes);
    if (fit(request, inputs, path, &length, &skip))
        return -1;
    ids = native_input_memory(request, length, sizeof *ids);
    if (!ids)
        return -1;
    byte_tokenizer_encode(request->info->byte_offset, text, bytes, skip, length, ids);
    item->inputs[0].data = ids;
    item->inputs[0].length = length;
    return 0;
}

static int refuse_kind_of_id(struct request *request, const char *path, int64_t index, const char *kind)
{
    return failure_set(&request->failure, FAILURE_INVALID, "%s[%" PRId64 "] is %s, an integer id was expected", path,
                       index, kind);
}

static int refuse_id(struct request *request, const char *path, int64_t index, int64_t id)
{
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s[%" PRId64 "] is %" PRId64 "; ids of model \"%s\" are %sbelow %" PRId64, path, index, id,
                       request_model_name(request), id < 0 ? "at least 0 and " : "", request->info->vocabulary);
}

static int refuse_float(struct request *request, const char *path, int64_t row, int64_t column, double value)
{
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s[%" PRId64 "][%" PRId64 "] is %g, beyond what a 32 bit float holds", path, row, column,
                       value);
}

static int refuse_columns(struct request *request, const char *path, int64_t row, int64_t found)
{
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s[%" PRId64 "] has %" PRId64 " values, rows of model \"%s\" have %" PRId64, path, row, found,
                       request_model_name(request), request->info->inputs[0].columns);
}

static int ids_item(struct request *request, const struct native_inputs *inputs, const json_t *value, const char *path,
                    struct engine_item *item)
{
    int64_t length = (int64_t)json_array_size(value), skip;
    int32_t *ids;

    if (fit(request, inputs, path, &length, &skip))
        return -1;
    ids = native_input_memory(request, length, sizeof *ids);
    if (!ids)
        return -1;
    for (int64_t i = 0; i < length; i++) {
        const json_t *number = json_array_get(value, (size_t)(skip + i));
        json_int_t id = json_integer_value(number);

        if (!json_is_integer(number))
            return refuse_kind_of_id(request, path, skip + i, json_kind(number));
        if (id < 0 || id >= request->info->vocabulary)
            return refuse_id(request, path, skip + i, id);
        ids[i] = (int32_t)id;
    }
    item->inputs[0].data = ids;
    item->inputs[0].length = length;
    return 0;
}

static int read_row(struct request *request, const json_t *row, const char *path, int64_t index, int64_t columns,
                    float *out)
{
    for (int64_t i = 0; i < columns; i++) {
        const json_t *number = json_array_get(row, (size_t)i);

        if (!json_is_number(number))
            return failure_set(&request->failure, FAILURE_INVALID,
                               "%s[%" PRId64 "][%" PRId64 "] is %s, a number was expected", path, index, i,
                               json_kind(number));
        out[i] = (float)json_number_value(number);
        if (!isfinite(out[i]))
            return refuse_float(request, path, index, i, json_number_value(number));
    }
    return 0;
}

static int rows_item(struct request *request, const struct native_inputs *inputs, const json_t *value, const char *path,
                     struct engine_item *item)
{
    int64_t columns = request->info->inputs[0].columns, length = (int64_t)json_array_size(value), skip;
    float *rows;

    if (!json_is_array(value))
        return failure_set(&request->failure, FAILURE_INVALID, "%s is %s, a list of rows was expected", path,
                           json_kind(value));
    if (fit(request, inputs, path, &length, &skip))
        return -1;
    for (int64_t i = 0; i < length; i++) {
        const json_t *row = json_array_get(value, (size_t)(skip + i));

        if (!json_is_array(row))
            return failure_set(&request->failure, FAILURE_INVALID,
                               "%s[%" PRId64 "] is %s, a list of %" PRId64 " floats was expected", path, skip + i,
                               json_kind(row), columns);
        if ((int64_t)json_array_size(row) != columns)
            return refuse_columns(request, path, skip + i, (int64_t)json_array_size(row));
    }
    rows = native_input_memory(request, length, (size_t)columns * sizeof *rows);
    if (!rows)
        return -1;
    for (int64_t i = 0; i < length; i++) {
        if (read_row(request, json_array_get(value, (size_t)(skip + i)), path, skip + i, columns, rows + i * columns))
            return -1;
    }
    item->inputs[0].data = rows;
    item->inputs[0].length = length;
    return 0;
}

static int read_item(struct request *request, const struct native_inputs *inputs, const json_t *value, const char *path,
                     struct engine_item *item)
{
    if (inputs->embeddings)
        return rows_item(request, inputs, value, path, item);
    if (json_is_string(value))
        return text_item(request, inputs, value, path, item);
    if (json_is_array(value))
        return ids_item(request, inputs, value, path, item);
    return failure_set(&request->failure, FAILURE_INVALID, "%s is %s, a string or a list of ids was expected", path,
                       json_kind(value));
}

int native_takes_sequences(struct request *request)
{
    if (request->info->inputs[0].layout != LAYOUT_IMAGE)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "model \"%s\" takes images, which this route has no key for: use /v2/models/%s/infer",
                       request_model_name(request), request_model_name(request));
}

/* One input is what these routes can give. */
static int takes_one_input(struct request *request)
{
    const struct model_info *info = request->info;
    int last = info->n_inputs - 1;
    char names[256];
    size_t length = 0;

    while (last > 0 && info->inputs[last].optional)
        last--;
    if (last == 0)
        return 0;
    for (int i = 0; i <= last && length < sizeof names; i++) {
        const char *between = length == 0 ? "" : i == last ? " and " : ", ";

        if (!info->inputs[i].optional)
            length +=
                (size_t)snprintf(names + length, sizeof names - length, "%s\"%s\"", between, info->inputs[i].name);
    }
    return failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" needs the inputs %s; this route gives it one",
                       request_model_name(request), names);
}

/* Whether the request fits the model: one input, of the kind that it takes. */
static int check_kind(struct request *request, const struct native_inputs *inputs)
{
    const struct model_info *info = request->info;
    const char *name = request_model_name(request);

    if (native_takes_sequences(request) || takes_one_input(request))
        return -1;
    if (inputs->inputs && inputs->embeddings)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "both inputs and embeddings are given, one was expected");
    if (!inputs->inputs && info->inputs[0].kind == INPUT_IDS)
        return failure_set(&request->failure, FAILURE_INVALID,
                           inputs->embeddings ? "model \"%s\" takes ids, not embeddings: give `%s`"
                                              : "model \"%s\" takes ids, and `%s` is missing",
                           name, inputs_key(inputs));
    if (!inputs->embeddings && info->inputs[0].kind == INPUT_ROWS)
        return failure_set(&request->failure, FAILURE_INVALID,
                           inputs->inputs ? "model \"%s\" takes rows of %" PRId64 " floats, not ids: give `embeddings`"
                                          : "`embeddings` is missing; model \"%s\" takes rows of %" PRId64 " floats",
                           name, info->inputs[0].columns);
    return 0;
}

static int check_direction(struct request *request, const char *direction)
{
    if (!direction || strcasecmp(direction, "left") == 0 || strcasecmp(direction, "right") == 0)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "truncation_direction is \"%.100s\", \"Left\" or \"Right\" was expected", direction);
}

static int items_from_json(struct request *request, const struct native_inputs *inputs)
{
    json_t *value = inputs->inputs ? inputs->inputs : inputs->embeddings;
    char path[NATIVE_PATH];
    bool many = strchr(native_item_path(inputs, 0, path), '[') != NULL;
    int64_t count = many ? (int64_t)json_array_size(value) : 1;

    if (check_count(request, count) != 0)
        return -1;
    request->job.items = native_input_memory(request, count, sizeof *request->job.items);
    if (!request->job.items)
        return -1;
    request->job.n_items = count;
    for (int64_t i = 0; i < count; i++) {
        if (read_item(request, inputs, many ? json_array_get(value, (size_t)i) : value,
                      native_item_path(inputs, i, path), &request->job.items[i]))
            return -1;
    }
    return 0;
}

/* ---- Without objects ---- */

/* Memory of the items, of the numbers as the engine takes them, and of `target`'s ends. */
static void *numbers_memory(struct request *request, const struct numbers *numbers, struct numbers_target *target,
                            int64_t n_items)
{
    void *values = native_input_memory(request, numbers->count, sizeof(float));

    _Static_assert(sizeof(float) == sizeof(int32_t), "ids and floats take the same memory");
    request->job.items = values ? native_input_memory(request, n_items, sizeof *request->job.items) : NULL;
    target->ends = request->job.items ? native_input_memory(request, n_items, sizeof *target->ends) : NULL;
    return target->ends ? values : NULL;
}

/* Says what is wrong with the first wrong number of an item. `first` is its first number's index, of those that are
 * kept, which begin with the item's row `skip`. */
static int check_numbers(struct request *request, const struct native_inputs *inputs, const char *path,
                         const struct numbers_target *target, int64_t first, int64_t skip, int64_t count)
{
    int64_t columns = target->ids ? 1 : request->info->inputs[0].columns, n = 0;

    while (n < count && (target->ids ? target->ids[first + n] >= 0 : !isnan(target->floats[first + n])))
        n++;
    if (n == count)
        return 0;
    const char *text = numbers_at(&inputs->numbers, first + n);
    if (!target->ids)
        return refuse_float(request, path, skip + n / columns, n % columns, strtod(text, NULL));
    if (strchr(".eE", text[1 + strspn(text + 1, "0123456789")]))
        return refuse_kind_of_id(request, path, skip + n, "a float");
    return refuse_id(request, path, skip + n, strtoll(text, NULL, 10));
}

/* Cuts the numbers, floats or ids of the same size, into items. */
static int place_items(struct request *request, const struct native_inputs *inputs, const struct numbers_target *target)
{
    int64_t columns = target->ids ? 1 : request->info->inputs[0].columns, start = 0;
    char path[NATIVE_PATH];

    for (int64_t i = 0; i < request->job.n_items; start = target->ends[i++]) {
        struct engine_item *item = &request->job.items[i];
        int64_t length = (target->ends[i] - start) / columns, skip;

        native_item_path(inputs, i, path);
        if (fit(request, inputs, path, &length, &skip) != 0)
            return -1;
        int64_t first = start + skip * columns;
        if (*target->n_wrong > 0 && check_numbers(request, inputs, path, target, first, skip, length * columns) != 0)
            return -1;
        item->inputs[0].data = target->ids ? (const void *)(target->ids + first) : target->floats + first;
        item->inputs[0].length = length;
    }
    return 0;
}

/* 1: the items are made; 0: the lists are nested as the model's are not, and JSON will tell how; -1: request->failure.
 */
static int items_from_numbers(struct request *request, const struct native_inputs *inputs)
{
    const struct model_input *input = &request->info->inputs[0];
    const struct numbers *numbers = &inputs->numbers;
    int64_t n_wrong = 0;
    struct numbers_list list;
    struct numbers_target target = {.item_depth = item_depth(inputs), .n_wrong = &n_wrong, .list = &list};
    int64_t n_items = target.item_depth > 1 ? numbers->lists[1] : 1;
    bool ids = input->kind == INPUT_IDS;
    char path[NATIVE_PATH];

    if (check_count(request, n_items) != 0)
        return -1;
    if (target.item_depth < 1 || target.item_depth > 2)
        return 0;
    void *values = numbers_memory(request, numbers, &target, n_items);
    if (!values)
        return -1;
    target.ids = ids ? values : NULL;
    target.floats = ids ? NULL : values;
    target.below = request->info->vocabulary;
    target.sizes[numbers->depth - 1] = ids ? 0 : input->columns;
    request->job.n_items = n_items;
    if (numbers_read(numbers, &target))
        return place_items(request, inputs, &target) == 0 ? 1 : -1;
    if (inputs->truncate)
        return 0; /* the row may be cut off */
    return refuse_columns(request, native_item_path(inputs, list.item, path), list.index, list.size);
}

/* Puts the lists that the body holds where the empty one stood for them. */
static int restore_json(struct request *request, struct native_inputs *inputs)
{
    json_t **value = inputs->inputs ? &inputs->inputs : &inputs->embeddings;
    const char *key = inputs->inputs ? inputs_key(inputs) : "embeddings";
    json_t *whole = request_json(request, request->body, request->body_length);

    inputs->numbers.text = NULL;
    if (!whole)
        return -1;
    *value = json_object_get(whole, key);
    if (json_object_set(inputs->body, key, *value))
        failure_memory(&request->failure);
    json_decref(whole);
    return request->failure.kind == FAILURE_NONE ? 0 : -1;
}

int native_items(struct request *request, struct native_inputs *inputs)
{
    int made;

    if (check_kind(request, inputs) || check_direction(request, inputs->truncation_direction))
        return -1;
    if (inputs->numbers.text) {
        made = items_from_numbers(request, inputs);
        if (made != 0)
            return made > 0 ? 0 : -1;
        if (restore_json(request, inputs))
            return -1;
    }
    return items_from_json(request, inputs);
}

int native_encoding(struct request *request, const struct native_inputs *inputs, bool *base64)
{
    const char *format = inputs->encoding_format;

    *base64 = format && strcmp(format, "base64") == 0;
    if (!format || *base64 || strcmp(format, "float") == 0)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "encoding_format is \"%.100s\", \"float\" or \"base64\" was expected", format);
}

int native_check(struct request *request, const struct native_inputs *inputs)
{
    char path[NATIVE_PATH];

    for (int64_t i = 0; i < request->job.n_items; i++) {
        struct error error;

        if (model_check(request_engine_model(request), &request->job.items[i], &error))
            return failure_set(&request->failure, FAILURE_INVALID, "%s: %s", native_item_path(inputs, i, path),
                               error.message);
    }
    return 0;
}

int64_t native_text_bytes(int64_t floats, int64_t vectors, bool base64)
{
    return floats * (base64 ? BASE64_TEXT : FLOAT_TEXT) + vectors * VECTOR_TEXT;
}

int64_t native_floats_bytes(int64_t floats, bool base64)
{
    return floats * (int64_t)sizeof(float) + native_text_bytes(floats, 0, base64);
}

int native_count_floats(struct request *request, int64_t rows, int64_t columns, int64_t *floats)
{
    int64_t product;

    /* Text and values of a float, its id, its token and its row are less than NATIVE_FLOAT_MOST bytes together. */
    if (__builtin_mul_overflow(rows, columns, &product) || __builtin_add_overflow(*floats, product, floats) ||
        *floats > INT64_MAX / NATIVE_FLOAT_MOST)
        return failure_set(&request->failure, FAILURE_INVALID, "the results would be larger than any memory");
    return 0;
}
