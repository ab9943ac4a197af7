/* fill_mask: /fill-mask returns the most probable tokens for each mask token of a text, like the pipeline fill-mask of
 * Hugging Face. Its options may be keys of the body or of the object `parameters`. Keys of `parameters` have
 * priority. */
#include "server/dialects/native/body.h"
#include "server/dialects/native/inputs.h"
#include "server/dialects/native/routes.h"
#include "server/dialects/native/served.h"
#include "server/dialects/results.h"
#include "server/dialects/text_inputs.h"

#include <inttypes.h>
#include <stdlib.h>

#define DEFAULT_TOP_K 5

struct fill_body {
    struct native_inputs inputs; /* must be the first member for NATIVE_TEXT_OPTIONS */
    json_t *parameters, *targets;
    int64_t top_k;
};

static const struct option options[] = {
    {"inputs", OPTION_JSON, offsetof(struct fill_body, inputs.inputs)},
    {"parameters", OPTION_OBJECT, offsetof(struct fill_body, parameters)},
    {"top_k", OPTION_INTEGER, offsetof(struct fill_body, top_k)},
    {"targets", OPTION_JSON, offsetof(struct fill_body, targets)},
    NATIVE_TEXT_OPTIONS,
    {"options", OPTION_IGNORED, 0},
};

static const struct option parameter_options[] = {
    {"top_k", OPTION_INTEGER, offsetof(struct fill_body, top_k)},
    {"targets", OPTION_JSON, offsetof(struct fill_body, targets)},
    NATIVE_ENCODING_OPTIONS,
};

/* A token that may replace a mask. */
struct filling {
    int32_t id;
    float score; /* its probability at the place of the mask, among all tokens */
};

/* What the answer needs after the JSON is freed. */
struct fill_plan {
    int32_t mask, pad; /* ids of the mask token and of the pad token. `pad` is -1 if there is no pad token */
    int64_t top_k;
    int32_t *targets; /* (n_targets): ids of the key `targets`, sorted and without repetition. NULL means all ids */
    int64_t n_targets;
    struct filling *sorted; /* (n_targets): memory for the targets of one mask */
    int32_t *sequence;      /* (length of the longest item): memory for the ids of one sequence */
    bool several;           /* the request contains several inputs */
};

/* ---- The tokens that are tried ---- */

/* Sets *id to the token of the vocabulary with this text. If there is no such token, encodes the text, and sets *id to
 * its first token. */
static int find_target(struct text_inputs *texts, const json_t *target, const char *path, int32_t *id)
{
    if (!json_is_string(target))
        return failure_set(&texts->request->failure, FAILURE_INVALID, "%s is %s, a string was expected", path,
                           json_kind(target));
    const char *text = json_string_value(target);
    size_t length = json_string_length(target);
    *id = text_codec_id(text_inputs_codec(texts->request), text, length);
    if (*id >= 0)
        return 0;
    if (text_inputs_encode(texts, path, text, length) != 0)
        return -1;
    text_encoding_ids(&texts->encoding, id);
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    int32_t first = *(const int32_t *)a, second = *(const int32_t *)b;
    return (first > second) - (first < second);
}

static void drop_repeated(struct fill_plan *plan)
{
    int64_t kept = 0;
    qsort(plan->targets, (size_t)plan->n_targets, sizeof *plan->targets, compare_ids);
    for (int64_t i = 0; i < plan->n_targets; i++)
        if (i == 0 || plan->targets[i] != plan->targets[i - 1])
            plan->targets[kept++] = plan->targets[i];
    plan->n_targets = kept;
}

