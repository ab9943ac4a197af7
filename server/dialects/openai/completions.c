/* completions: /v1/completions continues prompts, as in OpenAI's API. The keys top_k, min_p, repetition_penalty and
 * return_token_ids are from vLLM (vllm/entrypoints/openai). Where OpenAI's reference leaves a detail open, the route
 * does the same as vLLM. For example, text_offset counts characters from the beginning of `text`. */
#include "server/dialects/native/body.h"
#include "server/dialects/native/generate_inputs.h"
#include "server/dialects/native/generate_plan.h"
#include "server/dialects/native/model.h"
#include "server/dialects/openai/echo.h"
#include "server/dialects/openai/logprobs.h"
#include "server/dialects/openai/openai.h"
#include "server/dialects/text_inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEFAULT_TOKENS 16 /* the default of max_tokens in OpenAI's API */

/* The values of the keys of a body. An absent double is NaN. */
struct completions_body {
    const char *model, *prompt_name, *input_type;
    json_t *prompt, *max_tokens, *stop, *seed, *logprobs, *top_k, *stream_options, *truncate_prompt_tokens;
    double temperature, top_p, min_p, repetition_penalty;
    int64_t n, best_of;
    bool stream, echo, add_special_tokens, return_token_ids;
    struct generate_inputs named;
};

static const struct option options[] = {
    {"model", OPTION_STRING, offsetof(struct completions_body, model)},
    {"prompt", OPTION_JSON, offsetof(struct completions_body, prompt)},
    {"max_tokens", OPTION_JSON, offsetof(struct completions_body, max_tokens)},
    {"temperature", OPTION_NUMBER, offsetof(struct completions_body, temperature)},
    {"top_p", OPTION_NUMBER, offsetof(struct completions_body, top_p)},
    {"n", OPTION_INTEGER, offsetof(struct completions_body, n)},
    {"best_of", OPTION_INTEGER, offsetof(struct completions_body, best_of)},
    {"stream", OPTION_BOOL, offsetof(struct completions_body, stream)},
    {"stream_options", OPTION_OBJECT, offsetof(struct completions_body, stream_options)},
    {"logprobs", OPTION_JSON, offsetof(struct completions_body, logprobs)},
    {"echo", OPTION_BOOL, offsetof(struct completions_body, echo)},
    {"stop", OPTION_JSON, offsetof(struct completions_body, stop)},
    {"seed", OPTION_JSON, offsetof(struct completions_body, seed)},
    {"top_k", OPTION_JSON, offsetof(struct completions_body, top_k)},
    {"min_p", OPTION_NUMBER, offsetof(struct completions_body, min_p)},
    {"repetition_penalty", OPTION_NUMBER, offsetof(struct completions_body, repetition_penalty)},
    {"add_special_tokens", OPTION_BOOL, offsetof(struct completions_body, add_special_tokens)},
    {"return_token_ids", OPTION_BOOL, offsetof(struct completions_body, return_token_ids)},
    {"prompt_name", OPTION_STRING, offsetof(struct completions_body, prompt_name)},
    {"input_type", OPTION_STRING, offsetof(struct completions_body, input_type)},
    {"truncate_prompt_tokens", OPTION_JSON, offsetof(struct completions_body, truncate_prompt_tokens)},
    {"user", OPTION_IGNORED, 0},
    GENERATE_INPUT_OPTIONS(struct completions_body, named),
};

struct stream_options {
    bool include_usage;
};

static const struct option stream_option_table[] = {
    {"include_usage", OPTION_BOOL, offsetof(struct stream_options, include_usage)},
};

/* The part of a sequence that has been written to the answer. */
struct sent {
    int64_t tokens;
    size_t bytes;       /* number of bytes of the sequence's text */
    int64_t characters; /* number of characters in the answer's `text` before token number `tokens`, including an echoed
                           prompt */
    bool ended;
};

