/* named: reads inputs of a model under the names of forward()'s parameters, except the value of the first input. An
 * item of an input is a nested list, as deep as the input's tensor has dimensions. A text may replace a list of ids.
 *
 * The lists of an item are measured before memory is allocated for the values. While the values are read, all lists of
 * a depth are known to have the same length. */
#include "server/dialects/native/named.h"

#include "server/dialects/native/body.h"
#include "server/dialects/native/model.h"
#include "server/dialects/text_inputs.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAMES_BYTES 256
#define PLACE_BYTES 160

/* ---- Names ---- */

static int index_of(const struct model_info *info, const char *name)
{
    for (int i = 0; i < info->n_inputs; i++)
        if (strcmp(info->inputs[i].name, name) == 0)
            return i;
    return -1;
}

/* Writes the names of all inputs, or of those that the model requires, to `names`. */
static void list_names(const struct model_info *info, bool required, char names[NAMES_BYTES])
{
    int length = 0;
    *names = '\0';
    for (int i = 0; i < info->n_inputs && length < NAMES_BYTES; i++)
        if (!required || !info->inputs[i].optional)
            length += snprintf(names + length, (size_t)(NAMES_BYTES - length), "%s\"%.60s\"", length > 0 ? ", " : "",
                               info->inputs[i].name);
}

int native_options(struct request *request, const json_t *json, const struct option *table, size_t count, void *out)
{
    const struct model_info *info = request->info;
    struct option all[NATIVE_MAX_OPTIONS + ENGINE_MAX_INPUTS];
    size_t n = count;
    assert(count <= NATIVE_MAX_OPTIONS);
    memcpy(all, table, count * sizeof *table);
    for (int i = 0; i < info->n_inputs; i++) {
        size_t known = 0;
        while (known < count && strcmp(table[known].name, info->inputs[i].name) != 0)
            known++;
        if (known == count)
            all[n++] = (struct option){info->inputs[i].name, OPTION_JSON,
                                       offsetof(struct native_inputs, given) + (size_t)i * sizeof(json_t *)};
    }
    return request_options(request, json, all, n, out);
}

static int refuse_twice(struct request *request, const char *one, const char *other)
{
    return failure_set(&request->failure, FAILURE_INVALID, "both %.60s and %.60s are given, one was expected", one,
                       other);
}

/* Copies the members of the object `inputs` to `given`, and sets inputs->inputs to NULL. */
static int open_object(struct request *request, struct native_inputs *inputs)
{
    const struct model_info *info = request->info;
    const char *name;
    json_t *value;
    if (json_object_size(inputs->inputs) == 0) {
        char names[NAMES_BYTES];
        list_names(info, false, names);
        return failure_set(&request->failure, FAILURE_INVALID, "inputs is empty; the inputs of model \"%s\" are %s",
                           request_model_name(request), names);
    }
    json_object_foreach (inputs->inputs, name, value) {
        int index = index_of(info, name);
        if (index < 0) {
            char names[NAMES_BYTES];
            list_names(info, false, names);
            return failure_set(&request->failure, FAILURE_INVALID,
                               "inputs.%.60s is unknown; the inputs of model \"%s\" are %s", name,
                               request_model_name(request), names);
        }
        if (json_is_null(value))
            continue;
        if (inputs->given[index])
            return failure_set(&request->failure, FAILURE_INVALID,
                               "both %.60s and inputs.%.60s are given, one was expected", name, name);
        inputs->given[index] = value;
        inputs->in_object |= 1u << index;
    }
    inputs->inputs = NULL;
    return 0;
}

/* The key `embeddings` usually means the first input. It means the model's input of this name if there is such an
 * input, and the request contains the first input under another key. */
static void place_embeddings(const struct request *request, struct native_inputs *inputs)
{
    int index = index_of(request->info, "embeddings");
    if (index <= 0 || !inputs->embeddings || inputs->given[index] || (!inputs->inputs && !inputs->given[0]))
        return;
    inputs->given[index] = inputs->embeddings;
    inputs->embeddings = NULL;
}

/* If the request contains the first input under its own name, sets `inputs` or `embeddings` to its value, as the model
 * requires. */
