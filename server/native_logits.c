/* native_logits: /logits, the model's output on the rows asked for, whole or the best few of each. */
#include "server/byte_tokenizer.h"
#include "server/native.h"

#include <inttypes.h>
#include <string.h>

struct logits_body {
    struct native_inputs inputs; /* first: the table's offsets count from here */
    json_t *positions;
    int64_t top_k;
    bool softmax;
};

/* What the answer needs after the JSON is gone. */
struct logits_plan {
    bool base64;
    const int32_t *rows; /* of every item; NULL: all of them, or the last */
    int64_t n_rows;
    bool last;
};

static const struct option options[] = {
    NATIVE_INPUT_OPTIONS,
    {"positions", OPTION_JSON, offsetof(struct logits_body, positions)},
    {"top_k", OPTION_INTEGER, offsetof(struct logits_body, top_k)},
    {"softmax", OPTION_BOOL, offsetof(struct logits_body, softmax)},
};

static int read_positions(struct request *request, const json_t *positions, struct logits_plan *plan)
{
    const char *word = json_string_value(positions);
    int32_t *rows;

    if (!positions || (word && strcmp(word, "all") == 0))
        return 0;
    if (word && strcmp(word, "last") == 0) {
        plan->last = true;
        return 0;
    }
    if (word || !json_is_array(positions))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "positions is %s%.50s%s, \"all\", \"last\" or a list of positions was expected",
                           word ? "\"" : "", word ? word : json_kind(positions), word ? "\"" : "");
    plan->n_rows = (int64_t)json_array_size(positions);
    if (plan->n_rows == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "positions is empty, at least one was expected");
    plan->rows = rows = request_memory(request, plan->n_rows, sizeof *rows);
    if (!rows)
        return -1;
    for (int64_t i = 0; i < plan->n_rows; i++) {
        const json_t *number = json_array_get(positions, (size_t)i);
        json_int_t position = json_integer_value(number);

        if (!json_is_integer(number))
            return failure_set(&request->failure, FAILURE_INVALID,
                               "positions[%" PRId64 "] is %s, an integer was expected", i, json_kind(number));
        if (position < 0 || position > INT32_MAX)
            return failure_set(&request->failure, FAILURE_INVALID,
                               "positions[%" PRId64 "] is %lld; positions count from 0 to an input's last token", i,
                               (long long)position);
        rows[i] = (int32_t)position;
    }
    return 0;
}

/* Every position against the length of every input. */
static int check_positions(struct request *request, const struct logits_body *body, const struct logits_plan *plan)
{
    int64_t furthest = 0;
    char path[NATIVE_PATH];

    for (int64_t i = 1; i < plan->n_rows; i++)
        furthest = plan->rows[i] > plan->rows[furthest] ? i : furthest;
    for (int64_t i = 0; plan->rows && i < request->job.n_items; i++) {
        int64_t length = request->job.items[i].inputs[0].length;

        if (plan->rows[furthest] >= length)
            return failure_set(&request->failure, FAILURE_INVALID,
                               "positions[%" PRId64 "] is %d, but %s has %" PRId64 " tokens", furthest,
                               (int)plan->rows[furthest], native_item_path(&body->inputs, i, path), length);
    }
    return 0;
}

static int64_t item_rows(const struct engine_item *item, const struct logits_plan *plan)
{
    return plan->rows ? plan->n_rows : plan->last ? 1 : item->inputs[0].length;
}

/* Memory for the output of all items, or for the best of it. */
static int want_output(struct request *request, const struct logits_body *body, const struct logits_plan *plan)
{
    struct job *job = &request->job;
    int64_t columns = body->top_k ? body->top_k : request->info->output_columns, floats = 0, rows = 0;
    float *values;
    int32_t *best = NULL;

    for (int64_t i = 0; i < job->n_items; i++) {
        rows += item_rows(&job->items[i], plan);
        if (native_count_floats(request, item_rows(&job->items[i], plan), columns, &floats))
            return -1;
    }
    /* With top_k an id and its text go with each value; every row also has its position. */
    request->answer_bytes = native_floats_bytes(floats, plan->base64) + 8 * rows;
    if (body->top_k)
        request->answer_bytes *= 3;
    if (request_charge(request, request->answer_bytes))
        return -1;
    values = request_memory(request, floats, sizeof *values);
    if (body->top_k)
        best = request_memory(request, floats, sizeof *best);
    if (!values || (body->top_k && !best))
        return -1;
    for (int64_t i = 0; i < job->n_items; i++) {
        struct engine_item *item = &job->items[i];

        item->softmax = body->softmax;
        item->top_k = body->top_k;
        item->n_rows = item_rows(item, plan);
        item->rows = plan->rows;
        if (body->top_k) {
            item->top_values = values;
            item->top_columns = best;
            best += item->n_rows * columns;
        } else {
            item->output = values;
        }
        values += item->n_rows * columns;
    }
    return 0;
}

