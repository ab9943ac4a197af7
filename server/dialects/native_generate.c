/* native_generate: /generate and /generate_stream, as text-generation-inference has them
 * (router/src/lib.rs, GenerateParameters). */
#define _GNU_SOURCE /* memmem */
#include "server/dialects/native.h"
#include "server/dialects/text_stream.h"
#include "server/generation/generation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MOST_STOPS 16
#define MOST_STOP_BYTES 1024 /* of one; each new token looks for all of them, while batches wait */
#define MOST_BEST 64
#define MOST_NEW_TOKENS (INT64_C(1) << 20)

/* The keys of a body. */
struct generate_body {
    const char *model;
    json_t *inputs, *parameters;
};

static const struct option options[] = {
    {"inputs", OPTION_JSON, offsetof(struct generate_body, inputs)},
    {"model", OPTION_STRING, offsetof(struct generate_body, model)},
    {"parameters", OPTION_OBJECT, offsetof(struct generate_body, parameters)},
    {"stream", OPTION_IGNORED, 0},
};

/* The keys of `parameters`. A double that is not given is NaN. */
struct generate_parameters {
    int64_t max_new_tokens, top_k, top_n_tokens, truncate;
    double temperature, top_p, min_p, filter_thres, repetition_penalty;
    bool return_full_text, details, top_p_library, add_special_tokens;
    json_t *do_sample, *seed, *stop, *decoder_input;
};

static const struct option parameter_options[] = {
    {"max_new_tokens", OPTION_INTEGER, offsetof(struct generate_parameters, max_new_tokens)},
    {"do_sample", OPTION_JSON, offsetof(struct generate_parameters, do_sample)},
    {"temperature", OPTION_NUMBER, offsetof(struct generate_parameters, temperature)},
    {"top_k", OPTION_INTEGER, offsetof(struct generate_parameters, top_k)},
    {"top_p", OPTION_NUMBER, offsetof(struct generate_parameters, top_p)},
    {"top_p_library", OPTION_BOOL, offsetof(struct generate_parameters, top_p_library)},
    {"filter_thres", OPTION_NUMBER, offsetof(struct generate_parameters, filter_thres)},
    {"min_p", OPTION_NUMBER, offsetof(struct generate_parameters, min_p)},
    {"repetition_penalty", OPTION_NUMBER, offsetof(struct generate_parameters, repetition_penalty)},
    {"seed", OPTION_JSON, offsetof(struct generate_parameters, seed)},
    {"stop", OPTION_JSON, offsetof(struct generate_parameters, stop)},
    {"truncate", OPTION_INTEGER, offsetof(struct generate_parameters, truncate)},
    {"return_full_text", OPTION_BOOL, offsetof(struct generate_parameters, return_full_text)},
    {"details", OPTION_BOOL, offsetof(struct generate_parameters, details)},
    {"top_n_tokens", OPTION_INTEGER, offsetof(struct generate_parameters, top_n_tokens)},
    {"add_special_tokens", OPTION_BOOL, offsetof(struct generate_parameters, add_special_tokens)},
    {"decoder_input", OPTION_JSON, offsetof(struct generate_parameters, decoder_input)},
};

struct stop_text {
    char *text;
    size_t length;
};

/* What is left of the body after `read`. */
struct generate_plan {
    struct generation generation; /* of one sequence */
    struct text_stream stream;
    size_t *text_ends; /* (max_new_tokens): bytes of stream.text after each token */
    struct stop_text stops[MOST_STOPS];
    size_t n_stops;
    bool details, full_text;
    int32_t ends[1];
    char *prompt; /* the text, for return_full_text; NULL: ids were given */
    size_t prompt_length;
};

static void leave(struct request *request)
{
    struct generate_plan *plan = request->options;
    generation_leave(request, &plan->generation);
    text_stream_free(&plan->stream);
}

/* ---- Parameters ---- */

static int refuse_number(struct request *request, const char *name, double value, const char *expected)
{
    return failure_set(&request->failure, FAILURE_INVALID, "parameters.%s is %g, %s was expected", name, value,
                       expected);
}

/* Checks a number unless it is absent, and puts it into *field. */
static int read_number(struct request *request, const char *name, double value, bool valid, const char *expected,
                       double *field)
{
    if (isnan(value))
        return 0;
    if (!valid)
        return refuse_number(request, name, value, expected);
    *field = value;
    return 0;
}