static int place_first(struct request *request, struct native_inputs *inputs)
{
    const struct model_input *first = &request->info->inputs[0];
    if (!inputs->given[0])
        return 0;
    if (inputs->inputs || inputs->embeddings)
        return refuse_twice(request, first->name, inputs->inputs ? "inputs" : "embeddings");
    *(first->kind == INPUT_IDS || native_takes_pictures(request) ? &inputs->inputs : &inputs->embeddings) =
        inputs->given[0];
    inputs->own_name = first->name;
    return 0;
}

static int check_given(struct request *request, const struct native_inputs *inputs)
{
    const struct model_info *info = request->info;
    char names[NAMES_BYTES];
    for (int i = 1; i < info->n_inputs; i++) {
        if (info->inputs[i].optional || inputs->given[i])
            continue;
        list_names(info, true, names);
        return failure_set(&request->failure, FAILURE_INVALID,
                           inputs->named ? "model \"%s\" needs the inputs %s, but \"%s\" is missing"
                                         : "model \"%s\" needs the inputs %s; this route accepts only one input",
                           request_model_name(request), names, info->inputs[i].name);
    }
    return 0;
}

int native_named_find(struct request *request, struct native_inputs *inputs)
{
    if (inputs->named && json_is_object(inputs->inputs) && open_object(request, inputs) != 0)
        return -1;
    if (inputs->named) {
        place_embeddings(request, inputs);
        if (place_first(request, inputs) != 0)
            return -1;
    }
    return check_given(request, inputs);
}

/* Like native_item_path, for an input other than the first one. */
static const char *input_path(const struct request *request, const struct native_inputs *inputs, int index,
                              int64_t item, char path[NATIVE_PATH])
{
    const char *object = inputs->in_object >> index & 1 ? "inputs." : "";
    const char *name = request->info->inputs[index].name;
    snprintf(path, NATIVE_PATH, inputs->listed[index] ? "%s%.40s[%" PRId64 "]" : "%s%.40s", object, name, item);
    return path;
}

/* ---- Reading one input ---- */

/* The reader of one input, and the items that it has read. */
struct named_reading {
    struct request *request;
    struct native_inputs *inputs;
    int index;
    const struct model_input *input;
    int depth; /* number of nested lists of an item. 0 if an item is a single value */
    struct text_inputs texts;
    struct items_limit limit;
    struct engine_input *items; /* (count): the items that were read */
    int64_t count;
};

/* One item while its lists are read. */
struct named_item {
    const struct named_reading *reading;
    const char *path;
    int64_t number;                 /* index of the item in reading->items */
    int64_t sizes[ENGINE_MAX_RANK]; /* (reading->depth): length of the lists at each depth, after cutting */
    int64_t skip;                   /* number of elements that are cut off at the start of the outermost list */
    int64_t at[ENGINE_MAX_RANK];    /* (reading->depth): indices of the current value, for messages */
    bool floats; /* the values are floats that are added to scores. Only if the input is an INPUT_ATTENTION_MASK */
};

static int depth_of(const struct model_input *input)
{
    if (input->layout == LAYOUT_TENSOR)
        return input->rank;
    return input->kind == INPUT_ROWS || input->kind == INPUT_ATTENTION_MASK ? 2 : 1;
}

/* The number of elements that a list at this depth must have. -1 if any number is allowed. */
static int64_t wanted_size(const struct model_input *input, int depth)
{
    if (input->layout == LAYOUT_TENSOR)
        return input->shape[depth];
    if (depth == 0)
        return -1;
    return input->columns > 0 ? input->columns : -1;
}

/* Whether an item is a sequence of tokens. The length of such an item is limited, and it may be cut. */
static bool is_cut(const struct model_input *input, int depth)
{
    bool tokens = input->kind == INPUT_IDS || input->kind == INPUT_ROWS;
    return tokens && (input->layout == LAYOUT_SEQUENCE ||
                      (input->layout == LAYOUT_TENSOR && depth == (input->kind == INPUT_IDS ? 1 : 2)));
}

/* Writes the path of the current value, with the first `depth` of its indices, such as "tgt[0][5]". */
static const char *place_text(const struct named_item *item, int depth, char text[PLACE_BYTES])
{
    int length = snprintf(text, PLACE_BYTES, "%s", item->path);
    for (int d = 0; d < depth && length < PLACE_BYTES; d++)
        length += snprintf(text + length, (size_t)(PLACE_BYTES - length), "[%" PRId64 "]",
                           item->at[d] + (d == 0 ? item->skip : 0));
    return text;
}