/* What the answer needs to know about the request. */
struct completions_plan {
    struct generate_plan generate;
    int64_t n;             /* number of sequences for each prompt */
    int64_t prompt_tokens; /* number of tokens of all prompts together */
    int64_t created_s;     /* seconds since 1970 */
    bool logprobs, include_usage;
    bool token_ids;      /* each choice contains the ids of its tokens */
    bool no_tokens;      /* max_tokens is 0. One token is generated nevertheless, but the answer does not contain it */
    struct echo *echoes; /* (n_prompts): the texts of the prompts. NULL if the key `echo` is not true */
    struct sent *sent;   /* (n_sequences): what has been sent of each sequence */
};

/* ---- Reading ---- */

static int read_sampling(struct request *request, const struct completions_body *body,
                         struct sampling_options *sampling)
{
    *sampling = generate_sampling(request);
    int64_t top_k = sampling->top_k;
    if (generate_number(request, "temperature", body->temperature, body->temperature >= 0, "a number of at least 0",
                        &sampling->temperature) != 0 ||
        generate_number(request, "top_p", body->top_p, body->top_p > 0 && body->top_p <= 1,
                        "a number above 0, at most 1", &sampling->top_p) != 0 ||
        generate_number(request, "min_p", body->min_p, body->min_p >= 0 && body->min_p <= 1, "a number from 0 to 1",
                        &sampling->min_p) != 0 ||
        generate_number(request, "repetition_penalty", body->repetition_penalty, body->repetition_penalty > 0,
                        "a number above 0", &sampling->repetition_penalty) != 0 ||
        generate_integer(request, "top_k", body->top_k, -1, INT64_MAX, &top_k) != 0 ||
        generate_seed(request, "seed", body->seed, sampling) != 0)
        return -1;
    sampling->top_k = top_k > 0 ? top_k : 0; /* -1 and 0 mean all tokens, as in vLLM */
    sampling->do_sample = sampling->temperature > 0;
    if (!sampling->do_sample)
        sampling->temperature = 1;
    return 0;
}

static int read_logprobs(struct request *request, const struct completions_body *body, struct completions_plan *plan)
{
    int64_t columns = request->info->output_columns;
    plan->logprobs = body->logprobs != NULL;
    plan->generate.generation.scores_prompts = plan->logprobs && body->echo;
    if (plan->logprobs && body->echo && request->info->sequence_input > 0)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "logprobs with echo: an encoder reads the prompt of model \"%s\", so the prompt's tokens "
                           "have no log-probabilities",
                           request_model_name(request));
    return generate_integer(request, "logprobs", body->logprobs, 0,
                            columns < GENERATE_MAX_BEST ? columns : GENERATE_MAX_BEST,
                            &plan->generate.generation.n_best);
}

static int read_stream(struct request *request, const struct completions_body *body, struct completions_plan *plan)
{
    struct stream_options stream = {0};
    request->streamed = body->stream;
    if (!body->stream_options)
        return 0;
    if (!body->stream)
        return failure_set(&request->failure, FAILURE_INVALID, "stream_options needs stream: true");
    if (request_options(request, body->stream_options, stream_option_table, OPTION_COUNT(stream_option_table),
                        &stream) != 0)
        return -1;
    plan->include_usage = stream.include_usage;
    return 0;
}

static int read_numbers(struct request *request, const struct completions_body *body, struct completions_plan *plan)
{
    struct generation *generation = &plan->generate.generation;
    if (body->best_of > 0 && body->best_of != body->n)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "best_of is %" PRId64 ", but n is %" PRId64 ": this server requires best_of to equal n",
                           body->best_of, body->n);
    generation->max_new_tokens = DEFAULT_TOKENS;
    if (generate_integer(request, "max_tokens", body->max_tokens, 0, GENERATE_MAX_NEW_TOKENS,
                         &generation->max_new_tokens) != 0 ||
        read_sampling(request, body, &generation->sampling) != 0 || read_logprobs(request, body, plan) != 0 ||
        read_stream(request, body, plan) != 0)
        return -1;
    plan->no_tokens = generation->max_new_tokens == 0;
    generation->max_new_tokens += plan->no_tokens;
    plan->n = body->n;
    plan->token_ids = body->return_token_ids || !plan->generate.codec;
    return generate_stops(request, "stop", body->stop, &plan->generate);
}

/* ---- Prompts ---- */