static int read_sampling(struct request *request, const struct generate_parameters *p,
                         struct sampling_options *sampling)
{
    *sampling = sampling_defaults();
    if (read_number(request, "temperature", p->temperature, p->temperature > 0, "a number above 0",
                    &sampling->temperature) != 0 ||
        read_number(request, "top_p", p->top_p, p->top_p > 0 && p->top_p <= 1, "a number above 0, at most 1",
                    &sampling->top_p) != 0 ||
        read_number(request, "min_p", p->min_p, p->min_p >= 0 && p->min_p <= 1, "a number from 0 to 1",
                    &sampling->min_p) != 0 ||
        read_number(request, "filter_thres", p->filter_thres, p->filter_thres >= 0 && p->filter_thres < 1,
                    "a number from 0, below 1", &sampling->filter_thres) != 0 ||
        read_number(request, "repetition_penalty", p->repetition_penalty, p->repetition_penalty > 0, "a number above 0",
                    &sampling->repetition_penalty) != 0)
        return -1;
    sampling->top_k = p->top_k;
    sampling->top_p_library = p->top_p_library && !isnan(p->top_p);
    bool filters = sampling->temperature != 1 || sampling->top_p < 1 || sampling->min_p > 0 ||
                   sampling->filter_thres >= 0 || sampling->top_k > 0;
    if (p->do_sample && !json_is_boolean(p->do_sample))
        return failure_set(&request->failure, FAILURE_INVALID, "parameters.do_sample is %s, true or false was expected",
                           json_kind(p->do_sample));
    sampling->do_sample = p->do_sample ? json_is_true(p->do_sample) : filters;
    return 0;
}

/* A seed that is not given is drawn. */
static int read_seed(struct request *request, const json_t *seed, struct sampling_options *sampling)
{
    if (seed && (!json_is_integer(seed) || json_integer_value(seed) < 0))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "parameters.seed is %s, an integer of at least 0 was expected",
                           json_is_integer(seed) ? "negative" : json_kind(seed));
    if (seed)
        sampling->seed = (uint64_t)json_integer_value(seed);
    else if (getentropy(&sampling->seed, sizeof sampling->seed) != 0)
        sampling->seed = (uint64_t)(uintptr_t)request;
    sampling->seed &= INT64_MAX; /* so that the answer's number can be sent again */
    return 0;
}

static int read_stop(struct request *request, const json_t *text, struct generate_plan *plan)
{
    size_t length = json_string_length(text);
    if (!json_is_string(text) || length == 0)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "parameters.stop: expected texts that are not empty, found %s",
                           json_is_string(text) ? "an empty one" : json_kind(text));
    if (plan->n_stops == MOST_STOPS)
        return failure_set(&request->failure, FAILURE_INVALID, "parameters.stop: expected at most %d texts",
                           MOST_STOPS);
    if (length > MOST_STOP_BYTES)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "parameters.stop: found a text of %zu bytes, expected at most %d", length, MOST_STOP_BYTES);
    char *copy = items_memory(request, (int64_t)length + 1, 1);
    if (!copy)
        return -1;
    memcpy(copy, json_string_value(text), length);
    plan->stops[plan->n_stops++] = (struct stop_text){copy, length};
    return 0;
}

/* A text, or a list of texts. */
static int read_stops(struct request *request, const json_t *stop, struct generate_plan *plan)
{
    size_t i;
    const json_t *text;
    if (!stop)
        return 0;
    if (!plan->stream.codec)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "parameters.stop holds a text, but model \"%s\" has no tokenizer",
                           request_model_name(request));
    if (!json_is_array(stop))
        return read_stop(request, stop, plan);
    json_array_foreach (stop, i, text)
        if (read_stop(request, text, plan) != 0)
            return -1;
    return 0;
}

static int read_limits(struct request *request, const struct generate_parameters *p)
{
    if (p->max_new_tokens > MOST_NEW_TOKENS)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "parameters.max_new_tokens is %" PRId64 ", at most %" PRId64 " was expected",
                           p->max_new_tokens, MOST_NEW_TOKENS);
    if (p->top_n_tokens > MOST_BEST || p->top_n_tokens > request->info->output_columns)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "parameters.top_n_tokens is %" PRId64 ", at most %" PRId64 " was expected", p->top_n_tokens,
                           MOST_BEST < request->info->output_columns ? MOST_BEST : request->info->output_columns);
    return 0;
}