/* If the input accepts floats, the first value of a mask decides whether the mask consists of floats. */
static const char *expected_in_mask(const struct named_item *item)
{
    bool first = true;
    if (!item->reading->input->accepts_floats)
        return "true, false, 1 or 0";
    if (item->floats)
        return "a number like the first value of the mask";
    for (int d = 0; d < item->reading->depth; d++)
        first &= item->at[d] == 0;
    return first ? "true, false or a number" : "true or false like the first value of the mask";
}

static const char *expected_value(const struct named_item *item)
{
    switch (item->reading->input->kind) {
    case INPUT_IDS:
        return "an integer id";
    case INPUT_ROWS:
        return "a number";
    default:
        return expected_in_mask(item);
    }
}

static int refuse_value(const struct named_item *item, const json_t *value)
{
    char place[PLACE_BYTES];
    const struct named_reading *reading = item->reading;
    return failure_set(&reading->request->failure, FAILURE_INVALID, "%s is %s, %s was expected",
                       place_text(item, reading->depth, place), json_kind(value), expected_value(item));
}

static int read_id(const struct named_item *item, const json_t *value, int32_t *id)
{
    const struct named_reading *reading = item->reading;
    json_int_t number = json_integer_value(value);
    char place[PLACE_BYTES];
    if (!json_is_integer(value))
        return refuse_value(item, value);
    *id = (int32_t)number;
    if (number >= 0 && number < reading->input->vocabulary)
        return 0;
    return failure_set(&reading->request->failure, FAILURE_INVALID,
                       "%s is %lld; ids of input \"%s\" are %sbelow %" PRId64, place_text(item, reading->depth, place),
                       (long long)number, reading->input->name, number < 0 ? "at least 0 and " : "",
                       reading->input->vocabulary);
}

static int read_float(const struct named_item *item, const json_t *value, float *number)
{
    char place[PLACE_BYTES];
    if (!json_is_number(value))
        return refuse_value(item, value);
    *number = (float)json_number_value(value);
    if (isfinite(*number))
        return 0;
    return failure_set(&item->reading->request->failure, FAILURE_INVALID,
                       "%s is %g, outside the range of a 32 bit float", place_text(item, item->reading->depth, place),
                       json_number_value(value));
}

static int read_truth(const struct named_item *item, const json_t *value, uint8_t *truth)
{
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : json_is_boolean(value) ? 0 : -1;
    *truth = json_is_true(value) || number == 1;
    return number == 0 || number == 1 ? 0 : refuse_value(item, value);
}

static size_t value_bytes(const struct named_item *item)
{
    bool bytes = item->reading->input->kind == INPUT_MASK ||
                 (item->reading->input->kind == INPUT_ATTENTION_MASK && !item->floats);
    return bytes ? sizeof(uint8_t) : sizeof(float);
}

static int read_value(const struct named_item *item, const json_t *value, void *values, int64_t n)
{
    if (item->reading->input->kind == INPUT_IDS)
        return read_id(item, value, (int32_t *)values + n);
    if (value_bytes(item) == sizeof(uint8_t))
        return read_truth(item, value, (uint8_t *)values + n);
    return read_float(item, value, (float *)values + n);
}

/* Sets item->sizes from the first list at each depth. Fails if a size differs from the size that the model
 * prescribes. */
static int measure(struct named_item *item, const json_t *value)
{
    const struct named_reading *reading = item->reading;
    struct failure *failure = &reading->request->failure;
    char place[PLACE_BYTES];
    for (int d = 0; d < reading->depth; d++, value = json_array_get(value, 0)) {
        int64_t wanted = wanted_size(reading->input, d), found = (int64_t)json_array_size(value);
        item->at[d] = 0;
        item->sizes[d] = found;
        if (!json_is_array(value))
            return failure_set(failure, FAILURE_INVALID, "%s is %s, a list of %s was expected",
                               place_text(item, d, place), json_kind(value),
                               d + 1 < reading->depth ? "lists" : "values");
        if (found == 0)
            return failure_set(failure, FAILURE_INVALID, "%s is empty, at least one element was expected",
                               place_text(item, d, place));
        if (wanted >= 0 && found != wanted)
            return failure_set(failure, FAILURE_INVALID, "%s has %" PRId64 " elements, %" PRId64 " were expected",
                               place_text(item, d, place), found, wanted);
    }
    item->floats = reading->input->accepts_floats && json_is_number(value);
    return 0;
}

