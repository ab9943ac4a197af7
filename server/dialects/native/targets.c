/* targets: the key `targets` of /logits. The answer contains the log-probability of one id at each position, instead of
 * the logits of all ids. So the memory for an answer does not depend on the size of the vocabulary. */
#include "server/dialects/native/targets.h"

#include "server/dialects/native/body.h"
#include "server/dialects/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NO_TARGET (-1) /* stands for no target in lists of targets, as in engine_item */
#define IGNORED (-100) /* stands for no target in a request, as ignore_index does in PyTorch */

/* Maximum number of bytes of text around the log-probabilities of an item. */
enum { ITEM_TEXT = 96 };

/* The targets of all items while they are read. */
struct targets_reading {
    struct request *request;
    const struct native_inputs *inputs;
    int32_t *ids; /* (n_ids): for each position of all items, an id or NO_TARGET */
    int64_t n_ids;
};

static int64_t rows_of(const struct request *request, int64_t item)
{
    return model_hidden_rows(request_engine_model(request), &request->job.items[item]);
}

/* Writes the name of an item's targets for messages, "targets[3]" or "targets". Returns `path`. */
static const char *targets_path(const struct native_inputs *inputs, int64_t item, char path[NATIVE_PATH])
{
    snprintf(path, NATIVE_PATH, inputs->many ? "targets[%" PRId64 "]" : "targets", item);
    return path;
}

static int refuse_count(const struct targets_reading *reading, int64_t item, int64_t found)
{
    char path[NATIVE_PATH], input_path[NATIVE_PATH];
    return failure_set(&reading->request->failure, FAILURE_INVALID,
                       "%s has %" PRId64 " ids, but %s has %" PRId64 " tokens: one id for each token was expected, or "
                       "-100 or null for tokens without a target",
                       targets_path(reading->inputs, item, path), found,
                       native_item_path(reading->inputs, item, input_path), rows_of(reading->request, item));
}

/* ---- "next" ---- */

/* Sets the target of each position to the id at the next position. The last position has no target. */
static int next_ids(struct targets_reading *reading)
{
    struct request *request = reading->request;
    int sequence = request->info->sequence_input;
    if (sequence < 0 || request->info->inputs[sequence].kind != INPUT_IDS)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "targets is \"next\", but the inputs of model \"%s\" are not ids: send lists of ids",
                           request_model_name(request));
    int32_t *to = reading->ids;
    for (int64_t i = 0; i < request->job.n_items; i++) {
        const struct engine_input *input = &request->job.items[i].inputs[sequence];
        int64_t rows = rows_of(request, i);
        if (input->length != rows)
            return failure_set(&request->failure, FAILURE_INVALID,
                               "targets is \"next\", but model \"%s\" outputs %" PRId64 " rows for %" PRId64
                               " ids: send lists of ids",
                               request_model_name(request), rows, input->length);
        if (rows == 0)
            continue;
        memcpy(to, (const int32_t *)input->data + 1, (size_t)(rows - 1) * sizeof *to);
        to[rows - 1] = NO_TARGET;
        to += rows;
    }
    return 0;
}

/* ---- Lists of ids ---- */

static int read_target(const struct targets_reading *reading, const char *path, int64_t index, const json_t *value,
                       int32_t *target)
{
    const struct request *request = reading->request;
    json_int_t id = json_integer_value(value);
    bool ignored = json_is_null(value) || (json_is_integer(value) && id == IGNORED);
    *target = ignored ? NO_TARGET : (int32_t)id;
    if (ignored || (json_is_integer(value) && id >= 0 && id < request->info->output_columns))
        return 0;
    struct failure *failure = &reading->request->failure;
    if (!json_is_integer(value))
        return failure_set(failure, FAILURE_INVALID, "%s[%" PRId64 "] is %s, an id, -100 or null was expected", path,
                           index, json_kind(value));
    return failure_set(failure, FAILURE_INVALID,
                       "%s[%" PRId64 "] is %lld; targets of model \"%s\" are ids below %" PRId64 ", -100 or null", path,
                       index, (long long)id, request_model_name(request), request->info->output_columns);
}

static int read_list(const struct targets_reading *reading, int64_t item, const json_t *list, int32_t *to)
{
    char path[NATIVE_PATH];
    int64_t count = (int64_t)json_array_size(list);
    targets_path(reading->inputs, item, path);
    if (!json_is_array(list))
        return failure_set(&reading->request->failure, FAILURE_INVALID, "%s is %s, a list of ids was expected", path,
                           json_kind(list));
    if (count != rows_of(reading->request, item))
        return refuse_count(reading, item, count);
    for (int64_t i = 0; i < count; i++)
        if (read_target(reading, path, i, json_array_get(list, (size_t)i), &to[i]) != 0)
            return -1;
    return 0;
}

static int ids_from_json(void *context, const json_t *value)
{
    const struct targets_reading *reading = context;
    struct request *request = reading->request;
    int64_t n_items = request->job.n_items, given = (int64_t)json_array_size(value);
    int32_t *to = reading->ids;
    if (!json_is_array(value))
        return failure_set(&request->failure, FAILURE_INVALID, "targets is %s, \"next\" or lists of ids were expected",
                           json_kind(value));
    if (reading->inputs->many && given != n_items)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "targets has %" PRId64 " elements, but the request has %" PRId64
                           " inputs: a list of ids for each was expected",
                           given, n_items);
    for (int64_t i = 0; i < n_items; i++) {
        const json_t *list = reading->inputs->many ? json_array_get(value, (size_t)i) : value;
        if (read_list(reading, i, list, to) != 0)
            return -1;
        to += rows_of(request, i);
    }
    return 0;
}