static int read_parameters(struct request *request, const json_t *json, struct generate_parameters *p,
                           struct generate_plan *plan)
{
    *p = (struct generate_parameters){.max_new_tokens = 20,
                                      .temperature = NAN,
                                      .top_p = NAN,
                                      .min_p = NAN,
                                      .filter_thres = NAN,
                                      .repetition_penalty = NAN,
                                      .add_special_tokens = true};
    struct generation *generation = &plan->generation;
    if (json && request_options(request, json, parameter_options, OPTION_COUNT(parameter_options), p) != 0)
        return -1;
    if (read_limits(request, p) != 0 || read_sampling(request, p, &generation->sampling) != 0 ||
        read_seed(request, p->seed, &generation->sampling) != 0 || read_stops(request, p->stop, plan) != 0)
        return -1;
    generation->max_new_tokens = p->max_new_tokens;
    generation->n_best = p->top_n_tokens;
    plan->details = p->details;
    plan->full_text = p->return_full_text;
    return 0;
}

/* ---- The prompt ---- */

/* Ids that a request gives: a text, or a list of ids. */
struct given_ids {
    int32_t *ids; /* (count) */
    int64_t count;
};

static int read_list(struct request *request, const char *name, const json_t *list, int64_t vocabulary,
                     struct given_ids *given)
{
    given->count = (int64_t)json_array_size(list);
    if (given->count == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "%s is empty, at least one token was expected", name);
    if (native_check_elements(request, name, given->count) != 0)
        return -1;
    given->ids = items_memory(request, given->count, sizeof *given->ids);
    for (int64_t i = 0; given->ids && i < given->count; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        json_int_t id = json_integer_value(number);
        if (!json_is_integer(number))
            return failure_set(&request->failure, FAILURE_INVALID, "%s[%" PRId64 "] is %s, an integer id was expected",
                               name, i, json_kind(number));
        if (id < 0 || id >= vocabulary)
            return failure_set(&request->failure, FAILURE_INVALID,
                               "%s[%" PRId64 "] is %" PRId64 "; ids of model \"%s\" are at least 0 and below %" PRId64,
                               name, i, (int64_t)id, request_model_name(request), vocabulary);
        given->ids[i] = (int32_t)id;
    }
    return given->ids ? 0 : -1;
}

static int read_text(struct request *request, const char *name, const json_t *text, bool add_special_tokens,
                     struct given_ids *given)
{
    struct items_limit unlimited = {.tokens = INT64_MAX};
    struct text_inputs texts = {
        .request = request, .options = {.add_special_tokens = add_special_tokens}, .limit = &unlimited};
    int status = text_inputs_encode(&texts, name, json_string_value(text), json_string_length(text));
    if (status == 0) {
        given->count = texts.encoding.count;
        given->ids = items_memory(request, given->count, sizeof *given->ids);
        if (given->ids)
            text_encoding_ids(&texts.encoding, given->ids);
    }
    text_inputs_end(&texts);
    return status == 0 && given->ids ? 0 : -1;
}

static int read_ids(struct request *request, const char *name, const json_t *value, bool add_special_tokens,
                    int64_t vocabulary, struct given_ids *given)
{
    if (json_is_string(value))
        return read_text(request, name, value, add_special_tokens, given);
    if (json_is_array(value))
        return read_list(request, name, value, vocabulary, given);
    return failure_set(&request->failure, FAILURE_INVALID, "%s is %s, a text or a list of ids was expected", name,
                       value ? json_kind(value) : "missing");
}

/* A model with an encoder reads `inputs` there. Its sequence then begins with decoder_input, or with the id that is
 * usual for it. */
static int read_decoder_input(struct request *request, const json_t *value, struct given_ids *given)
{
    const struct served_model *served = native_model(request);
    int64_t vocabulary = request->info->inputs[request->info->sequence_input].vocabulary;
    if (value)
        return read_ids(request, "parameters.decoder_input", value, false, vocabulary, given);
    given->ids = items_memory(request, 1, sizeof *given->ids);
    if (!given->ids)
        return -1;
    given->count = 1;
    given->ids[0] = served->bos_token >= 0 ? served->bos_token : 1;
    return given->ids[0] < vocabulary
               ? 0
               : failure_set(&request->failure, FAILURE_INVALID, "parameters.decoder_input is missing");
}

/* Keeps the text for return_full_text. */
static int keep_prompt(struct request *request, const json_t *inputs, struct generate_plan *plan)
{
    if (!plan->full_text || !json_is_string(inputs))
        return 0;
    plan->prompt_length = json_string_length(inputs);
    plan->prompt = items_memory(request, (int64_t)plan->prompt_length + 1, 1);
    if (!plan->prompt)
        return -1;
    memcpy(plan->prompt, json_string_value(inputs), plan->prompt_length);
    return 0;
}

