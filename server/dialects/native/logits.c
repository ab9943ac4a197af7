/* logits: /logits returns the model's output at the requested positions. The answer contains all columns, the top_k
 * largest columns of each row, or the log-probabilities of given ids (targets.c). */
#include "server/dialects/native/body.h"
#include "server/dialects/native/inputs.h"
#include "server/dialects/native/named.h"
#include "server/dialects/native/routes.h"
#include "server/dialects/native/served.h"
#include "server/dialects/native/targets.h"
#include "server/dialects/results.h"
#include "server/dialects/text_inputs.h"

#include <inttypes.h>
#include <string.h>

struct logits_body {
    struct native_inputs inputs; /* must be the first member for NATIVE_INPUT_OPTIONS */
    json_t *positions, *targets;
    int64_t top_k;
    bool softmax;
};

/* The requested positions, and the form of the answer. The answer needs both after the JSON is freed. */
struct logits_plan {
    const struct model *model;
    bool base64;
    bool targets;             /* the answer contains log-probabilities of given ids instead of logits */
    const int32_t *positions; /* (n_positions): the requested positions, the same for every item, in the order of the
                                 answer. NULL if all positions or only the last position are requested */
    int64_t n_positions;
    bool last;
    const int32_t *rows; /* (n_rows): the values of `positions` without repetition. The job computes these rows. NULL if
                            `positions` is NULL */
    int64_t n_rows;
    const int32_t *places; /* (n_positions): for each position, its index in `rows`. NULL if no position is repeated */
};

static const struct option options[] = {
    NATIVE_INPUT_OPTIONS,
    {"positions", OPTION_JSON, offsetof(struct logits_body, positions)},
    {"targets", OPTION_JSON, offsetof(struct logits_body, targets)},
    {"top_k", OPTION_INTEGER, offsetof(struct logits_body, top_k)},
    {"softmax", OPTION_BOOL, offsetof(struct logits_body, softmax)},
};

static int read_positions(struct request *request, const json_t *positions, struct logits_plan *plan)
{
    const char *word = json_word(positions);
    if (json_is_string(positions) && !word)
        return failure_set(&request->failure, FAILURE_INVALID, "positions contains a NUL character");
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
    plan->n_positions = (int64_t)json_array_size(positions);
    if (plan->n_positions == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "positions is empty, at least one was expected");
    if (native_check_elements(request, "positions", plan->n_positions) != 0)
        return -1;
    if (request_charge(request, plan->n_positions * (int64_t)sizeof(int32_t)) != 0)
        return -1;
    int32_t *rows = request_memory(request, plan->n_positions, sizeof *rows);
    plan->positions = rows;
    if (!rows)
        return -1;
    for (int64_t i = 0; i < plan->n_positions; i++) {
        const json_t *number = json_array_get(positions, (size_t)i);
        json_int_t position = json_integer_value(number);
        if (!json_is_integer(number))
            return failure_set(&request->failure, FAILURE_INVALID,
                               "positions[%" PRId64 "] is %s, an integer was expected", i, json_kind(number));
        if (position < 0 || position > INT32_MAX)
            return failure_set(&request->failure, FAILURE_INVALID,
                               "positions[%" PRId64 "] is %lld; expected a position from 0 to that of the last token",
                               i, (long long)position);
        rows[i] = (int32_t)position;
    }
    return 0;
}

/* Fails if a position is not below the length of each item. */
static int check_positions(struct request *request, const struct logits_body *body, const struct logits_plan *plan)
{
    int64_t furthest = 0;
    for (int64_t i = 1; i < plan->n_positions; i++)
        furthest = plan->positions[i] > plan->positions[furthest] ? i : furthest;
    char path[NATIVE_PATH];
    for (int64_t i = 0; plan->positions && i < request->job.n_items; i++) {
        int64_t length = model_hidden_rows(plan->model, &request->job.items[i]);
        if (plan->positions[furthest] >= length)
            return failure_set(&request->failure, FAILURE_INVALID,
                               "positions[%" PRId64 "] is %d, but %s has %" PRId64 " tokens", furthest,
                               (int)plan->positions[furthest], native_item_path(&body->inputs, i, path), length);
    }
    return 0;
}

/* Sets plan->rows to the positions in the order in which they first appear. Also sets plan->places. The positions must
 * have passed check_positions. */