/* Fails if a list of the item, from `depth` on, does not have the size in item->sizes. Afterwards the product of the
 * sizes is at most the number of values in the body. */
static int check_sizes(struct named_item *item, const json_t *value, int depth)
{
    const struct named_reading *reading = item->reading;
    char place[PLACE_BYTES];
    if (depth == reading->depth)
        return 0;
    if (!json_is_array(value))
        return failure_set(&reading->request->failure, FAILURE_INVALID,
                           "%s is %s, a list of %" PRId64 " was expected, like the lists before",
                           place_text(item, depth, place), json_kind(value), item->sizes[depth]);
    if ((int64_t)json_array_size(value) != item->sizes[depth])
        return failure_set(&reading->request->failure, FAILURE_INVALID,
                           "%s is %s of %zu elements, a list of %" PRId64 " was expected, like the lists before",
                           place_text(item, depth, place), json_kind(value), json_array_size(value),
                           item->sizes[depth]);
    for (int64_t i = 0; i < item->sizes[depth] && depth + 1 < reading->depth; i++) {
        item->at[depth] = i;
        if (check_sizes(item, json_array_get(value, (size_t)i), depth + 1) != 0)
            return -1;
    }
    return 0;
}

/* Reads the values of a list at `depth` into `values`. *n is the number of values that have been read so far. */
static int read_values(struct named_item *item, const json_t *value, int depth, void *values, int64_t *n)
{
    if (depth == item->reading->depth)
        return read_value(item, value, values, (*n)++);
    for (int64_t i = 0; i < item->sizes[depth]; i++) {
        item->at[depth] = i;
        size_t place = (size_t)(i + (depth == 0 ? item->skip : 0));
        if (read_values(item, json_array_get(value, place), depth + 1, values, n) != 0)
            return -1;
    }
    return 0;
}

/* Sets *to to the item's data and sizes. */
static void set_input(const struct named_item *item, const void *data, struct engine_input *to)
{
    const struct model_input *input = item->reading->input;
    *to = (struct engine_input){.data = data};
    if (input->layout == LAYOUT_TENSOR)
        memcpy(to->sizes, item->sizes, (size_t)input->rank * sizeof *to->sizes);
    to->length = item->reading->depth > 0 ? item->sizes[0] : 1;
    to->width = input->layout == LAYOUT_CALL ? 1 : 0;
    if (input->kind == INPUT_ATTENTION_MASK) {
        to->columns = item->sizes[1];
        to->floats = item->floats;
    }
}

/* The number of elements that cutting leaves of a mask with `length` elements. A mask is cut like its sequence, which
 * precedes the mask among the inputs. */
static int64_t cut_of_mask(const struct named_item *item, int64_t length)
{
    const struct named_reading *reading = item->reading;
    const struct job *job = &reading->request->job;
    int like = reading->input->like;
    if (!reading->inputs->truncate || like < 0 || like >= reading->index)
        return length;
    int64_t number = item->number < job->n_items ? item->number : 0;
    int64_t tokens = job->items[number].inputs[like].length;
    return tokens == items_limit_beside(reading->request->info, like, native_given(reading->inputs)).tokens &&
                   length > tokens
               ? tokens
               : length;
}

/* If the outermost list is too long, cuts or refuses it. */
static int cut_item(struct named_item *item)
{
    const struct named_reading *reading = item->reading;
    int64_t given = item->sizes[0];
    if (reading->input->kind == INPUT_MASK && reading->depth == 1) {
        item->sizes[0] = cut_of_mask(item, given);
        item->skip = reading->inputs->truncate_left ? given - item->sizes[0] : 0;
        return 0;
    }
    if (!is_cut(reading->input, reading->depth))
        return 0;
    return native_fit(reading->request, reading->inputs, reading->index, item->path, &item->sizes[0], &item->skip);
}