/* Reads `targets`, which is a text or a list of texts. The model's prompt is not put before them. */
static int read_targets(struct request *request, const json_t *targets, struct fill_plan *plan)
{
    static const struct items_limit one = {.tokens = 1, .own = true};
    bool many = json_is_array(targets);
    plan->n_targets = many ? (int64_t)json_array_size(targets) : 1;
    if (plan->n_targets == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "targets is empty, at least one was expected");
    if (native_check_elements(request, "targets", plan->n_targets) != 0)
        return -1;
    plan->targets = request_take(request, plan->n_targets, sizeof *plan->targets);
    plan->sorted = plan->targets ? request_take(request, plan->n_targets, sizeof *plan->sorted) : NULL;
    if (!plan->sorted)
        return -1;
    struct text_inputs texts = {.request = request, .options.truncate = true, .limit = &one};
    char path[NATIVE_PATH] = "targets";
    int status = 0;
    for (int64_t i = 0; status == 0 && i < plan->n_targets; i++) {
        if (many)
            snprintf(path, sizeof path, "targets[%" PRId64 "]", i);
        status = find_target(&texts, many ? json_array_get(targets, (size_t)i) : targets, path, &plan->targets[i]);
    }
    text_inputs_end(&texts);
    if (status == 0)
        drop_repeated(plan);
    return status;
}

static int read_top_k(struct request *request, int64_t asked, struct fill_plan *plan)
{
    int64_t columns = request->info->output_columns, most = plan->targets ? plan->n_targets : columns;
    if (asked > columns)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "top_k is %" PRId64 ", but model \"%s\" has only %" PRId64 " tokens", asked,
                           request_model_name(request), columns);
    plan->top_k = asked == 0 ? DEFAULT_TOP_K : asked;
    plan->top_k = plan->top_k < most ? plan->top_k : most;
    return 0;
}

/* ---- The masks ---- */

static int find_mask_token(struct request *request, struct fill_plan *plan)
{
    const struct text_codec *codec = text_inputs_codec(request);
    if (!codec)
        return failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" has no tokenizer, so it has no mask token",
                           request_model_name(request));
    plan->mask = text_codec_role_id(codec, TOKENIZER_MASK);
    plan->pad = text_codec_role_id(codec, TOKENIZER_PAD);
    if (plan->mask >= 0)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "the tokenizer of model \"%s\" has no mask token",
                       request_model_name(request));
}

static int refuse_without_mask(struct request *request, const struct native_inputs *inputs, int64_t item,
                               const struct fill_plan *plan)
{
    size_t length;
    const char *mask = text_codec_token(text_inputs_codec(request), plan->mask, &length);
    bool cut = inputs->truncate && request->job.items[item].inputs[0].length == items_limit(request->info, 0).tokens;
    char path[NATIVE_PATH];
    return failure_set(&request->failure, FAILURE_INVALID, "%s does not contain the mask token (%.*s)%s",
                       native_item_path(inputs, item, path), (int)(length < 64 ? length : 64), mask,
                       cut ? " in the part that truncate keeps" : "");
}

/* Makes the item request the rows of the output at its masks. Adds the number of tokens of all its filled sequences to
 * *tokens. */
static int want_masks(struct request *request, const struct native_inputs *inputs, int64_t index,
                      const struct fill_plan *plan, int64_t *tokens)
{
    struct engine_item *item = &request->job.items[index];
    const int32_t *ids = item->inputs[0].data;
    int64_t length = item->inputs[0].length, rows = model_hidden_rows(request_engine_model(request), item), count = 0;
    char path[NATIVE_PATH];
    if (rows != length)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "model \"%s\" outputs %" PRId64 " rows for the %" PRId64
                           " tokens of %s, one row for each token was expected",
                           request_model_name(request), rows, length, native_item_path(inputs, index, path));
    for (int64_t i = 0; i < length; i++)
        count += ids[i] == plan->mask;
    if (count == 0)
        return refuse_without_mask(request, inputs, index, plan);
    int32_t *masks = request_take(request, count, sizeof *masks);
    if (!masks)
        return -1;
    item->rows = masks;
    item->n_rows = count;
    item->softmax = true;
    for (int64_t i = 0; i < length; i++)
        if (ids[i] == plan->mask)
            *masks++ = (int32_t)i;
    int64_t fillings;
    if (__builtin_mul_overflow(count, plan->top_k, &fillings))
        fillings = INT64_MAX;
    return results_add(request, tokens, fillings, length);
}

/* Maximum number of tokens of all filled sequences in an answer. Each filling repeats the whole text of its item.
 * Without this limit, writing an answer could take many seconds. */
#define MAX_TOKENS (INT64_C(1) << 24)

