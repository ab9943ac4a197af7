/* predict: /predict returns the score of each class, with the largest score first. /classify returns the same scores in
 * the format of Infinity, another inference server. POST / does the same as /generate for a request to generate text
 * (generate.h). Otherwise it does the same as /predict for a model with `labels`, and as /embed for other models.
 *
 * Two kinds of clients use /predict. Clients of text-embeddings-inference put options beside `inputs`. Hugging Face's
 * InferenceClient puts options into `parameters`, and expects one list for each text, even for a single text. */
#include "server/dialects/classes.h"
#include "server/dialects/native/body.h"
#include "server/dialects/native/embed.h"
#include "server/dialects/native/generate.h"
#include "server/dialects/native/inputs.h"
#include "server/dialects/native/model.h"
#include "server/dialects/native/named.h"
#include "server/dialects/native/routes.h"
#include "server/dialects/native/served.h"
#include "server/dialects/results.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

enum score_function { SCORE_SOFTMAX, SCORE_SIGMOID, SCORE_NONE, SCORE_COUNT };

/* Index: enum score_function. The values of the key function_to_apply. */
static const char *const function_names[] = {"softmax", "sigmoid", "none"};
_Static_assert(sizeof function_names / sizeof *function_names == SCORE_COUNT, "a name for each function");

struct predict_body {
    struct native_inputs inputs; /* must be the first member for NATIVE_SEQUENCE_OPTIONS */
    bool raw_scores;
    int64_t top_k;
    json_t *parameters;
};

static const struct option options[] = {
    NATIVE_SEQUENCE_OPTIONS,
    {"raw_scores", OPTION_BOOL, offsetof(struct predict_body, raw_scores)},
    {"top_k", OPTION_INTEGER, offsetof(struct predict_body, top_k)},
    {"parameters", OPTION_OBJECT, offsetof(struct predict_body, parameters)},
};

/* The keys of /classify. */
static const struct option classify_options[] = {
    {"input", OPTION_JSON, offsetof(struct native_inputs, inputs)},
    NATIVE_TEXT_OPTIONS,
    {"raw_scores", OPTION_BOOL, offsetof(struct predict_body, raw_scores)},
};

/* The values of the keys of `parameters`. */
struct predict_parameters {
    const char *function_to_apply;
    int64_t top_k;
};

static const struct option parameter_options[] = {
    {"function_to_apply", OPTION_STRING, offsetof(struct predict_parameters, function_to_apply)},
    {"top_k", OPTION_INTEGER, offsetof(struct predict_parameters, top_k)},
};

/* What the answer needs after the JSON is freed. */
struct predict_plan {
    enum score_function function;
    int64_t top_k;              /* number of classes of each item that the answer contains */
    bool nested;                /* the answer is a list that contains a list for each item */
    struct class_score *sorted; /* (classes): memory for the classes of one item */
};

static int read_function(struct request *request, const struct predict_body *body, const char *name,
                         enum score_function *function)
{
    *function = body->raw_scores ? SCORE_NONE : request->info->output_columns == 1 ? SCORE_SIGMOID : SCORE_SOFTMAX;
    if (!name)
        return 0;
    for (int i = 0; i < SCORE_COUNT; i++) {
        if (strcmp(name, function_names[i]) != 0)
            continue;
        if (body->raw_scores && i != SCORE_NONE)
            return failure_set(&request->failure, FAILURE_INVALID,
                               "raw_scores is true, and function_to_apply is \"%s\": one of them was expected", name);
        *function = (enum score_function)i;
        return 0;
    }
    return failure_set(&request->failure, FAILURE_INVALID,
                       "function_to_apply is \"%.100s\", one of softmax, sigmoid, none was expected", name);
}

/* Sets *top_k to the number of classes of each item in the answer. `asked` is the top_k of `parameters`. It may exceed
 * the number of classes, as Hugging Face's pipelines allow. */
static int read_top_k(struct request *request, const struct predict_body *body, int64_t asked, int64_t *top_k)
{
    int64_t classes = request->info->output_columns;
    *top_k = asked > 0 && asked < classes ? asked : classes;
    if (body->top_k == 0)
        return 0;
    if (asked > 0 && asked != body->top_k)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "top_k is %" PRId64 ", but parameters.top_k is %" PRId64 ": one of them was expected",
                           body->top_k, asked);
    if (body->top_k > classes)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "top_k is %" PRId64 ", but model \"%s\" has only %" PRId64 " classes", body->top_k,
                           request_model_name(request), classes);
    *top_k = body->top_k;
    return 0;
}