/* Whether `prompt` is a list of prompts. A text or a list of ids is a single prompt. */
static bool is_list_of_prompts(const json_t *prompt)
{
    return json_is_array(prompt) && json_array_size(prompt) > 0 && !json_is_number(json_array_get(prompt, 0));
}

/* The number of prompts. On failure sets request->failure and returns -1. */
static int64_t count_prompts(struct request *request, const json_t *prompt)
{
    int64_t most = request->service->options.settings->max_client_batch_size;
    int64_t count = is_list_of_prompts(prompt) ? (int64_t)json_array_size(prompt) : 1;
    if (count <= most)
        return count;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "the request has %" PRId64 " prompts, this server accepts at most %" PRId64 " in one request",
                       count, most);
}

static int read_prompts(struct request *request, const struct completions_body *body, int64_t count,
                        struct completions_plan *plan, struct given_ids *prompts)
{
    struct text_inputs_options texts = {.add_special_tokens = body->add_special_tokens};
    bool listed = is_list_of_prompts(body->prompt), scored = plan->generate.generation.scores_prompts;
    int64_t most = request->info->inputs[0].max_length; /* if the model has an encoder, the prompt is its input */
    if (text_inputs_prompt(request, body->prompt_name, body->input_type, &texts) != 0 ||
        text_inputs_truncation(request, body->truncate_prompt_tokens, most, &texts.most_tokens) != 0)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        const json_t *prompt = listed ? json_array_get(body->prompt, (size_t)i) : body->prompt;
        char name[32] = "prompt";
        if (listed)
            snprintf(name, sizeof name, "prompt[%" PRId64 "]", i);
        prompts[i].wants_begins = scored;
        if (generate_ids(request, name, prompt, &texts, request->info->vocabulary, &prompts[i]) != 0)
            return -1;
        generate_truncate(texts.most_tokens, &prompts[i]);
        if (plan->echoes && echo_keep(request, prompt, &prompts[i], &texts, scored, &plan->echoes[i]) != 0)
            return -1;
        plan->prompt_tokens += prompts[i].count;
    }
    return 0;
}

static int start(struct request *request, const struct completions_body *body, struct completions_plan *plan)
{
    struct given_ids decoder, *prompts;
    struct engine_item given = {0};
    request->options = plan;
    plan->generate.codec = native_model(request)->codec;
    plan->created_s = (int64_t)time(NULL);
    int64_t count = count_prompts(request, body->prompt), n_sequences;
    if (count < 0 || read_numbers(request, body, plan) != 0)
        return -1;
    if (__builtin_mul_overflow(count, plan->n, &n_sequences))
        n_sequences = INT64_MAX;
    if (generation_check_count(request, n_sequences) != 0)
        return -1;
    prompts = request_take(request, count, sizeof *prompts);
    plan->sent = request_take(request, n_sequences, sizeof *plan->sent);
    plan->echoes = body->echo ? request_take(request, count, sizeof *plan->echoes) : NULL;
    if (!prompts || !plan->sent || (body->echo && !plan->echoes) ||
        read_prompts(request, body, count, plan, prompts) != 0 ||
        generate_inputs_read(request, &body->named, &given) != 0)
        return -1;
    bool has_encoder = request->info->sequence_input > 0;
    if (has_encoder && generate_decoder_input(request, "decoder_input", NULL, &decoder) != 0)
        return -1;
    return generate_plan_start(request, &plan->generate, prompts, count, plan->n, has_encoder ? &decoder : NULL,
                               &given);
}

static bool next(struct request *request);

enum outcome openai_completions_read(struct request *request)
{
    struct completions_body body = {
        .temperature = NAN, .top_p = NAN, .min_p = NAN, .repetition_penalty = NAN, .n = 1, .add_special_tokens = true};
    bool checked = native_check_list(request, "prompt") == 0 && generate_inputs_check(request) == 0;
    json_t *json = checked ? native_body(request, NULL) : NULL;
    if (!json)
        return OUTCOME_FAILED;
    struct completions_plan *plan = request_take(request, 1, sizeof *plan);
    request->next = next;
    bool ready = plan && request_options(request, json, options, OPTION_COUNT(options), &body) == 0 &&
                 generate_choose(request, native_path_model(request, body.model)) == 0 &&
                 start(request, &body, plan) == 0;
    json_decref(json);
    return ready ? OUTCOME_RUN : OUTCOME_FAILED;
}

