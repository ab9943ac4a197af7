/* generate: /generate and /generate_stream, in the format of text-generation-inference (router/src/lib.rs,
 * GenerateParameters and StreamResponse). POST / accepts the same requests. */
#include "server/dialects/native/generate.h"

#include "server/dialects/native/body.h"
#include "server/dialects/native/generate_inputs.h"
#include "server/dialects/native/generate_plan.h"
#include "server/dialects/native/model.h"
#include "server/dialects/native/routes.h"
#include "server/dialects/text_inputs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The values of the keys of a body. */
struct generate_body {
    const char *model, *prompt_name, *input_type;
    json_t *inputs, *parameters;
    struct generate_inputs named;
};

static const struct option options[] = {
    {"inputs", OPTION_JSON, offsetof(struct generate_body, inputs)},
    {"model", OPTION_STRING, offsetof(struct generate_body, model)},
    {"parameters", OPTION_OBJECT, offsetof(struct generate_body, parameters)},
    {"prompt_name", OPTION_STRING, offsetof(struct generate_body, prompt_name)},
    {"input_type", OPTION_STRING, offsetof(struct generate_body, input_type)},
    {"stream", OPTION_IGNORED, 0},
    GENERATE_INPUT_OPTIONS(struct generate_body, named),
};

/* The values of the keys of `parameters`. An absent double is NaN. */
struct generate_parameters {
    int64_t max_new_tokens, top_n_tokens, truncate;
    double temperature, top_p, min_p, filter_thres, repetition_penalty;
    bool return_full_text, details, top_p_library, add_special_tokens;
    json_t *do_sample, *top_k, *seed, *stop, *decoder_input;
};

static const struct option parameter_options[] = {
    {"max_new_tokens", OPTION_INTEGER, offsetof(struct generate_parameters, max_new_tokens)},
    {"do_sample", OPTION_JSON, offsetof(struct generate_parameters, do_sample)},
    {"temperature", OPTION_NUMBER, offsetof(struct generate_parameters, temperature)},
    {"top_k", OPTION_JSON, offsetof(struct generate_parameters, top_k)},
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

/* What the answer needs to know about the request. */
struct generate_route_plan {
    struct generate_plan generate; /* it has a single sequence */
    bool details, full_text;
    bool listed;  /* the answer is a list with one element */
    char *prompt; /* the text of the prompt, for return_full_text. NULL if it is not wanted, or if the prompt is a list
                     of ids */
    size_t prompt_length;
    int64_t n_input;   /* number of ids of `inputs` */
    int64_t n_written; /* number of new tokens whose events have been written */
};

/* ---- Parameters ---- */

static int read_sampling(struct request *request, const struct generate_parameters *p,
                         struct sampling_options *sampling)
{
    *sampling = generate_sampling(request);
    if (generate_number(request, "parameters.temperature", p->temperature, p->temperature > 0, "a number above 0",
                        &sampling->temperature) != 0 ||
        generate_number(request, "parameters.top_p", p->top_p, p->top_p > 0 && p->top_p <= 1,
                        "a number above 0, at most 1", &sampling->top_p) != 0 ||
        generate_number(request, "parameters.min_p", p->min_p, p->min_p >= 0 && p->min_p <= 1, "a number from 0 to 1",
                        &sampling->min_p) != 0 ||
        generate_number(request, "parameters.filter_thres", p->filter_thres,
                        p->filter_thres >= 0 && p->filter_thres < 1, "a number of at least 0 and below 1",
                        &sampling->filter_thres) != 0 ||
        generate_number(request, "parameters.repetition_penalty", p->repetition_penalty, p->repetition_penalty > 0,
                        "a number above 0", &sampling->repetition_penalty) != 0 ||
        generate_integer(request, "parameters.top_k", p->top_k, 0, INT64_MAX, &sampling->top_k) != 0)
        return -1;
    sampling->top_p_library = p->top_p_library && !isnan(p->top_p);
    bool filters = p->temperature < 1 || p->temperature > 1 || p->top_p < 1 || p->min_p > 0 || p->filter_thres >= 0 ||
                   json_integer_value(p->top_k) > 0; /* NaN, the value of an absent key, fails all comparisons */
    if (p->do_sample && !json_is_boolean(p->do_sample))
        return failure_set(&request->failure, FAILURE_INVALID, "parameters.do_sample is %s, true or false was expected",
                           json_kind(p->do_sample));
    sampling->do_sample = p->do_sample ? json_is_true(p->do_sample) : filters || sampling->do_sample;
    return 0;
}

static int read_limits(struct request *request, const struct generate_parameters *p)
{
    if (p->max_new_tokens > GENERATE_MAX_NEW_TOKENS)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "parameters.max_new_tokens is %" PRId64 ", at most %" PRId64 " was expected",
                           p->max_new_tokens, GENERATE_MAX_NEW_TOKENS);
    if (p->top_n_tokens > GENERATE_MAX_BEST || p->top_n_tokens > request->info->output_columns)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "parameters.top_n_tokens is %" PRId64 ", at most %" PRId64 " was expected", p->top_n_tokens,
                           GENERATE_MAX_BEST < request->info->output_columns ? GENERATE_MAX_BEST
                                                                             : request->info->output_columns);
    return 0;
}