static int check_tokens(struct request *request, int64_t tokens)
{
    if (tokens <= MAX_TOKENS)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "the sequences of the answer have %" PRId64 " tokens, this route returns at most %" PRId64
                       ": lower top_k, or send fewer masks at once",
                       tokens, MAX_TOKENS);
}

/* Allocates memory for the probabilities of each mask. With targets, these are the probabilities of all tokens,
 * otherwise only those of the top_k most probable tokens. */
static int want_output(struct request *request, const struct fill_plan *plan)
{
    struct job *job = &request->job;
    int64_t columns = plan->targets ? request->info->output_columns : plan->top_k, floats = 0;
    for (int64_t i = 0; i < job->n_items; i++)
        if (results_count(request, job->items[i].n_rows, columns, &floats) != 0)
            return -1;
    float *values = request_take(request, floats, sizeof *values);
    int32_t *ids = values && !plan->targets ? request_take(request, floats, sizeof *ids) : NULL;
    if (!values || (!plan->targets && !ids))
        return -1;
    for (int64_t i = 0; i < job->n_items; i++) {
        struct engine_item *item = &job->items[i];
        if (plan->targets) {
            item->output = values;
        } else {
            item->top_k = plan->top_k;
            item->top_values = values;
            item->top_columns = ids;
            ids += item->n_rows * columns;
        }
        values += item->n_rows * columns;
    }
    return 0;
}

/* Numbers of bytes of text. FILLING_TEXT: maximum for a filling without its token and sequence. TOKEN_TEXT: usual
 * number for a token in a sequence. ESCAPE_TEXT: maximum for a byte that is written as an escape. */
enum { FILLING_TEXT = 80, TOKEN_TEXT = 6, ESCAPE_TEXT = 6 };

static int want_items(struct request *request, const struct native_inputs *inputs, struct fill_plan *plan)
{
    int64_t tokens = 0, longest = 0, fillings = 0;
    for (int64_t i = 0; i < request->job.n_items; i++) {
        const struct engine_item *item = &request->job.items[i];
        if (want_masks(request, inputs, i, plan, &tokens) != 0 || check_tokens(request, tokens) != 0)
            return -1;
        fillings += item->n_rows * plan->top_k;
        longest = item->inputs[0].length > longest ? item->inputs[0].length : longest;
    }
    plan->sequence = request_take(request, longest, sizeof *plan->sequence);
    request->answer_bytes = fillings * FILLING_TEXT + tokens * TOKEN_TEXT;
    return plan->sequence ? want_output(request, plan) : -1;
}

/* ---- The request ---- */

static int read_body(struct request *request, const json_t *json, struct fill_body *body, struct fill_plan *plan)
{
    if (native_serves(request, NATIVE_LOGITS) != 0 || find_mask_token(request, plan) != 0 ||
        request_options(request, json, options, OPTION_COUNT(options), body) != 0 ||
        (body->parameters &&
         request_options(request, body->parameters, parameter_options, OPTION_COUNT(parameter_options), body) != 0) ||
        (body->targets && read_targets(request, body->targets, plan) != 0) ||
        read_top_k(request, body->top_k, plan) != 0 || native_items(request, &body->inputs) != 0 ||
        want_items(request, &body->inputs, plan) != 0)
        return -1;
    plan->several = request->job.n_items > 1;
    return native_check(request, &body->inputs);
}

enum outcome native_fill_mask_read(struct request *request)
{
    struct fill_body body = {.inputs.other_list = "targets"};
    json_t *json = native_body(request, &body.inputs);
    if (!json)
        return OUTCOME_FAILED;
    struct fill_plan *plan = request->options = request_memory(request, 1, sizeof *plan);
    int status = plan ? read_body(request, json, &body, plan) : -1;
    json_decref(json);
    return status == 0 ? OUTCOME_RUN : OUTCOME_FAILED;
}

/* ---- The answer ---- */

/* Writes the text with `id` in place of the mask at `position`. If the text has several masks, the other masks and the
 * other special tokens except pad tokens are written, too. If it has a single mask, special tokens are omitted. */