/* ---- Choices ---- */

/* The number of bytes at the end of the text that may be the beginning of a stop text. They are held back until later
 * text shows that they are not. */
static size_t held_bytes(const struct generate_plan *plan, const struct writer *text)
{
    size_t most = 0;
    for (size_t i = 0; i < plan->n_stops; i++) {
        const struct stop_text *stop = &plan->stops[i];
        size_t length = stop->length - 1 < text->length ? stop->length - 1 : text->length;
        while (length > most && memcmp(text->data + text->length - length, stop->text, length) != 0)
            length--;
        most = length > most ? length : most;
    }
    return most;
}

/* The number of bytes of the sequence's text that may be sent. A stop text, and the text after it, are never sent. */
static size_t sendable_bytes(const struct completions_plan *plan, const struct generated *sequence)
{
    const struct generated_text *text = &plan->generate.texts[sequence->number];
    if (plan->no_tokens)
        return 0;
    if (text->stop != SIZE_MAX)
        return text->stop;
    if (sequence->end != GENERATION_RUNS)
        return text->stream.text.length;
    return text->stream.text.length - held_bytes(&plan->generate, &text->stream.text);
}

static const char *finish_reason(const struct completions_plan *plan, const struct generated *sequence)
{
    if (plan->no_tokens)
        return "length";
    if (sequence->end == GENERATION_DRAINED)
        return generation_end_name(sequence->end);
    bool stopped = plan->generate.texts[sequence->number].stop != SIZE_MAX;
    return sequence->end == GENERATION_LENGTH && !stopped ? "length" : "stop";
}

static int64_t shown_tokens(const struct completions_plan *plan, const struct generated *sequence)
{
    return plan->no_tokens ? 0 : generate_count(sequence);
}

/* Writes a JSON string with the part of the sequence's text that may be sent and has not been sent. The text of the
 * prompt `echo` precedes it. `echo` is NULL if the prompt is not wanted or already sent. */
static void write_text(struct writer *writer, const struct completions_plan *plan, const struct generated *sequence,
                       const struct echo *echo)
{
    const struct writer *text = &plan->generate.texts[sequence->number].stream.text;
    size_t begin = plan->sent[sequence->number].bytes, end = sendable_bytes(plan, sequence);
    struct writer whole = {0};
    if (echo)
        writer_bytes(&whole, echo->text, echo->length);
    if (end > begin)
        writer_bytes(&whole, text->data + begin, end - begin);
    writer_string(writer, whole.data ? whole.data : "", whole.length);
    writer->failed |= whole.failed;
    writer_free(&whole);
}

/* Writes the part of a choice that has not been sent, and updates plan->sent. A choice is one generated sequence in an
 * answer. */
static void write_choice(struct writer *writer, struct completions_plan *plan, const struct generated *sequence)
{
    struct sent *sent = &plan->sent[sequence->number];
    const struct generated_text *text = &plan->generate.texts[sequence->number];
    bool first = sent->tokens == 0, scored = plan->generate.generation.scores_prompts;
    const struct echo *echo = first && plan->echoes ? &plan->echoes[sequence->number / plan->n] : NULL;
    if (echo)
        sent->characters = echo->characters;
    struct logprobs_piece piece = {
        .sequence = sequence,
        .echo = echo,
        .first = first && scored ? -sequence->n_prompt : sent->tokens,
        .end = shown_tokens(plan, sequence),
        .offset = sent->characters,
    };
    writer_format(writer, "{\"index\":%" PRId64 ",\"text\":", sequence->number);
    write_text(writer, plan, sequence, echo);
    writer_text(writer, ",\"logprobs\":");
    if (plan->logprobs)
        logprobs_write(writer, &plan->generate, &piece);
    else
        writer_text(writer, "null");
    if (plan->token_ids) {
        writer_text(writer, ",\"token_ids\":[");
        for (int64_t i = sent->tokens; i < piece.end; i++)
            writer_format(writer, "%s%" PRId32, i > sent->tokens ? "," : "", sequence->ids[sequence->n_prompt + i]);
        writer_text(writer, "]");
    }
    writer_text(writer, ",\"finish_reason\":");
    writer_string0(writer, sequence->end == GENERATION_RUNS ? NULL : finish_reason(plan, sequence));
    writer_text(writer, "}");
    size_t begin = sent->tokens > 0 ? text->token_ends[sent->tokens - 1] : 0;
    size_t end = generate_count(sequence) > 0 ? text->token_ends[generate_count(sequence) - 1] : 0;
    if (end > begin)
        sent->characters += echo_characters(text->stream.text.data + begin, end - begin);
    sent->tokens = generate_count(sequence);
    sent->bytes = sendable_bytes(plan, sequence);
    sent->ended = sequence->end != GENERATION_RUNS;
}

