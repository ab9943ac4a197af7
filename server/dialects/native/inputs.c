/* inputs: converts `inputs` and `embeddings` to the first input of a job's items. Checks every count before it
 * allocates memory for that count. Checks every number before it converts the number to a narrower type. */
#include "server/dialects/native/inputs.h"

#include "server/dialects/native/body.h"
#include "server/dialects/native/model.h"
#include "server/dialects/native/named.h"
#include "server/dialects/native/pictures.h"
#include "server/dialects/text_inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Items from JSON ---- */

/* What the readers of a list need to know about the request. They are called with a pointer to this struct as their
 * context. */
struct inputs_reading {
    struct request *request;
    struct native_inputs *inputs;
    struct text_inputs texts;
};

static int text_item(struct inputs_reading *reading, const json_t *value, const char *path, struct engine_item *item)
{
    int64_t count;
    int32_t *ids = text_inputs_ids(&reading->texts, path, json_string_value(value), json_string_length(value), &count);
    if (!ids)
        return -1;
    native_place(reading->request, item, ids, count);
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

static int refuse_columns(struct request *request, const char *path, int64_t row, int64_t found)
{
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s[%" PRId64 "] has %" PRId64 " values, but rows of model \"%s\" have %" PRId64, path, row,
                       found, request_model_name(request), native_columns(request->info));
}

static int ids_item(struct request *request, const struct native_inputs *inputs, const json_t *value, const char *path,
                    struct engine_item *item)
{
    int64_t length = (int64_t)json_array_size(value), skip;
    const json_t *first = json_array_get(value, 0);
    if (first && !json_is_number(first) && !inputs->truncate) /* no list of ids, so a message must not count tokens */
        return refuse_kind_of_id(request, path, 0, json_kind(first));
    if (native_fit(request, inputs, 0, path, &length, &skip) != 0)
        return -1;
    int32_t *ids = request_take(request, length, sizeof *ids);
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
    native_place(request, item, ids, length);
    return 0;
}

static int rows_item(struct request *request, const struct native_inputs *inputs, const json_t *value, const char *path,
                     struct engine_item *item)
{
    int64_t columns = native_columns(request->info), length = (int64_t)json_array_size(value), skip;
    if (!json_is_array(value))
        return failure_set(&request->failure, FAILURE_INVALID, "%s is %s, a list of rows was expected", path,
                           json_kind(value));
    if (native_fit(request, inputs, 0, path, &length, &skip) != 0)
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
    float *rows = request_take(request, length, (size_t)columns * sizeof *rows);
    if (!rows)
        return -1;
    for (int64_t i = 0; i < length; i++) {
        const json_t *row = json_array_get(value, (size_t)(skip + i));
        if (native_read_floats(request, path, skip + i, row, columns, rows + i * columns) != 0)
            return -1;
    }
    native_place(request, item, rows, length);
    return 0;
}

static int picture_item(struct request *request, const json_t *value, const char *path, struct engine_item *item)
{
    if (!json_is_string(value))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s is %s, a string with base64 of a JPEG or PNG file was expected", path, json_kind(value));
    return native_picture_text(request, path, json_string_value(value), json_string_length(value), item);
}

/* Reads an item that is a list of texts. The list must contain one text. A list of two texts is a pair in
 * text-embeddings-inference, and no model accepts pairs. */
static int listed_text_item(struct inputs_reading *reading, const json_t *value, const char *path,
                            struct engine_item *item)
{
    struct request *request = reading->request;
    if (json_array_size(value) != 1)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s has %zu texts, one was expected: model \"%s\" does not accept pairs", path,
                           json_array_size(value), request_model_name(request));
    return text_item(reading, json_array_get(value, 0), path, item);
}

static int read_item(struct inputs_reading *reading, const json_t *value, const char *path, struct engine_item *item)
{
    struct request *request = reading->request;
    const struct native_inputs *inputs = reading->inputs;
    if (inputs->embeddings)
        return rows_item(request, inputs, value, path, item);
    if (native_takes_pictures(request))
        return picture_item(request, value, path, item);
    if (inputs->texts_in_lists && json_is_string(json_array_get(value, 0)))
        return listed_text_item(reading, value, path, item);
    if (json_is_string(value))
        return text_item(reading, value, path, item);
    if (json_is_array(value))
        return ids_item(request, inputs, value, path, item);
    return failure_set(&request->failure, FAILURE_INVALID, "%s is %s, a string or a list of ids was expected", path,
                       json_kind(value));
}

static bool gives_many(const struct native_inputs *inputs, const json_t *value)
{
    const json_t *first = json_array_get(value, 0);
    return inputs->inputs ? json_is_string(first) || json_is_array(first) : json_is_array(json_array_get(first, 0));
}