static int read_lists(const struct named_reading *reading, const char *path, int64_t number, const json_t *value)
{
    struct named_item item = {.reading = reading, .path = path, .number = number};
    int64_t count = 1, n = 0;
    if (measure(&item, value) != 0 || check_sizes(&item, value, 0) != 0 || cut_item(&item) != 0)
        return -1;
    for (int d = 0; d < reading->depth; d++)
        count *= item.sizes[d];
    void *values = request_take(reading->request, count, value_bytes(&item));
    if (!values || read_values(&item, value, 0, values, &n) != 0)
        return -1;
    set_input(&item, values, &reading->items[number]);
    return 0;
}

static int read_text(struct named_reading *reading, const char *path, int64_t number, const json_t *value)
{
    struct request *request = reading->request;
    const struct text_codec *codec = text_inputs_codec(request);
    if (reading->input->kind != INPUT_IDS || reading->depth != 1)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s is a text, a list was expected: texts are supported only for sequences of ids", path);
    if (codec && text_codec_ids(codec) > reading->input->vocabulary)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s is a text, a list of ids was expected: the tokenizer returns ids up to %" PRId64
                           ", but ids of this input are below %" PRId64,
                           path, text_codec_ids(codec) - 1, reading->input->vocabulary);
    int64_t count;
    int32_t *ids = text_inputs_ids(&reading->texts, path, json_string_value(value), json_string_length(value), &count);
    if (!ids)
        return -1;
    const struct named_item item = {.reading = reading, .path = path, .sizes = {count}};
    set_input(&item, ids, &reading->items[number]);
    return 0;
}

/* Whether the value is a list of items. Such a value has one level of lists more than an item. */
static bool is_list_of_items(const struct named_reading *reading, const json_t *value)
{
    int depth = 0;
    for (; json_is_array(value); depth++)
        value = json_array_get(value, 0);
    return depth + (json_is_string(value) && reading->depth > 0) > reading->depth;
}

static int take_items(struct named_reading *reading, int64_t count)
{
    if (native_check_count(reading->request, count) != 0)
        return -1;
    reading->count = count;
    reading->items = request_take(reading->request, count, sizeof *reading->items);
    return reading->items ? 0 : -1;
}

static int named_from_json(void *context, const json_t *value)
{
    struct named_reading *reading = context;
    bool listed = reading->inputs->listed[reading->index] = is_list_of_items(reading, value);
    char path[NATIVE_PATH];
    if (take_items(reading, listed ? (int64_t)json_array_size(value) : 1) != 0)
        return -1;
    for (int64_t i = 0; i < reading->count; i++) {
        const json_t *one = listed ? json_array_get(value, (size_t)i) : value;
        input_path(reading->request, reading->inputs, reading->index, i, path);
        if ((json_is_string(one) ? read_text(reading, path, i, one) : read_lists(reading, path, i, one)) != 0)
            return -1;
    }
    return 0;
}

/* ---- Numbers ---- */

/* Sets each item to its part of the values. Returns 0 if named_from_json must read the input instead. */
static int place_numbers(struct named_reading *reading, const int64_t *ends, void *values, int64_t row)
{
    size_t bytes = reading->input->kind == INPUT_MASK ? sizeof(uint8_t) : sizeof(float);
    for (int64_t i = 0, start = 0; i < reading->count; start = ends[i++]) {
        struct named_item item = {.reading = reading, .path = "", .number = i};
        int64_t length = (ends[i] - start) / row, wanted = wanted_size(reading->input, 0);
        item.sizes[0] = length;
        item.sizes[1] = row;
        if (wanted >= 0 && length != wanted)
            return 0;
        if (is_cut(reading->input, reading->depth) && length > reading->limit.tokens && !reading->inputs->truncate)
            return 0;
        if (cut_item(&item) != 0)
            return -1;
        set_input(&item, (const char *)values + (size_t)(start + item.skip * row) * bytes, &reading->items[i]);
    }
    return 1;
}

/* Reads ids, rows and masks that are numbers. Returns 0 for other inputs, and for wrong numbers. named_from_json reads
 * or refuses these, and its message names the place. */