static int find_rows(struct request *request, struct logits_plan *plan)
{
    int64_t length = model_hidden_rows(plan->model, &request->job.items[0]), n_rows = 0;
    if (!plan->positions)
        return 0;
    if (request_charge(request, (2 * plan->n_positions + length) * (int64_t)sizeof(int32_t)) != 0)
        return -1;
    int32_t *rows = request_memory(request, plan->n_positions, sizeof *rows);
    int32_t *places = request_memory(request, plan->n_positions, sizeof *places);
    int32_t *found = request_memory(request, length, sizeof *found); /* 1 + index in `rows`, or 0, of each position */
    if (!rows || !places || !found)
        return -1;
    for (int64_t i = 0; i < plan->n_positions; i++) {
        int32_t position = plan->positions[i];
        if (!found[position]) {
            rows[n_rows++] = position;
            found[position] = (int32_t)n_rows;
        }
        places[i] = found[position] - 1;
    }
    plan->rows = rows;
    plan->n_rows = n_rows;
    plan->places = n_rows < plan->n_positions ? places : NULL;
    return 0;
}

static int64_t item_rows(const struct engine_item *item, const struct logits_plan *plan)
{
    return plan->rows ? plan->n_rows : plan->last ? 1 : model_hidden_rows(plan->model, item);
}

/* The number of rows of an item in the answer. The answer repeats positions that the request repeats. */
static int64_t answer_rows(const struct engine_item *item, const struct logits_plan *plan)
{
    return plan->positions ? plan->n_positions : item_rows(item, plan);
}

/* Maximum numbers of bytes of text. ID_TEXT: an id with its comma. ESCAPE_TEXT: one byte of a token's text as an
 * escape. QUOTES_TEXT: the quotes and the comma around a token's text. POSITION_TEXT: a position. ITEM_TEXT: the
 * characters around an item's lists. */
enum { ID_TEXT = 11, ESCAPE_TEXT = 6, QUOTES_TEXT = 3, POSITION_TEXT = 12, ITEM_TEXT = 64 };

/* The maximum number of bytes for the text of a token in the answer. 0 without a tokenizer. */
static int64_t most_token_text(const struct request *request)
{
    const struct text_codec *codec = text_inputs_codec(request);
    return codec ? (int64_t)text_codec_longest_token(codec) * ESCAPE_TEXT + QUOTES_TEXT : 0;
}

/* Counts the floats of all items, and charges the results and their text to the request's memory. `best` says whether
 * each float needs a column, too. On failure sets request->failure and returns -1. */
static int charge_output(struct request *request, const struct logits_plan *plan, int64_t columns, bool best,
                         int64_t *floats)
{
    struct job *job = &request->job;
    int64_t written = 0, rows = 0;
    *floats = 0;
    for (int64_t i = 0; i < job->n_items; i++) {
        if (results_count(request, item_rows(&job->items[i], plan), columns, floats) != 0 ||
            results_count(request, answer_rows(&job->items[i], plan), columns, &written) != 0)
            return -1;
        rows += answer_rows(&job->items[i], plan);
    }
    request->answer_bytes =
        results_text_bytes(written, rows, plan->base64) + rows * POSITION_TEXT + job->n_items * ITEM_TEXT;
    if (best && results_add(request, &request->answer_bytes, written, ID_TEXT + most_token_text(request)) != 0)
        return -1;
    return request_charge(request,
                          request->answer_bytes + *floats * (int64_t)(sizeof(float) + (best ? sizeof(int32_t) : 0)));
}