static int items_from_json(void *context, const json_t *value)
{
    struct inputs_reading *reading = context;
    struct request *request = reading->request;
    struct native_inputs *inputs = reading->inputs;
    bool many = inputs->many = inputs->listed[0] = gives_many(inputs, value);
    int64_t count = many ? (int64_t)json_array_size(value) : 1;
    if (native_check_count(request, count) != 0)
        return -1;
    request->job.items = request_take(request, count, sizeof *request->job.items);
    if (!request->job.items)
        return -1;
    request->job.n_items = count;
    char path[NATIVE_PATH];
    for (int64_t i = 0; i < count; i++) {
        const json_t *one = many ? json_array_get(value, (size_t)i) : value;
        if (read_item(reading, one, native_item_path(inputs, i, path), &request->job.items[i]) != 0)
            return -1;
    }
    return 0;
}

/* ---- Items from numbers ---- */

/* Allocates memory for the items, for target->ends, and for the values. Returns the memory for the values. On failure
 * sets request->failure and returns NULL. */
static void *numbers_memory(struct request *request, const struct numbers *numbers, struct numbers_target *target,
                            int64_t n_items)
{
    void *values = request_take(request, numbers->count, sizeof(float));
    _Static_assert(sizeof(float) == sizeof(int32_t), "ids and floats take the same memory");
    request->job.items = values ? request_take(request, n_items, sizeof *request->job.items) : NULL;
    target->ends = request->job.items ? request_take(request, n_items, sizeof *target->ends) : NULL;
    return target->ends ? values : NULL;
}

/* Fails if one of `count` numbers of an item is wrong. They begin at number `first` of the whole list, which is the
 * beginning of row `skip` of the item. Numbers that are cut off are not checked. */
static int check_numbers(struct request *request, const struct numbers *numbers, const char *path,
                         const struct numbers_target *target, int64_t first, int64_t skip, int64_t count)
{
    int64_t columns = target->ids ? 1 : native_columns(request->info), n = 0;
    while (n < count && (target->ids ? target->ids[first + n] >= 0 : !isnan(target->floats[first + n])))
        n++;
    if (n == count)
        return 0;
    const char *text = numbers_at(numbers, first + n);
    if (!target->ids)
        return native_refuse_float(request, path, skip + n / columns, n % columns, strtod(text, NULL));
    if (strchr(".eE", text[1 + strspn(text + 1, "0123456789")]))
        return refuse_kind_of_id(request, path, skip + n, "a float");
    return refuse_id(request, path, skip + n, strtoll(text, NULL, 10));
}

/* Sets the first input of each item to its part of the values. */
static int place_items(struct request *request, const struct native_inputs *inputs, const struct numbers *numbers,
                       const struct numbers_target *target)
{
    int64_t columns = target->ids ? 1 : native_columns(request->info), start = 0;
    int64_t most = native_limit(request, inputs, 0).tokens;
    char path[NATIVE_PATH];
    for (int64_t i = 0; i < request->job.n_items; start = target->ends[i++]) {
        struct engine_item *item = &request->job.items[i];
        int64_t length = (target->ends[i] - start) / columns, skip;
        if (length == 0 || length > most || *target->n_wrong > 0)
            native_item_path(inputs, i, path); /* snprintf is slow, so the path is only written for a refusal */
        if (native_fit(request, inputs, 0, path, &length, &skip) != 0)
            return -1;
        int64_t first = start + skip * columns;
        if (*target->n_wrong > 0 && check_numbers(request, numbers, path, target, first, skip, length * columns) != 0)
            return -1;
        native_place(request, item, target->ids ? (const void *)(target->ids + first) : target->floats + first, length);
    }
    return 0;
}

/* Reads lists of numbers. Returns 0 for lists that are not nested as the model requires. items_from_json refuses such
 * lists with a message about their nesting. */
static int items_from_numbers(void *context, const struct numbers *numbers)
{
    const struct inputs_reading *reading = context;
    struct request *request = reading->request;
    struct native_inputs *inputs = reading->inputs;
    const struct model_input *input = &request->info->inputs[0];
    int item_depth = inputs->inputs ? numbers->depth : numbers->depth - 1;
    if (native_takes_pictures(request))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s is a list of numbers, strings with base64 of a JPEG or PNG file were expected",
                           native_inputs_key(inputs));
    int64_t n_items = item_depth > 1 ? numbers->lists[1] : 1, n_wrong = 0;
    bool ids = input->kind == INPUT_IDS;
    inputs->many = inputs->listed[0] = item_depth == 2;
    if (native_check_count(request, n_items) != 0)
        return -1;
    if (item_depth < 1 || item_depth > 2)
        return 0;
    struct numbers_list list;
    struct numbers_target target = {.item_depth = item_depth, .n_wrong = &n_wrong, .list = &list};
    void *values = numbers_memory(request, numbers, &target, n_items);
    if (!values)
        return -1;
    target.ids = ids ? values : NULL;
    target.floats = ids ? NULL : values;
    target.below = request->info->vocabulary;
    target.sizes[numbers->depth - 1] = ids ? 0 : native_columns(request->info);
    request->job.n_items = n_items;
    if (numbers_read(numbers, &target))
        return place_items(request, inputs, numbers, &target) == 0 ? 1 : -1;
    if (inputs->truncate)
        return 0; /* the row of the wrong size may be in the part that is cut off, so items_from_json must decide */
    char path[NATIVE_PATH];
    return refuse_columns(request, native_item_path(inputs, list.item, path), list.index, list.size);
}