static int named_from_numbers(void *context, const struct numbers *numbers)
{
    struct named_reading *reading = context;
    const struct model_input *input = reading->input;
    bool listed = numbers->depth == reading->depth + 1, rows = input->kind == INPUT_ROWS;
    int64_t row = reading->depth == 2 ? wanted_size(input, 1) : 1, count = numbers->count;
    bool readable = (input->kind == INPUT_IDS && reading->depth == 1) || (rows && reading->depth == 2 && row > 0) ||
                    (input->kind == INPUT_MASK && reading->depth == 1);
    if (!readable || (!listed && numbers->depth != reading->depth))
        return 0;
    reading->inputs->listed[reading->index] = listed;
    if (take_items(reading, listed ? numbers->lists[1] : 1) != 0)
        return -1;
    void *values = request_take(reading->request, count, sizeof(float));
    int64_t *ends = values ? request_take(reading->request, reading->count, sizeof *ends) : NULL;
    if (!ends)
        return -1;
    struct numbers_target target = {.ids = rows ? NULL : values,
                                    .floats = rows ? values : NULL,
                                    .below = input->kind == INPUT_MASK ? 2 : input->vocabulary,
                                    .item_depth = listed ? 2 : 1,
                                    .ends = ends};
    if (rows)
        target.sizes[numbers->depth - 1] = row;
    if (!numbers_read(numbers, &target))
        return 0;
    for (int64_t i = 0; input->kind == INPUT_MASK && i < count; i++)
        ((uint8_t *)values)[i] = (uint8_t)((const int32_t *)values)[i]; /* byte i overlaps no unread id */
    return place_numbers(reading, ends, values, row);
}

/* ---- All inputs ---- */

static int read_input(struct request *request, struct native_inputs *inputs, int index, struct named_reading *reading)
{
    static const struct items_readers readers = {named_from_numbers, named_from_json};
    const struct model_input *input = &request->info->inputs[index];
    *reading = (struct named_reading){
        .request = request,
        .inputs = inputs,
        .index = index,
        .input = input,
        .depth = depth_of(input),
        .limit = items_limit_beside(request->info, index, native_given(inputs)),
        .texts = {.request = request, .options = {inputs->truncate, inputs->truncate_left, inputs->add_special_tokens}},
    };
    reading->texts.limit = &reading->limit;
    if (input->refused)
        return failure_set(&request->failure, FAILURE_INVALID, "input \"%.100s\" is not accepted: %s", input->name,
                           input->refused);
    if (input->kind == INPUT_IGNORED) {
        static const struct engine_input ignored = {.data = ""};
        if (take_items(reading, 1) != 0)
            return -1;
        *reading->items = ignored;
        return 0;
    }
    int status = items_read(request, &inputs->lists, inputs->given[index], &readers, reading);
    text_inputs_end(&reading->texts);
    return status;
}

/* Makes `count` items of the job from its only item. */
static int repeat_item(struct request *request, int64_t count)
{
    struct engine_item *items = request_take(request, count, sizeof *items);
    if (!items)
        return -1;
    for (int64_t i = 0; i < count; i++)
        items[i] = request->job.items[0];
    request->job.items = items;
    request->job.n_items = count;
    return 0;
}

/* Adds the items of one input to the items of the job. An input with a single item is used for all items of the job. */
static int join(struct request *request, const struct named_reading *reading)
{
    struct job *job = &request->job;
    if (job->n_items == 1 && reading->count > 1 && repeat_item(request, reading->count) != 0)
        return -1;
    if (reading->count != job->n_items && reading->count != 1)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "%s has %" PRId64 " items, but other inputs have %" PRId64
                           ": the same number, or one item for all, was expected",
                           request->info->inputs[reading->index].name, reading->count, job->n_items);
    for (int64_t i = 0; i < job->n_items; i++)
        job->items[i].inputs[reading->index] = reading->items[reading->count == 1 ? 0 : i];
    return 0;
}

int native_named_read(struct request *request, struct native_inputs *inputs)
{
    for (int index = 1; index < request->info->n_inputs; index++) {
        struct named_reading reading;
        if (!inputs->given[index])
            continue;
        if (read_input(request, inputs, index, &reading) != 0 || join(request, &reading) != 0)
            return -1;
    }
    for (int index = 0; index < request->info->n_inputs; index++)
        inputs->many = inputs->many || inputs->listed[index];
    int rows = request->info->sequence_input;
    if (rows > 0 && inputs->given[rows]) {
        inputs->message_input = rows;
        inputs->message_input_name = request->info->inputs[rows].name;
    }
    return 0;
}