/* Allocates memory for the whole rows of all items, or for the top_k largest values of each row and their columns. */
static int want_output(struct request *request, const struct logits_body *body, const struct logits_plan *plan)
{
    struct job *job = &request->job;
    int64_t columns = body->top_k ? body->top_k : request->info->output_columns, floats;
    if (charge_output(request, plan, columns, body->top_k > 0, &floats) != 0)
        return -1;
    float *values = request_memory(request, floats, sizeof *values);
    int32_t *best = body->top_k > 0 ? request_memory(request, floats, sizeof *best) : NULL;
    if (!values || (body->top_k > 0 && !best))
        return -1;
    for (int64_t i = 0; i < job->n_items; i++) {
        struct engine_item *item = &job->items[i];
        item->softmax = body->softmax;
        item->top_k = body->top_k;
        item->n_rows = item_rows(item, plan);
        item->rows = plan->rows;
        if (body->top_k > 0) {
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

/* Makes each item request the output of its last row. */
static int want_last(struct request *request)
{
    int32_t *rows = request_memory(request, request->job.n_items, sizeof *rows);
    if (!rows)
        return -1;
    for (int64_t i = 0; i < request->job.n_items; i++) {
        rows[i] = (int32_t)(model_hidden_rows(request_engine_model(request), &request->job.items[i]) - 1);
        request->job.items[i].rows = &rows[i];
    }
    return 0;
}

/* Fails if `targets` is given together with a key that only concerns logits. */
static int check_form(struct request *request, const struct logits_body *body)
{
    const char *key = body->positions ? "positions" : body->top_k > 0 ? "top_k" : body->softmax ? "softmax" : NULL;
    if (!body->targets || !key)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "both targets and %s are given, one was expected", key);
}

/* Makes each item request whole rows of the output, or the top_k largest columns of each row. */
static int want_rows(struct request *request, struct logits_body *body, struct logits_plan *plan)
{
    int64_t columns = request->info->output_columns;
    if (check_positions(request, body, plan) != 0)
        return -1;
    if (body->top_k > columns)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "top_k is %" PRId64 ", but model \"%s\" has only %" PRId64 " logits for a token",
                           body->top_k, request_model_name(request), columns);
    if (find_rows(request, plan) != 0 || want_output(request, body, plan) != 0)
        return -1;
    return plan->last ? want_last(request) : 0;
}

static int read_body(struct request *request, const json_t *json, struct logits_body *body, struct logits_plan *plan)
{
    plan->model = request_engine_model(request);
    if (native_serves(request, NATIVE_LOGITS) != 0)
        return -1;
    if (native_options(request, json, options, OPTION_COUNT(options), body) != 0 || check_form(request, body) != 0 ||
        read_positions(request, body->positions, plan) != 0 || native_items(request, &body->inputs) != 0 ||
        native_encoding(request, &body->inputs, &plan->base64) != 0)
        return -1;
    plan->targets = body->targets;
    int status = plan->targets ? native_targets_want(request, &body->inputs, body->targets, plan->base64)
                               : want_rows(request, body, plan);
    return status == 0 ? native_check(request, &body->inputs) : -1;
}

enum outcome native_logits_read(struct request *request)
{
    struct logits_body body = {.inputs.named = true, .inputs.other_list = "positions", .inputs.number_list = "targets"};
    json_t *json = native_body(request, &body.inputs);
    enum outcome outcome = OUTCOME_FAILED;
    if (!json)
        return OUTCOME_FAILED;
    struct logits_plan *plan = request->options = request_memory(request, 1, sizeof *plan);
    if (plan && read_body(request, json, &body, plan) == 0)
        outcome = OUTCOME_RUN;
    json_decref(json);
    return outcome;
}

/* The index of the computed row that the answer contains as row number `row`. */
static int64_t place_of(const struct logits_plan *plan, int64_t row)
{
    return plan->places ? plan->places[row] : row;
}

static void write_positions(struct writer *writer, const struct logits_plan *plan, const struct engine_item *item)
{
    writer_text(writer, "\"positions\":[");
    for (int64_t row = 0; row < answer_rows(item, plan); row++) {
        if (row > 0)
            writer_text(writer, ",");
        writer_integer(writer, item->rows ? item->rows[place_of(plan, row)] : row);
    }
    writer_text(writer, "]");
}

/* Writes the ids of the top_k largest columns of each row. If `codec` is not NULL, writes their texts instead. */
static void write_best(struct writer *writer, const struct logits_plan *plan, const struct engine_item *item,
                       const struct text_codec *codec)
{
    for (int64_t row = 0; row < answer_rows(item, plan); row++) {
        const int32_t *ids = item->top_columns + place_of(plan, row) * item->top_k;
        for (int64_t i = 0; i < item->top_k; i++) {
            writer_text(writer, i > 0 ? "," : row > 0 ? "],[" : "[");
            if (!codec) {
                writer_integer(writer, ids[i]);
                continue;
            }
            size_t length;
            const char *text = text_codec_token(codec, ids[i], &length);
            writer_string(writer, text, length);
        }
    }
    writer_text(writer, "]");
}

static void write_values(struct writer *writer, const struct logits_plan *plan, const struct engine_item *item,
                         const float *values, int64_t columns)
{
    writer_text(writer, ",\"logits\":[");
    for (int64_t row = 0; row < answer_rows(item, plan); row++) {
        const float *first = values + place_of(plan, row) * columns;
        if (row > 0)
            writer_text(writer, ",");
        if (plan->base64)
            writer_base64(writer, first, columns);
        else
            writer_floats(writer, first, columns);
    }
    writer_text(writer, "]");
}

int native_logits_answer(struct request *request)
{
    const struct logits_plan *plan = request->options;
    struct writer *writer = &request->answer;
    if (plan->targets) {
        native_targets_write(request, plan->base64);
        return 0;
    }
    writer_reserve(writer, (size_t)request->answer_bytes);
    writer_text(writer, "[");
    for (int64_t i = 0; i < request->job.n_items; i++) {
        const struct engine_item *item = &request->job.items[i];
        writer_text(writer, i > 0 ? ",{" : "{");
        write_positions(writer, plan, item);
        if (item->top_k) {
            writer_text(writer, ",\"tokens\":[");
            write_best(writer, plan, item, NULL);
            if (text_inputs_codec(request)) {
                writer_text(writer, "],\"text\":[");
                write_best(writer, plan, item, text_inputs_codec(request));
            }
            writer_text(writer, "]");
            write_values(writer, plan, item, item->top_values, item->top_k);
        } else {
            write_values(writer, plan, item, item->output, request->info->output_columns);
        }
        writer_text(writer, "}");
    }
    writer_text(writer, "]");
    return 0;
}