/* Sets *prompt to what the sequence begins with. */
static int read_prompt(struct request *request, const json_t *inputs, const struct generate_parameters *p,
                       struct generate_plan *plan, struct given_ids *prompt)
{
    const struct model_info *info = request->info;
    struct generation *generation = &plan->generation;
    generation->sequence_input = info->sequence_input;
    if (keep_prompt(request, inputs, plan) != 0 ||
        read_ids(request, "inputs", inputs, p->add_special_tokens, info->vocabulary, prompt) != 0)
        return -1;
    if (p->truncate > 0 && prompt->count > p->truncate) { /* the end is kept, as in text-generation-inference */
        prompt->ids += prompt->count - p->truncate;
        prompt->count = p->truncate;
    }
    if (info->sequence_input == 0)
        return p->decoder_input ? failure_set(&request->failure, FAILURE_INVALID,
                                              "parameters.decoder_input is for models with an encoder")
                                : 0;
    generation->given.inputs[0].data = prompt->ids;
    generation->given.inputs[0].length = prompt->count;
    return read_decoder_input(request, p->decoder_input, prompt);
}

/* ---- Tokens ---- */

/* Whether the text now ends in a stop text, or has one within what the last token added. */
static bool has_stop(const struct generate_plan *plan, size_t before)
{
    const struct writer *text = &plan->stream.text;
    for (size_t i = 0; i < plan->n_stops; i++) {
        size_t length = plan->stops[i].length, first = before > length ? before - length : 0;
        if (memmem(text->data + first, text->length - first, plan->stops[i].text, length))
            return true;
    }
    return false;
}

static bool add_token(struct request *request, struct generation *generation, struct generated *sequence)
{
    struct generate_plan *plan = (struct generate_plan *)generation;
    struct error error;
    size_t before = plan->stream.text.length;
    if (text_stream_add(&plan->stream, sequence->ids, sequence->count, sequence->end != GENERATION_RUNS, &error) != 0 ||
        request_charge(request, (int64_t)(plan->stream.text.length - before)) != 0) {
        if (request->failure.kind == FAILURE_NONE)
            failure_set(&request->failure, FAILURE_BACKEND, "%s", error.message);
        return false;
    }
    plan->text_ends[sequence->count - sequence->n_prompt - 1] = plan->stream.text.length;
    return plan->stream.text.length == before || !has_stop(plan, before) || sequence->end != GENERATION_RUNS;
}

/* ---- The routes ---- */

static int check_generates(struct request *request)
{
    const struct model_info *info = request->info;
    if (info->is_causal && info->inputs[info->sequence_input].kind == INPUT_IDS)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" cannot generate: %s %s",
                       request_model_name(request), info->architecture,
                       !info->has_logits ? "gives no logits" : "is not causal");
}

static int start(struct request *request, const struct generate_body *body)
{
    struct generate_plan *plan = items_memory(request, 1, sizeof *plan);
    struct generate_parameters parameters;
    struct given_ids prompt;
    if (!plan)
        return -1;
    request->options = plan;
    request->leave = leave;
    plan->stream.codec = native_model(request)->codec;
    if (read_parameters(request, body->parameters, &parameters, plan) != 0 ||
        read_prompt(request, body->inputs, &parameters, plan, &prompt) != 0)
        return -1;
    struct generation *generation = &plan->generation;
    plan->text_ends = items_memory(request, generation->max_new_tokens, sizeof *plan->text_ends);
    plan->ends[0] = native_model(request)->eos_token;
    generation->ends = plan->ends;
    generation->n_ends = 1;
    generation->token = add_token;
    if (!plan->text_ends || generation_open(request, generation, &prompt.count, 1) != 0)
        return -1;
    memcpy(generation->sequences[0].ids, prompt.ids, (size_t)prompt.count * sizeof *prompt.ids);
    text_stream_begin(&plan->stream, prompt.count);
    return generation_start(request, generation);
}

enum outcome native_generate_read(struct request *request)
{
    struct generate_body body = {0};
    json_t *json = native_check_list(request, "inputs") == 0 ? native_body(request, NULL) : NULL;
    if (!json)
        return OUTCOME_FAILED;
    bool ready = request_options(request, json, options, OPTION_COUNT(options), &body) == 0 &&
                 check_generates(request) == 0 && start(request, &body) == 0;
    json_decref(json);
    return ready ? OUTCOME_RUN : OUTCOME_FAILED;
}

bool native_generate_next(struct request *request)
{
    struct generate_plan *plan = request->options;
    return generation_next(request, &plan->generation);
}