/* Whether the answer is a list of lists, one for each input. This is true in three cases:
 * - The request has several inputs.
 * - The input is a batch of one, such as `[["a text"]]` or `[[1, 2]]`.
 * - The body has `parameters`, and the model accepts no pictures.
 *
 * `["a text"]` is a single input and no batch, as in text-embeddings-inference. */
static bool is_nested(const struct request *request, const struct predict_body *body)
{
    bool one_text = request->job.n_items == 1 && json_is_string(json_array_get(body->inputs.inputs, 0));
    bool pipeline = body->parameters && !native_takes_pictures(request);
    return pipeline || (body->inputs.many && !one_text);
}

/* ---- Memory ---- */

/* Maximum numbers of bytes of text. PREDICTION_TEXT: {"score":,"label":} with a comma and a float. NUMBER_TEXT: LABEL_
 * and a number. ESCAPE_TEXT: one byte of a label as an escape. LIST_TEXT: the brackets of an item's list.
 * ENVELOPE_TEXT: the rest of an answer of /classify. */
enum { PREDICTION_TEXT = 48, NUMBER_TEXT = 32, ESCAPE_TEXT = 6, LIST_TEXT = 8, ENVELOPE_TEXT = 512 };

static int64_t most_label_text(const struct request *request)
{
    return native_model(request)->labels ? classes_label_bytes(request) * ESCAPE_TEXT + 2 : NUMBER_TEXT;
}

/* Allocates memory for the logits of all items, and for sorting the classes of one item. */
static int want_output(struct request *request, struct predict_plan *plan)
{
    struct job *job = &request->job;
    int64_t classes = request->info->output_columns, floats = 0, text = 0;
    if (results_add(request, &floats, job->n_items, classes) != 0 ||
        results_add(request, &text, plan->top_k, most_label_text(request) + PREDICTION_TEXT) != 0 ||
        results_add(request, &request->answer_bytes, job->n_items, text + LIST_TEXT) != 0)
        return -1;
    plan->sorted = request_take(request, classes, sizeof *plan->sorted);
    float *results = plan->sorted ? request_take(request, floats, sizeof *results) : NULL;
    if (!results || request_charge(request, request->answer_bytes) != 0)
        return -1;
    for (int64_t i = 0; i < job->n_items; i++) {
        job->items[i].output = results + i * classes;
        job->items[i].n_rows = 1;
    }
    return 0;
}

/* ---- The request ---- */

/* Reads the options and inputs of `body` and `parameters`, and fills *plan. */
static int plan_answer(struct request *request, struct predict_body *body, const struct predict_parameters *parameters,
                       struct predict_plan *plan)
{
    if (read_function(request, body, parameters->function_to_apply, &plan->function) != 0 ||
        read_top_k(request, body, parameters->top_k, &plan->top_k) != 0 || native_items(request, &body->inputs) != 0 ||
        want_output(request, plan) != 0)
        return -1;
    plan->nested = is_nested(request, body);
    return native_check(request, &body->inputs);
}

static int read_body(struct request *request, const json_t *json, struct predict_body *body, struct predict_plan *plan)
{
    struct predict_parameters parameters = {0};
    body->inputs.texts_in_lists = true;
    if (native_serves(request, NATIVE_CLASSES) != 0 ||
        native_options(request, json, options, OPTION_COUNT(options), body) != 0 ||
        (body->parameters && request_options(request, body->parameters, parameter_options,
                                             OPTION_COUNT(parameter_options), &parameters) != 0))
        return -1;
    return plan_answer(request, body, &parameters, plan);
}

static enum outcome read_json(struct request *request, const json_t *json, const struct native_inputs *inputs)
{
    struct predict_body body = {.inputs = *inputs};
    struct predict_plan *plan = request->options = request_memory(request, 1, sizeof *plan);
    return plan && read_body(request, json, &body, plan) == 0 ? OUTCOME_RUN : OUTCOME_FAILED;
}

enum outcome native_predict_read(struct request *request)
{
    struct native_inputs inputs = {.takes_files = true, .named = true};
    json_t *json = native_body(request, &inputs);
    if (!json)
        return OUTCOME_FAILED;
    enum outcome outcome = read_json(request, json, &inputs);
    json_decref(json);
    return outcome;
}

static int read_classify(struct request *request, const json_t *json, struct predict_body *body,
                         struct predict_plan *plan)
{
    static const struct predict_parameters none = {0};
    request->answer_bytes = ENVELOPE_TEXT;
    if (native_serves(request, NATIVE_CLASSES) != 0 ||
        request_options(request, json, classify_options, OPTION_COUNT(classify_options), body) != 0)
        return -1;
    return plan_answer(request, body, &none, plan);
}