/* The last row of each item. */
static int want_last(struct request *request)
{
    int32_t *rows = request_memory(request, request->job.n_items, sizeof *rows);

    if (!rows)
        return -1;
    for (int64_t i = 0; i < request->job.n_items; i++) {
        rows[i] = (int32_t)(request->job.items[i].inputs[0].length - 1);
        request->job.items[i].rows = &rows[i];
    }
    return 0;
}

static int read_body(struct request *request, json_t *json, struct logits_plan *plan)
{
    struct logits_body body = {0};

    if (!request->info->has_logits)
        return failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" has no logits: %s has no output layer",
                           request_model_name(request), request->info->architecture);
    if (json_body_options(json, options, sizeof options / sizeof options[0], &body, &request->failure) ||
        read_positions(request, body.positions, plan) || native_items(request, &body.inputs) ||
        native_encoding(request, &body.inputs, &plan->base64) || check_positions(request, &body, plan))
        return -1;
    if (body.top_k > request->info->vocabulary)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "top_k is %" PRId64 ", the vocabulary of model \"%s\" has %" PRId64, body.top_k,
                           request_model_name(request), request->info->vocabulary);
    if (want_output(request, &body, plan) || (plan->last && want_last(request)))
        return -1;
    return native_check(request, &body.inputs);
}

enum outcome native_logits_read(struct request *request)
{
    json_t *json = native_body(request);
    struct logits_plan *plan;
    enum outcome outcome = OUTCOME_FAILED;

    if (!json)
        return OUTCOME_FAILED;
    request->options = plan = request_memory(request, 1, sizeof *plan);
    if (plan && read_body(request, json, plan) == 0)
        outcome = OUTCOME_RUN;
    json_decref(json);
    return outcome;
}

static void write_positions(struct writer *writer, const struct engine_item *item)
{
    writer_text(writer, "\"positions\":[");
    for (int64_t row = 0; row < item->n_rows; row++) {
        if (row > 0)
            writer_text(writer, ",");
        writer_integer(writer, item->rows ? item->rows[row] : row);
    }
    writer_text(writer, "]");
}

static void write_best(struct writer *writer, const struct engine_item *item, bool text)
{
    char bytes[BYTE_TOKENIZER_BYTES];

    for (int64_t i = 0; i < item->n_rows * item->top_k; i++) {
        int32_t id = item->top_columns[i];

        writer_text(writer, i % item->top_k ? "," : i ? "],[" : "[");
        if (text)
            writer_string(writer, bytes, (size_t)byte_tokenizer_bytes(id, bytes));
        else
            writer_integer(writer, id);
    }
    writer_text(writer, "]");
}

static void write_values(struct writer *writer, const float *values, int64_t rows, int64_t columns, bool base64)
{
    writer_text(writer, ",\"logits\":[");
    for (int64_t row = 0; row < rows; row++) {
        if (row > 0)
            writer_text(writer, ",");
        if (base64)
            writer_base64(writer, values + row * columns, columns);
        else
            writer_floats(writer, values + row * columns, columns);
    }
    writer_text(writer, "]");
}

int native_logits_answer(struct request *request)
{
    const struct logits_plan *plan = request->options;
    struct writer *writer = &request->answer;

    writer_text(writer, "[");
    for (int64_t i = 0; i < request->job.n_items; i++) {
        const struct engine_item *item = &request->job.items[i];

        writer_text(writer, i > 0 ? ",{" : "{");
        write_positions(writer, item);
        if (item->top_k) {
            writer_text(writer, ",\"tokens\":[");
            write_best(writer, item, false);
            if (request->info->tokenizer == TOKENIZER_BYTE) {
                writer_text(writer, "],\"text\":[");
                write_best(writer, item, true);
            }
            writer_text(writer, "]");
            write_values(writer, item->top_values, item->n_rows, item->top_k, plan->base64);
        } else {
            write_values(writer, item->output, item->n_rows, request->info->output_columns, plan->base64);
        }
        writer_text(writer, "}");
    }
    writer_text(writer, "]");
    return 0;
}