static int read_parameters(struct request *request, const json_t *json, struct generate_parameters *p,
                           struct generate_route_plan *plan)
{
    *p = (struct generate_parameters){.max_new_tokens = 20,
                                      .temperature = NAN,
                                      .top_p = NAN,
                                      .min_p = NAN,
                                      .filter_thres = NAN,
                                      .repetition_penalty = NAN,
                                      .add_special_tokens = true};
    struct generation *generation = &plan->generate.generation;
    if (json && request_options(request, json, parameter_options, OPTION_COUNT(parameter_options), p) != 0)
        return -1;
    if (read_limits(request, p) != 0 || read_sampling(request, p, &generation->sampling) != 0 ||
        generate_seed(request, "parameters.seed", p->seed, &generation->sampling) != 0 ||
        generate_stops(request, "parameters.stop", p->stop, &plan->generate) != 0)
        return -1;
    generation->max_new_tokens = p->max_new_tokens;
    generation->n_best = p->top_n_tokens;
    plan->details = p->details;
    plan->full_text = p->return_full_text;
    return 0;
}

/* ---- The prompt ---- */

/* Keeps the text of the prompt if return_full_text is true. */
static int keep_prompt(struct request *request, const json_t *inputs, struct generate_route_plan *plan)
{
    if (!plan->full_text || !json_is_string(inputs))
        return 0;
    plan->prompt_length = json_string_length(inputs);
    plan->prompt = request_take(request, (int64_t)plan->prompt_length + 1, 1);
    if (!plan->prompt)
        return -1;
    memcpy(plan->prompt, json_string_value(inputs), plan->prompt_length);
    return 0;
}

/* Sets *prompt to the ids of `inputs`. If the model has an encoder, the prompt is its input, and *decoder becomes the
 * beginning of the sequence. */
static int read_prompt(struct request *request, const struct generate_body *body, const struct generate_parameters *p,
                       struct generate_route_plan *plan, struct given_ids *prompt, struct given_ids *decoder)
{
    const struct model_info *info = request->info;
    struct text_inputs_options texts = {.add_special_tokens = p->add_special_tokens};
    if (keep_prompt(request, body->inputs, plan) != 0 ||
        text_inputs_prompt(request, body->prompt_name, body->input_type, &texts) != 0 ||
        generate_ids(request, "inputs", body->inputs, &texts, info->vocabulary, prompt) != 0)
        return -1;
    generate_truncate(p->truncate, prompt);
    if (info->sequence_input > 0)
        return generate_decoder_input(request, "parameters.decoder_input", p->decoder_input, decoder);
    return p->decoder_input ? failure_set(&request->failure, FAILURE_INVALID,
                                          "parameters.decoder_input is only for models with an encoder")
                            : 0;
}

/* ---- The routes ---- */