/* Reads lists of numbers. Returns 0 if a number or a length is wrong. ids_from_json refuses such lists with a message
 * about the fault. */
static int ids_from_numbers(void *context, const struct numbers *numbers)
{
    const struct targets_reading *reading = context;
    struct request *request = reading->request;
    int64_t n_items = request->job.n_items;
    int depth = reading->inputs->many ? 2 : 1;
    if (numbers->depth != depth || numbers->lists[depth - 1] != n_items || numbers->count != reading->n_ids)
        return 0;
    int64_t *ends = request_take(request, n_items, sizeof *ends), end = 0;
    if (!ends)
        return -1;
    const struct numbers_target target = {.ids = reading->ids,
                                          .below = request->info->output_columns,
                                          .none = IGNORED,
                                          .item_depth = depth,
                                          .ends = ends};
    if (!numbers_read(numbers, &target))
        return 0;
    for (int64_t i = 0; i < n_items; i++) {
        end += rows_of(request, i);
        if (ends[i] != end)
            return 0;
    }
    return 1;
}

static int read_targets(struct targets_reading *reading, struct items_lists *lists, json_t *targets)
{
    static const struct items_readers readers = {ids_from_numbers, ids_from_json};
    const char *word = json_word(targets);
    if (word && strcmp(word, "next") == 0)
        return next_ids(reading);
    if (word)
        return failure_set(&reading->request->failure, FAILURE_INVALID,
                           "targets is \"%.50s\", \"next\" or lists of ids were expected", word);
    return items_read(reading->request, lists, targets, &readers, reading);
}

/* ---- Requested rows ---- */

/* Makes the item request the positions that have a target. An item without any target requests only its first row,
 * which is the cheapest request.
 *
 * `ids` (count) contains the target of each position. It receives the targets of the requested rows. `rows` (count)
 * receives their positions. */
static void request_rows(struct engine_item *item, int64_t count, int32_t *ids, int32_t *rows, float *values)
{
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] == NO_TARGET)
            continue;
        ids[n] = ids[i];
        rows[n++] = (int32_t)i;
    }
    if (n == 0 && count > 0) {
        ids[0] = NO_TARGET;
        rows[n++] = 0;
    }
    item->targets = ids;
    item->log_probabilities = values;
    item->rows = n < count ? rows : NULL;
    item->n_rows = n;
}

int native_targets_want(struct request *request, struct native_inputs *inputs, json_t *targets, bool base64)
{
    struct targets_reading reading = {.request = request, .inputs = inputs};
    int64_t n_items = request->job.n_items;
    for (int64_t i = 0; i < n_items; i++)
        if (results_count(request, rows_of(request, i), 1, &reading.n_ids) != 0)
            return -1;
    reading.ids = request_take(request, reading.n_ids, sizeof *reading.ids);
    if (!reading.ids || read_targets(&reading, &inputs->lists, targets) != 0)
        return -1;
    int32_t *rows = request_take(request, reading.n_ids, sizeof *rows);
    float *values = rows ? request_take(request, reading.n_ids, sizeof *values) : NULL;
    request->answer_bytes = results_text_bytes(reading.n_ids, n_items, base64) + n_items * ITEM_TEXT;
    if (!values || request_charge(request, request->answer_bytes) != 0)
        return -1;
    for (int64_t i = 0, start = 0; i < n_items; i++) {
        int64_t count = rows_of(request, i);
        request_rows(&request->job.items[i], count, reading.ids + start, rows + start, values + start);
        start += count;
    }
    return 0;
}

/* ---- The answer ---- */

/* Moves the item's log-probabilities to the positions of their rows, in place. The value at a position without a target
 * becomes NaN. item->log_probabilities must have `rows` elements. */
static void scatter_in_place(const struct engine_item *item, int64_t rows)
{
    float *values = item->log_probabilities;
    for (int64_t position = rows - 1, n = item->n_rows - 1; position >= 0; position--) {
        bool requested = n >= 0 && (item->rows ? item->rows[n] : n) == position;
        values[position] = requested && item->targets[n] != NO_TARGET ? values[n] : NAN;
        n -= requested;
    }
}

static void write_list(struct writer *writer, const float *values, int64_t count)
{
    writer_text(writer, "[");
    for (int64_t i = 0; i < count; i++) {
        if (i > 0)
            writer_text(writer, ",");
        if (isnan(values[i]))
            writer_text(writer, "null");
        else
            writer_float(writer, values[i]);
    }
    writer_text(writer, "]");
}

static void write_item(struct writer *writer, const struct engine_item *item, int64_t rows, bool base64)
{
    const float *values = item->log_probabilities;
    double sum = 0;
    int64_t count = 0;
    scatter_in_place(item, rows);
    for (int64_t i = 0; i < rows; i++) {
        count += !isnan(values[i]);
        sum += isnan(values[i]) ? 0 : (double)values[i];
    }
    writer_text(writer, "{\"logprobs\":");
    if (base64)
        writer_base64(writer, values, rows);
    else
        write_list(writer, values, rows);
    writer_text(writer, ",\"mean_logprob\":");
    if (count > 0)
        writer_float(writer, (float)(sum / (double)count));
    else
        writer_text(writer, "null");
    writer_text(writer, ",\"n\":");
    writer_integer(writer, count);
    writer_text(writer, "}");
}

void native_targets_write(struct request *request, bool base64)
{
    struct writer *writer = &request->answer;
    writer_reserve(writer, (size_t)request->answer_bytes);
    writer_text(writer, "[");
    for (int64_t i = 0; i < request->job.n_items; i++) {
        if (i > 0)
            writer_text(writer, ",");
        write_item(writer, &request->job.items[i], rows_of(request, i), base64);
    }
    writer_text(writer, "]");
}
