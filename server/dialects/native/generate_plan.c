#define _GNU_SOURCE /* makes string.h declare memmem */
#include "server/dialects/native/generate_plan.h"

#include "server/common/clock.h"
#include "server/dialects/native/body.h"
#include "server/dialects/native/model.h"
#include "server/dialects/text_inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- Reading ---- */

bool generate_fits(const struct model_info *info)
{
    return info->is_causal && info->inputs[info->sequence_input].kind == INPUT_IDS;
}

int generate_choose(struct request *request, const char *named)
{
    if (!named)
        request_first_model(request, generate_fits);
    const struct model_info *info = request->info;
    if (generate_fits(info))
        return 0;
    if (info->has_logits && strcmp(info->architecture, "module") == 0)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "model \"%s\" cannot generate: its config.json lacks \"causal\": true",
                           request_model_name(request));
    return failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" cannot generate: %s %s",
                       request_model_name(request), info->architecture,
                       !info->has_logits ? "does not return logits" : "is not causal");
}

int generate_number(struct request *request, const char *name, double value, bool valid, const char *expected,
                    double *field)
{
    if (isnan(value))
        return 0;
    if (!valid)
        return failure_set(&request->failure, FAILURE_INVALID, "%s is %g, %s was expected", name, value, expected);
    *field = value;
    return 0;
}

int generate_integer(struct request *request, const char *name, const json_t *given, int64_t least, int64_t most,
                     int64_t *field)
{
    if (!given)
        return 0;
    if (!json_is_integer(given))
        return failure_set(&request->failure, FAILURE_INVALID, "%s is %s, an integer was expected", name,
                           json_kind(given));
    *field = json_integer_value(given);
    if (*field >= least && *field <= most)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "%s is %" PRId64 ", an integer from %" PRId64 " to %" PRId64 " was expected", name, *field,
                       least, most);
}

struct sampling_options generate_sampling(const struct request *request)
{
    const struct generation_settings *settings = &native_model(request)->generation;
    struct sampling_options sampling = sampling_defaults();
    sampling.do_sample = settings->do_sample;
    sampling.temperature = settings->temperature;
    sampling.top_k = settings->top_k;
    sampling.top_p = settings->top_p;
    sampling.min_p = settings->min_p;
    sampling.repetition_penalty = settings->repetition_penalty;
    return sampling;
}

int generate_seed(struct request *request, const char *name, const json_t *seed, struct sampling_options *sampling)
{
    if (seed && (!json_is_integer(seed) || json_integer_value(seed) < 0))
        return failure_set(&request->failure, FAILURE_INVALID, "%s is %s, an integer of at least 0 was expected", name,
                           json_is_integer(seed) ? "negative" : json_kind(seed));
    if (seed)
        sampling->seed = (uint64_t)json_integer_value(seed);
    else if (getentropy(&sampling->seed, sizeof sampling->seed) != 0)
        sampling->seed = (uint64_t)clock_ns(); /* not derived from an address, because the client sees the seed */
    sampling->seed &= INT64_MAX;               /* a client can send the seed of an answer back as a JSON integer */
    return 0;
}

static int read_stop(struct request *request, const char *name, const json_t *text, struct generate_plan *plan)
{
    size_t length = json_string_length(text);
    if (!json_is_string(text) || length == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "%s: expected texts that are not empty, found %s", name,
                           json_is_string(text) ? "an empty one" : json_kind(text));
    if (plan->n_stops == GENERATE_MAX_STOPS)
        return failure_set(&request->failure, FAILURE_INVALID, "%s: expected at most %d texts", name,
                           GENERATE_MAX_STOPS);
    if (length > GENERATE_MAX_STOP_BYTES)
        return failure_set(&request->failure, FAILURE_INVALID, "%s: found a text of %zu bytes, expected at most %d",
                           name, length, GENERATE_MAX_STOP_BYTES);
    char *copy = request_take(request, (int64_t)length + 1, 1);
    if (!copy)
        return -1;
    memcpy(copy, json_string_value(text), length);
    plan->stops[plan->n_stops++] = (struct stop_text){copy, length};
    return 0;
}