static int start(struct request *request, const struct generate_body *body, struct generate_route_plan *plan)
{
    struct generate_parameters parameters;
    struct given_ids prompt = {0}, decoder = {0};
    struct engine_item given = {0};
    request->options = plan;
    plan->generate.codec = native_model(request)->codec;
    if (read_parameters(request, body->parameters, &parameters, plan) != 0 ||
        read_prompt(request, body, &parameters, plan, &prompt, &decoder) != 0 ||
        generate_inputs_read(request, &body->named, &given) != 0)
        return -1;
    plan->n_input = prompt.count;
    bool has_encoder = request->info->sequence_input > 0;
    return generate_plan_start(request, &plan->generate, &prompt, 1, 1, has_encoder ? &decoder : NULL, &given);
}

static void write_events(struct writer *writer, struct generate_route_plan *plan);

static bool next(struct request *request)
{
    struct generate_route_plan *plan = request->options;
    bool goes_on = generation_next(request, &plan->generate.generation);
    if (request->streamed && request->failure.kind == FAILURE_NONE)
        write_events(&request->answer, plan);
    return goes_on;
}

static enum outcome generate_read(struct request *request, bool streamed, bool listed)
{
    struct generate_body body = {0};
    bool checked = native_check_list(request, "inputs") == 0 && generate_inputs_check(request) == 0;
    json_t *json = checked ? native_body(request, NULL) : NULL;
    if (!json)
        return OUTCOME_FAILED;
    struct generate_route_plan *plan = request_take(request, 1, sizeof *plan);
    request->next = next;
    request->streamed = streamed;
    bool ready = plan && request_options(request, json, options, OPTION_COUNT(options), &body) == 0 &&
                 generate_choose(request, body.model) == 0 && start(request, &body, plan) == 0;
    json_decref(json);
    if (!ready)
        return OUTCOME_FAILED;
    plan->listed = listed;
    return OUTCOME_RUN;
}

enum outcome native_generate_read(struct request *request)
{
    return generate_read(request, false, false);
}

enum outcome native_generate_stream_read(struct request *request)
{
    return generate_read(request, true, false);
}

bool native_wants_generation(const struct request *request, const json_t *body)
{
    const json_t *stream = json_object_get(body, "stream");
    bool generates = generate_fits(request->info);
    return json_is_boolean(stream) || (generates && (stream || json_is_object(json_object_get(body, "parameters"))));
}

enum outcome native_generate_root(struct request *request, bool streamed)
{
    return generate_read(request, streamed, !streamed);
}

/* ---- The answer ---- */

/* Writes {"id":5,"text":" the","logprob":-0.5,"special":false}. */
static void write_token(struct writer *writer, const struct generate_plan *plan, struct sampled_token token,
                        const char *text, size_t length)
{
    writer_text(writer, "{\"id\":");
    writer_integer(writer, token.id);
    writer_text(writer, ",\"text\":");
    writer_string(writer, text, length);
    writer_text(writer, ",\"logprob\":");
    writer_float(writer, token.logprob);
    writer_text(writer, generate_is_special(plan, token.id) ? ",\"special\":true}" : ",\"special\":false}");
}

/* Writes the object of new token number `index`. */
static void write_new_token(struct writer *writer, const struct generate_plan *plan, int64_t index)
{
    const struct generated *sequence = &plan->generation.sequences[0];
    size_t length = 0;
    const char *text = generate_token_text(plan, sequence, index, &length);
    struct sampled_token token = {sequence->ids[sequence->n_prompt + index], sequence->logprobs[index]};
    write_token(writer, plan, token, text, length);
}

/* Writes the list of the n_best most probable tokens at the place of new token number `index`. */
static void write_best(struct writer *writer, const struct generate_plan *plan, int64_t index)
{
    int64_t n_best = plan->generation.n_best;
    writer_text(writer, "[");
    for (int64_t i = 0; i < n_best; i++) {
        struct sampled_token token = plan->generation.sequences[0].best[index * n_best + i];
        size_t length = 0;
        const char *text = plan->codec ? text_codec_token(plan->codec, token.id, &length) : "";
        writer_text(writer, i > 0 ? "," : "");
        write_token(writer, plan, token, text, length);
    }
    writer_text(writer, "]");
}