/* ---- For the routes ---- */

/* Fails if the request contains no picture for this model, which accepts pictures. */
static int check_picture(struct request *request, const struct native_inputs *inputs)
{
    const char *name = request_model_name(request);
    if (inputs->embeddings)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "model \"%s\" accepts images, not embeddings: send `%s`, or use /v2/models/%s/infer", name,
                           native_inputs_key(inputs), name);
    if (!inputs->inputs && !inputs->is_file)
        return failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" accepts images, but `%s` is missing", name,
                           native_inputs_key(inputs));
    return 0;
}

/* Fails if the request lacks the first input, contains it twice, or contains an input of another kind than the model's
 * first input. */
static int check_kind(struct request *request, const struct native_inputs *inputs)
{
    const struct model_info *info = request->info;
    const char *name = request_model_name(request);
    if (native_takes_pictures(request))
        return check_picture(request, inputs);
    if (native_takes_sequences(request) != 0)
        return -1;
    if (inputs->is_file)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "the body is an image, but model \"%s\" accepts %s; to name another model, send JSON "
                           "with the image in base64",
                           name, info->inputs[0].kind == INPUT_IDS ? "ids" : "rows of floats");
    if (inputs->inputs && inputs->embeddings)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "both inputs and embeddings are given, one was expected");
    if (!inputs->inputs && info->inputs[0].kind == INPUT_IDS)
        return failure_set(&request->failure, FAILURE_INVALID,
                           inputs->embeddings ? "model \"%s\" accepts ids, not embeddings: send `%s`"
                                              : "model \"%s\" accepts ids, but `%s` is missing",
                           name, native_inputs_key(inputs));
    if (!inputs->embeddings && info->inputs[0].kind == INPUT_ROWS)
        return failure_set(&request->failure, FAILURE_INVALID,
                           inputs->inputs ? "model \"%s\" accepts rows of %" PRId64
                                            " floats, not ids: send `embeddings`"
                                          : "`embeddings` is missing; model \"%s\" accepts rows of %" PRId64 " floats",
                           name, info->inputs[0].columns);
    return 0;
}

/* Makes one item from a body that is a picture file. */
static int item_from_file(struct request *request, const struct native_inputs *inputs)
{
    request->job.items = request_take(request, 1, sizeof *request->job.items);
    if (!request->job.items)
        return -1;
    request->job.n_items = 1;
    char path[NATIVE_PATH];
    return native_picture(request, native_item_path(inputs, 0, path), request->body, request->body_length,
                          &request->job.items[0]);
}

static int read_list(struct request *request, struct native_inputs *inputs)
{
    static const struct items_readers readers = {items_from_numbers, items_from_json};
    const struct items_limit limit = native_limit(request, inputs, 0);
    struct inputs_reading reading = {
        .request = request,
        .inputs = inputs,
        .texts = {.request = request,
                  .options = {inputs->truncate, inputs->truncate_left, inputs->add_special_tokens},
                  .limit = &limit},
    };
    if (text_inputs_prompt(request, inputs->prompt_name, inputs->input_type, &reading.texts.options) != 0)
        return -1;
    json_t *value = inputs->inputs ? inputs->inputs : inputs->embeddings;
    int status = items_read(request, &inputs->lists, value, &readers, &reading);
    text_inputs_end(&reading.texts);
    return status;
}

int native_items(struct request *request, struct native_inputs *inputs)
{
    if (native_named_find(request, inputs) != 0 || check_kind(request, inputs) != 0 ||
        items_direction(request, inputs->truncation_direction, &inputs->truncate_left) != 0 ||
        text_inputs_truncation(request, inputs->truncate_prompt_tokens,
                               items_limit_beside(request->info, 0, native_given(inputs)).tokens,
                               &inputs->most_tokens) != 0)
        return -1;
    inputs->truncate = inputs->truncate || inputs->most_tokens > 0;
    if ((inputs->is_file ? item_from_file(request, inputs) : read_list(request, inputs)) != 0)
        return -1;
    return native_named_read(request, inputs);
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
        if (model_check(request_engine_model(request), &request->job.items[i], &error) != 0)
            return failure_set(&request->failure, FAILURE_INVALID, "%s: %s", native_item_path(inputs, i, path),
                               error.message);
    }
    return 0;
}