/* ---- Answers ---- */

/* Writes the beginning of an answer, {"id":…,"choices":[. */
static void write_head(struct writer *writer, const struct request *request, const struct completions_plan *plan)
{
    char id[sizeof request->id.text + 8];
    snprintf(id, sizeof id, "cmpl-%s", request->id.text);
    writer_text(writer, "{\"id\":");
    writer_string0(writer, id);
    writer_format(writer, ",\"object\":\"text_completion\",\"created\":%" PRId64 ",\"model\":", plan->created_s);
    writer_string0(writer, request_model_name(request));
    writer_text(writer, ",\"choices\":[");
}

static void write_usage(struct writer *writer, const struct completions_plan *plan)
{
    const struct generation *generation = &plan->generate.generation;
    int64_t tokens = 0;
    for (int64_t i = 0; i < generation->n_sequences; i++)
        tokens += shown_tokens(plan, &generation->sequences[i]);
    writer_format(writer,
                  ",\"usage\":{\"prompt_tokens\":%" PRId64 ",\"completion_tokens\":%" PRId64
                  ",\"total_tokens\":%" PRId64 "}",
                  plan->prompt_tokens, tokens, plan->prompt_tokens + tokens);
}

/* Writes an event for each sequence that has a token that has not been sent. */
static void write_events(struct request *request, struct completions_plan *plan)
{
    struct writer *writer = &request->answer;
    for (int64_t i = 0; i < plan->generate.generation.n_sequences; i++) {
        const struct generated *sequence = &plan->generate.generation.sequences[i];
        if (plan->sent[i].ended || generate_count(sequence) == plan->sent[i].tokens)
            continue;
        writer_text(writer, "data: ");
        write_head(writer, request, plan);
        write_choice(writer, plan, sequence);
        writer_text(writer, plan->include_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
    }
}

static bool next(struct request *request)
{
    struct completions_plan *plan = request->options;
    bool goes_on = generation_next(request, &plan->generate.generation);
    if (request->streamed && request->failure.kind == FAILURE_NONE)
        write_events(request, plan);
    return goes_on;
}

static void write_whole(struct request *request, struct completions_plan *plan)
{
    struct writer *writer = &request->answer;
    write_head(writer, request, plan);
    for (int64_t i = 0; i < plan->generate.generation.n_sequences; i++) {
        writer_text(writer, i > 0 ? "," : "");
        write_choice(writer, plan, &plan->generate.generation.sequences[i]);
    }
    writer_text(writer, "]");
    write_usage(writer, plan);
    writer_text(writer, "}");
}

int openai_completions_answer(struct request *request)
{
    struct completions_plan *plan = request->options;
    struct writer *writer = &request->answer;
    if (request->failure.kind != FAILURE_NONE)
        return -1;
    if (!request->streamed) {
        write_whole(request, plan);
        return 0;
    }
    if (plan->include_usage) {
        writer_text(writer, "data: ");
        write_head(writer, request, plan);
        writer_text(writer, "]");
        write_usage(writer, plan);
        writer_text(writer, "}\n\n");
    }
    writer_text(writer, "data: [DONE]\n\n");
    return 0;
}