/* Writes {"finish_reason":"length","generated_tokens":3,"seed":null. The caller writes the closing brace. */
static void write_end(struct writer *writer, const struct generate_plan *plan)
{
    const struct generated *sequence = &plan->generation.sequences[0];
    writer_format(writer, "{\"finish_reason\":\"%s\",\"generated_tokens\":%" PRId64 ",\"seed\":",
                  generation_end_name(sequence->end), generate_count(sequence));
    if (plan->generation.sampling.do_sample)
        writer_integer(writer, (int64_t)plan->generation.sampling.seed);
    else
        writer_text(writer, "null");
}

static void write_details(struct writer *writer, const struct generate_plan *plan)
{
    int64_t count = generate_count(&plan->generation.sequences[0]);
    write_end(writer, plan);
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

/* Writes the text of the new tokens as a JSON string. If return_full_text is true, the text of the prompt precedes
 * it. */
static void write_generated(struct writer *writer, const struct generate_route_plan *plan)
{
    const struct writer *text = &plan->generate.texts[0].stream.text;
    struct writer whole = {0};
    if (plan->prompt)
        writer_bytes(&whole, plan->prompt, plan->prompt_length);
    writer_bytes(&whole, text->data, text->length);
    writer_string(writer, whole.data ? whole.data : "", whole.length);
    writer->failed |= whole.failed;
    writer_free(&whole);
}

/* Whether the answer contains `details`. In an answer that is not streamed, only `details` contains the ids of new
 * tokens. So `details` is always present if the model has no tokenizer. */
static bool has_details(const struct generate_route_plan *plan)
{
    return plan->details || !plan->generate.codec;
}

static void write_whole(struct writer *writer, const struct generate_route_plan *plan)
{
    writer_text(writer, plan->listed ? "[{\"generated_text\":" : "{\"generated_text\":");
    write_generated(writer, plan);
    if (has_details(plan)) {
        writer_text(writer, ",\"details\":");
        write_details(writer, &plan->generate);
    }
    writer_text(writer, plan->listed ? "}]" : "}");
}

int native_generate_answer(struct request *request)
{
    const struct generate_route_plan *plan = request->options;
    if (request->failure.kind != FAILURE_NONE)
        return -1;
    if (!request->streamed) /* the events of a streamed answer are already written by `next` */
        write_whole(&request->answer, plan);
    return 0;
}

/* ---- Events ---- */

/* Writes the keys "generated_text" and "details" of the last event. */
static void write_last(struct writer *writer, const struct generate_route_plan *plan)
{
    writer_text(writer, ",\"generated_text\":");
    write_generated(writer, plan);
    writer_text(writer, ",\"details\":");
    if (has_details(plan)) {
        write_end(writer, &plan->generate);
        writer_format(writer, ",\"input_length\":%" PRId64 "}", plan->n_input);
    } else {
        writer_text(writer, "null");
    }
}

/* Writes an event for each new token that has no event yet. */
static void write_events(struct writer *writer, struct generate_route_plan *plan)
{
    const struct generate_plan *generate = &plan->generate;
    const struct generated *sequence = &generate->generation.sequences[0];
    int64_t count = generate_count(sequence);
    for (; plan->n_written < count; plan->n_written++) {
        writer_format(writer, "data:{\"index\":%" PRId64 ",\"token\":", plan->n_written + 1);
        write_new_token(writer, generate, plan->n_written);
        if (generate->generation.n_best > 0) {
            writer_text(writer, ",\"top_tokens\":");
            write_best(writer, generate, plan->n_written);
        }
        if (sequence->end != GENERATION_RUNS && plan->n_written == count - 1)
            write_last(writer, plan);
        else
            writer_text(writer, ",\"generated_text\":null,\"details\":null");
        writer_text(writer, "}\n\n");
    }
}