int generate_stops(struct request *request, const char *name, const json_t *stop, struct generate_plan *plan)
{
    size_t i;
    const json_t *text;
    if (!stop)
        return 0;
    if (!plan->codec)
        return failure_set(&request->failure, FAILURE_INVALID, "%s contains a text, but model \"%s\" has no tokenizer",
                           name, request_model_name(request));
    if (!json_is_array(stop))
        return read_stop(request, name, stop, plan);
    json_array_foreach (stop, i, text)
        if (read_stop(request, name, text, plan) != 0)
            return -1;
    return 0;
}

static int read_list(struct request *request, const char *name, const json_t *list, int64_t vocabulary,
                     struct given_ids *given)
{
    given->count = (int64_t)json_array_size(list);
    if (given->count == 0)
        return failure_set(&request->failure, FAILURE_INVALID, "%s is empty, at least one token was expected", name);
    if (native_check_elements(request, name, given->count) != 0)
        return -1;
    given->ids = request_take(request, given->count, sizeof *given->ids);
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

static int read_begins(struct request *request, struct text_encoding *encoding, struct given_ids *given)
{
    struct text_token token;
    struct error error;
    int status = 1;
    given->begins = request_take(request, given->count, sizeof *given->begins);
    if (!given->begins)
        return -1;
    for (int64_t i = 0; i < given->count && (status = text_encoding_next(encoding, &token, &error)) == 1; i++)
        given->begins[i] = token.begin;
    return status < 0 ? failure_memory(&request->failure) : 0;
}

static int read_text(struct request *request, const char *name, const json_t *text,
                     const struct text_inputs_options *options, struct given_ids *given)
{
    struct items_limit unlimited = {.tokens = INT64_MAX};
    struct text_inputs texts = {.request = request, .options = *options, .limit = &unlimited};
    int status = 0;
    given->ids = text_inputs_ids(&texts, name, json_string_value(text), json_string_length(text), &given->count);
    if (given->ids && given->wants_begins)
        status = read_begins(request, &texts.encoding, given);
    text_inputs_end(&texts);
    return status == 0 && given->ids ? 0 : -1;
}

void generate_truncate(int64_t tokens, struct given_ids *prompt)
{
    if (tokens == 0 || prompt->count <= tokens)
        return;
    prompt->ids += prompt->count - tokens;
    if (prompt->begins)
        prompt->begins += prompt->count - tokens;
    prompt->count = tokens;
}

int generate_ids(struct request *request, const char *name, const json_t *value,
                 const struct text_inputs_options *options, int64_t vocabulary, struct given_ids *given)
{
    if (json_is_string(value))
        return read_text(request, name, value, options, given);
    if (json_is_array(value))
        return read_list(request, name, value, vocabulary, given);
    return failure_set(&request->failure, FAILURE_INVALID, "%s is %s, a text or a list of ids was expected", name,
                       value ? json_kind(value) : "missing");
}

int generate_decoder_input(struct request *request, const char *name, const json_t *value, struct given_ids *given)
{
    const struct served_model *served = native_model(request);
    int64_t vocabulary = request->info->inputs[request->info->sequence_input].vocabulary;
    if (value)
        return generate_ids(request, name, value, &(struct text_inputs_options){0}, vocabulary, given);
    given->ids = request_take(request, 1, sizeof *given->ids);
    if (!given->ids)
        return -1;
    given->count = 1;
    given->ids[0] = served->bos_token >= 0 ? served->bos_token : 1;
    return given->ids[0] < vocabulary ? 0 : failure_set(&request->failure, FAILURE_INVALID, "%s is missing", name);
}

/* ---- Running ---- */

/* Finds the first stop text that ends in the text of the last token. `before` is the number of bytes before the text of
 * this token. */
static void find_stops(const struct generate_plan *plan, struct generated_text *text, size_t before)
{
    const struct writer *all = &text->stream.text;
    for (size_t i = 0; i < plan->n_stops; i++) {
        size_t length = plan->stops[i].length, first = before > length ? before - length : 0;
        const char *found = memmem(all->data + first, all->length - first, plan->stops[i].text, length);
        if (found && (size_t)(found - all->data) < text->stop)
            text->stop = (size_t)(found - all->data);
    }
}

static bool add_token(struct request *request, struct generation *generation, struct generated *sequence)
{
    struct generate_plan *plan = (struct generate_plan *)generation;
    struct generated_text *text = &plan->texts[sequence->number];
    struct error error;
    size_t before = text->stream.text.length;
    if (text_stream_add(&text->stream, sequence->ids, sequence->count, sequence->end != GENERATION_RUNS, &error) != 0 ||
        request_charge(request, (int64_t)(text->stream.text.length - before)) != 0) {
        if (request->failure.kind == FAILURE_NONE)
            failure_set(&request->failure, FAILURE_BACKEND, "%s", error.message);
        return false;
    }
    text->token_ends[sequence->count - sequence->n_prompt - 1] = text->stream.text.length;
    if (text->stream.text.length > before)
        find_stops(plan, text, before);
    return text->stop == SIZE_MAX || sequence->end != GENERATION_RUNS;
}

static void release(struct request *request)
{
    struct generate_plan *plan = request->options;
    generation_release(request, &plan->generation);
    for (int64_t i = 0; plan->texts && i < plan->generation.n_sequences; i++)
        text_stream_free(&plan->texts[i].stream);
}

/* The ids with which sequence number `i` begins. These are `decoder` if the model has an encoder, otherwise the prompt
 * of the sequence. */
static const struct given_ids *beginning(const struct given_ids *prompts, int64_t n_copies,
                                         const struct given_ids *decoder, int64_t i)
{
    return decoder ? decoder : &prompts[i / n_copies];
}

static int open_text(struct request *request, struct generate_plan *plan, int64_t i, const struct given_ids *begin)
{
    struct generated *sequence = &plan->generation.sequences[i];
    struct generated_text *text = &plan->texts[i];
    memcpy(sequence->ids, begin->ids, (size_t)begin->count * sizeof *begin->ids);
    text->stream.codec = plan->codec;
    text->stop = SIZE_MAX;
    text->token_ends = request_take(request, plan->generation.max_new_tokens, sizeof *text->token_ends);
    text_stream_begin(&text->stream, begin->count);
    return text->token_ends ? 0 : -1;
}

int generate_plan_start(struct request *request, struct generate_plan *plan, const struct given_ids *prompts,
                        int64_t n_prompts, int64_t n_copies, const struct given_ids *decoder,
                        const struct engine_item *given)
{
    struct generation *generation = &plan->generation;
    int64_t n_sequences = n_prompts * n_copies; /* both numbers are small, so the product does not overflow */
    int64_t *n_ids = request_take(request, n_sequences, sizeof *n_ids);
    plan->texts = request_take(request, n_sequences, sizeof *plan->texts);
    if (!n_ids || !plan->texts)
        return -1;
    for (int64_t i = 0; i < n_sequences; i++)
        n_ids[i] = beginning(prompts, n_copies, decoder, i)->count;
    request->release = release;
    plan->eos_id[0] = native_model(request)->eos_token;
    generation->end_ids = plan->eos_id;
    generation->n_end_ids = 1;
    generation->token = add_token;
    generation->sequence_input = request->info->sequence_input;
    if (generation_open(request, generation, n_ids, n_sequences) != 0)
        return -1;
    for (int64_t i = 0; i < n_sequences; i++) {
        const struct given_ids *prompt = &prompts[i / n_copies];
        generation->sequences[i].given = *given;
        if (decoder) {
            generation->sequences[i].given.inputs[0].data = prompt->ids;
            generation->sequences[i].given.inputs[0].length = prompt->count;
        }
        if (open_text(request, plan, i, beginning(prompts, n_copies, decoder, i)) != 0)
            return -1;
    }
    return generation_start(request, generation);
}

/* ---- Texts of tokens ---- */

bool generate_is_special(const struct generate_plan *plan, int32_t id)
{
    return plan->codec && text_codec_special(plan->codec, id);
}

int64_t generate_count(const struct generated *sequence)
{
    return sequence->count - sequence->n_prompt;
}

const char *generate_token_text(const struct generate_plan *plan, const struct generated *sequence, int64_t index,
                                size_t *length)
{
    const struct generated_text *text = &plan->texts[sequence->number];
    int32_t id = sequence->ids[sequence->n_prompt + index];
    if (generate_is_special(plan, id))
        return text_codec_token(plan->codec, id, length);
    size_t begin = index > 0 ? text->token_ends[index - 1] : 0;
    *length = text->token_ends[index] - begin;
    return *length > 0 ? text->stream.text.data + begin : "";
}