static int write_sequence(struct request *request, const struct fill_plan *plan, const struct engine_item *item,
                          int32_t position, int32_t id)
{
    const struct text_codec *codec = text_inputs_codec(request);
    const int32_t *ids = item->inputs[0].data;
    int64_t count = 0;
    for (int64_t i = 0; i < item->inputs[0].length; i++) {
        int32_t token = i == position ? id : ids[i];
        if (token != plan->pad)
            plan->sequence[count++] = token;
    }
    int64_t memory = text_codec_decode_memory(codec, plan->sequence, count);
    if (request_charge(request, memory) != 0)
        return -1;
    size_t length;
    struct error error;
    char *text = text_codec_decode(codec, plan->sequence, count, item->n_rows == 1, &length, &error);
    int status = text ? request_charge(request, ESCAPE_TEXT * (int64_t)length)
                      : text_inputs_failed(request, "the sequence with a filled mask", &error);
    if (status == 0)
        writer_string(&request->answer, text, length);
    free(text);
    share_give(&request->memory, memory);
    return status;
}

static int write_filling(struct request *request, const struct fill_plan *plan, const struct engine_item *item,
                         int32_t position, struct filling filling)
{
    struct writer *writer = &request->answer;
    size_t length;
    const char *token = text_codec_token(text_inputs_codec(request), filling.id, &length);
    if (request_charge(request, FILLING_TEXT + ESCAPE_TEXT * (int64_t)length) != 0)
        return -1;
    writer_text(writer, "{\"score\":");
    writer_float(writer, filling.score);
    writer_text(writer, ",\"token\":");
    writer_integer(writer, filling.id);
    writer_text(writer, ",\"token_str\":");
    writer_string(writer, token, length);
    writer_text(writer, ",\"sequence\":");
    if (write_sequence(request, plan, item, position, filling.id) != 0)
        return -1;
    writer_text(writer, "}");
    return 0;
}

/* The larger score comes first. Of equal scores, the smaller id comes first. */
static int compare_fillings(const void *a, const void *b)
{
    const struct filling *first = a, *second = b;
    if (first->score != second->score)
        return first->score > second->score ? -1 : 1;
    return (first->id > second->id) - (first->id < second->id);
}

/* Sets plan->sorted to the targets, sorted by their probability at one mask. */
static void sort_targets(const struct fill_plan *plan, const float *probabilities)
{
    for (int64_t i = 0; i < plan->n_targets; i++)
        plan->sorted[i] = (struct filling){plan->targets[i], probabilities[plan->targets[i]]};
    qsort(plan->sorted, (size_t)plan->n_targets, sizeof *plan->sorted, compare_fillings);
}

static int write_mask(struct request *request, const struct fill_plan *plan, const struct engine_item *item,
                      int64_t row)
{
    struct writer *writer = &request->answer;
    if (plan->targets)
        sort_targets(plan, item->output + row * request->info->output_columns);
    writer_text(writer, "[");
    for (int64_t i = 0; i < plan->top_k; i++) {
        int64_t best = row * plan->top_k + i;
        struct filling filling =
            plan->targets ? plan->sorted[i] : (struct filling){item->top_columns[best], item->top_values[best]};
        if (i > 0)
            writer_text(writer, ",");
        if (write_filling(request, plan, item, item->rows[row], filling) != 0)
            return -1;
    }
    writer_text(writer, "]");
    return 0;
}

/* Writes the list of fillings of the item's mask. If the item has several masks, writes a list that contains such a
 * list for each mask. */
static int write_item(struct request *request, const struct fill_plan *plan, const struct engine_item *item)
{
    if (item->n_rows > 1)
        writer_text(&request->answer, "[");
    for (int64_t row = 0; row < item->n_rows; row++) {
        if (row > 0)
            writer_text(&request->answer, ",");
        if (write_mask(request, plan, item, row) != 0)
            return -1;
    }
    if (item->n_rows > 1)
        writer_text(&request->answer, "]");
    return 0;
}

int native_fill_mask_answer(struct request *request)
{
    const struct fill_plan *plan = request->options;
    struct writer *writer = &request->answer;
    if (plan->several)
        writer_text(writer, "[");
    for (int64_t i = 0; i < request->job.n_items; i++) {
        if (i > 0)
            writer_text(writer, ",");
        if (write_item(request, plan, &request->job.items[i]) != 0)
            return -1;
    }
    if (plan->several)
        writer_text(writer, "]");
    return 0;
}