/* ---- The answer ---- */

/* Index: enum generation_end. */
static const char *const finish_reasons[] = {
    [GENERATION_LENGTH] = "length",
    [GENERATION_ENDED] = "eos_token",
    [GENERATION_STOPPED] = "stop_sequence",
};

static bool is_special(const struct generate_plan *plan, int32_t id)
{
    return plan->stream.codec && text_codec_special(plan->stream.codec, id);
}

/* {"id":5,"text":" the","logprob":-0.5,"special":false} */
static void write_token(struct writer *writer, const struct generate_plan *plan, struct sampled_token token,
                        const char *text, size_t length)
{
    writer_text(writer, "{\"id\":");
    writer_integer(writer, token.id);
    writer_text(writer, ",\"text\":");
    writer_string(writer, text, length);
    writer_text(writer, ",\"logprob\":");
    writer_float(writer, token.logprob);
    writer_text(writer, is_special(plan, token.id) ? ",\"special\":true}" : ",\"special\":false}");
}

/* Token number `index` of the new ones. A special token has its own text, another what it added. */
static void write_new_token(struct writer *writer, const struct generate_plan *plan, int64_t index)
{
    const struct generated *sequence = &plan->generation.sequences[0];
    int32_t id = sequence->ids[sequence->n_prompt + index];
    size_t begin = index > 0 ? plan->text_ends[index - 1] : 0, length = plan->text_ends[index] - begin;
    const char *text = length > 0 ? plan->stream.text.data + begin : "";
    if (is_special(plan, id))
        text = text_codec_token(plan->stream.codec, id, &length);
    write_token(writer, plan, (struct sampled_token){id, sequence->logprobs[index]}, text, length);
}

/* The likeliest tokens where token number `index` was chosen. */
static void write_best(struct writer *writer, const struct generate_plan *plan, int64_t index)
{
    int64_t n_best = plan->generation.n_best;
    writer_text(writer, "[");
    for (int64_t i = 0; i < n_best; i++) {
        struct sampled_token token = plan->generation.sequences[0].best[index * n_best + i];
        size_t length = 0;
        const char *text = plan->stream.codec ? text_codec_token(plan->stream.codec, token.id, &length) : "";
        writer_text(writer, i > 0 ? "," : "");
        write_token(writer, plan, token, text, length);
    }
    writer_text(writer, "]");
}

static void write_details(struct writer *writer, const struct generate_plan *plan)
{
    const struct generated *sequence = &plan->generation.sequences[0];
    int64_t count = sequence->count - sequence->n_prompt;
    writer_format(writer, ",\"details\":{\"finish_reason\":\"%s\",\"generated_tokens\":%" PRId64 ",\"seed\":",
                  finish_reasons[sequence->end], count);
    if (plan->generation.sampling.do_sample)
        writer_integer(writer, (int64_t)plan->generation.sampling.seed);
    else
        writer_text(writer, "null");
    writer_text(writer, ",\"prefill\":[],\"tokens\":[");
    for (int64_t i = 0; i < count; i++) {
        writer_text(writer, i > 0 ? "," : "");
        write_new_token(writer, plan, i);
    }
    writer_text(writer, "]");
    if (plan->generation.n_best > 0) {
        writer_text(writer, ",\"top_tokens\":[");
        for (int64_t i = 0; i < count; i++) {
            writer_text(writer, i > 0 ? "," : "");
            write_best(writer, plan, i);
        }
        writer_text(writer, "]");
    }
    writer_text(writer, "}");
}

/* A JSON string: the prompt, if the request wants it, and the text of the new tokens. */
static int write_generated(struct request *request, const struct generate_plan *plan)
{
    struct writer whole = {0};
    if (plan->prompt)
        writer_bytes(&whole, plan->prompt, plan->prompt_length);
    writer_bytes(&whole, plan->stream.text.data, plan->stream.text.length);
    writer_string(&request->answer, whole.data ? whole.data : "", whole.length);
    bool failed = whole.failed;
    writer_free(&whole);
    return failed ? failure_memory(&request->failure) : 0;
}

/* Ids stand in `details` alone, so a model without a tokenizer always has them. */
int native_generate_answer(struct request *request)
{
    const struct generate_plan *plan = request->options;
    if (request->failure.kind != FAILURE_NONE)
        return -1;
    writer_text(&request->answer, "{\"generated_text\":");
    if (write_generated(request, plan) != 0)
        return -1;
    if (plan->details || !plan->stream.codec)
        write_details(&request->answer, plan);
    writer_text(&request->answer, "}");
    return 0;
}