enum outcome native_classify_read(struct request *request)
{
    struct predict_body body = {.inputs.key = "input"};
    json_t *json = native_body(request, &body.inputs);
    if (!json)
        return OUTCOME_FAILED;
    struct predict_plan *plan = request->options = request_memory(request, 1, sizeof *plan);
    bool read = plan && read_classify(request, json, &body, plan) == 0;
    json_decref(json);
    return read ? OUTCOME_RUN : OUTCOME_FAILED;
}

/* ---- The answer ---- */

/* The divisor of the softmax, if the largest logit is subtracted from each logit. */
static double softmax_sum(const struct class_score *sorted, int64_t classes)
{
    double sum = 0;
    for (int64_t i = 0; i < classes; i++)
        sum += exp((double)sorted[i].score - sorted[0].score);
    return sum;
}

static float score_of(enum score_function function, float logit, float largest, double sum)
{
    switch (function) {
    case SCORE_SOFTMAX:
        return (float)(exp((double)logit - largest) / sum);
    case SCORE_SIGMOID:
        return (float)(1 / (1 + exp(-(double)logit)));
    case SCORE_NONE:
    case SCORE_COUNT:
        break;
    }
    return logit;
}

static void write_predictions(struct request *request, const struct predict_plan *plan, const float *logits)
{
    struct writer *writer = &request->answer;
    const struct served_label *labels = native_model(request)->labels;
    int64_t classes = request->info->output_columns;
    /* Each score function increases with the logit, so the classes are sorted by their logits. Classes with different
     * logits keep this order even if their scores are equal as floats. */
    classes_sort(logits, classes, plan->sorted);
    double sum = softmax_sum(plan->sorted, classes);
    writer_text(writer, "[");
    for (int64_t i = 0; i < plan->top_k; i++) {
        const struct class_score *prediction = &plan->sorted[i];
        writer_text(writer, i > 0 ? ",{\"score\":" : "{\"score\":");
        writer_float(writer, score_of(plan->function, prediction->score, plan->sorted[0].score, sum));
        writer_text(writer, ",\"label\":");
        if (labels)
            writer_string0(writer, labels[prediction->class].text);
        else
            writer_format(writer, "\"LABEL_%" PRId64 "\"", prediction->class);
        writer_text(writer, "}");
    }
    writer_text(writer, "]");
}

static void write_items(struct request *request, const struct predict_plan *plan)
{
    for (int64_t i = 0; i < request->job.n_items; i++) {
        if (i > 0)
            writer_text(&request->answer, ",");
        write_predictions(request, plan, request->job.items[i].output);
    }
}

int native_predict_answer(struct request *request)
{
    const struct predict_plan *plan = request->options;
    struct writer *writer = &request->answer;
    writer_reserve(writer, (size_t)request->answer_bytes);
    if (plan->nested)
        writer_text(writer, "[");
    write_items(request, plan);
    if (plan->nested)
        writer_text(writer, "]");
    return 0;
}

int native_classify_answer(struct request *request)
{
    struct writer *writer = &request->answer;
    int64_t tokens = 0;
    for (int64_t i = 0; i < request->job.n_items; i++)
        tokens += request->job.items[i].inputs[0].length;
    writer_reserve(writer, (size_t)request->answer_bytes);
    writer_text(writer, "{\"object\":\"classify\",\"data\":[");
    write_items(request, request->options);
    writer_text(writer, "],\"model\":");
    writer_string0(writer, request_model_name(request));
    writer_format(writer, ",\"usage\":{\"prompt_tokens\":%" PRId64 ",\"total_tokens\":%" PRId64 "},\"id\":", tokens,
                  tokens);
    writer_string0(writer, request->id.text);
    writer_format(writer, ",\"created\":%" PRId64 "}", (int64_t)time(NULL));
    return 0;
}

/* ---- POST / ---- */

static enum outcome read_root(struct request *request, const json_t *json, const struct native_inputs *inputs)
{
    if (native_is_classifier(native_model(request)))
        return read_json(request, json, inputs);
    return native_embed_json(request, json, inputs);
}

enum outcome native_root_read(struct request *request)
{
    struct native_inputs inputs = {.takes_files = true, .named = true};
    json_t *json = native_body(request, &inputs);
    if (!json)
        return OUTCOME_FAILED;
    bool streamed = json_is_true(json_object_get(json, "stream"));
    bool generates = !inputs.is_file && native_wants_generation(request, json);
    enum outcome outcome = generates ? OUTCOME_FAILED : read_root(request, json, &inputs);
    json_decref(json);
    return generates ? native_generate_root(request, streamed) : outcome;
}

int native_root_answer(struct request *request)
{
    if (request->next)
        return native_generate_answer(request);
    return native_is_classifier(native_model(request)) ? native_predict_answer(request) : native_embed_answer(request);
}
