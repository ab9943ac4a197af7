#include "server/generation/generation.h"

#include "server/common/clock.h"
#include "server/common/metrics.h"

#include <inttypes.h>
#include <string.h>

/* Maximum number of rows of each prompt that one job computes, if slots keep earlier rows (model_info.n_slots). With
 * this number of rows, matrix products already run at full speed. Other requests wait for at most one such job. */
#define PART_ROWS 512

/* Maximum number of logits of a prompt's rows that one job computes for each sequence. They use 4 MiB. */
#define MAX_LOGITS (INT64_C(1) << 20)

/* ---- Memory ---- */

/* Allocates `count` lists of the n_best likeliest tokens. If n_best is 0, returns NULL without a failure. */
static struct sampled_token *take_best(struct request *request, const struct generation *generation, int64_t count)
{
    int64_t tokens;
    if (generation->n_best == 0)
        return NULL;
    if (__builtin_mul_overflow(count, generation->n_best, &tokens)) {
        failure_memory(&request->failure);
        return NULL;
    }
    return request_take(request, tokens, sizeof(struct sampled_token));
}

/* The maximum number of rows for which one job computes the logits of a sequence. */
static int64_t most_wanted_rows(const struct generation *generation, int64_t n_prompt, int64_t vocabulary)
{
    int64_t rows = generation->scores_prompts ? MAX_LOGITS / vocabulary : 1;
    rows = rows < PART_ROWS ? rows : PART_ROWS;
    rows = rows < n_prompt ? rows : n_prompt;
    return rows > 0 ? rows : 1;
}

static int open_sequence(struct request *request, const struct generation *generation, struct generated *sequence,
                         int64_t n_prompt)
{
    int64_t vocabulary = request->info->output_columns, room, n_logits;
    sequence->most_wanted = most_wanted_rows(generation, n_prompt, vocabulary);
    if (__builtin_add_overflow(n_prompt, generation->max_new_tokens, &room) ||
        __builtin_mul_overflow(sequence->most_wanted, vocabulary, &n_logits))
        return failure_memory(&request->failure);
    sequence->generation = generation;
    sequence->n_prompt = sequence->count = n_prompt;
    sequence->ids = request_take(request, room, sizeof *sequence->ids);
    sequence->logprobs = request_take(request, generation->max_new_tokens, sizeof *sequence->logprobs);
    sequence->logits = request_take(request, n_logits, sizeof *sequence->logits);
    sequence->rows = request_take(request, sequence->most_wanted, sizeof *sequence->rows);
    sequence->scratch = request_take(request, (int64_t)sampling_scratch(vocabulary), sizeof *sequence->scratch);
    sequence->best = take_best(request, generation, generation->max_new_tokens);
    if (generation->scores_prompts) {
        sequence->prompt_logprobs = request_take(request, n_prompt, sizeof *sequence->prompt_logprobs);
        sequence->prompt_best = take_best(request, generation, n_prompt);
    }
    return request->failure.kind == FAILURE_NONE ? 0 : -1;
}

int generation_check_count(struct request *request, int64_t n_sequences)
{
    const struct settings *settings = request->service->options.settings;
    bool slots = settings->max_generations > 0;
    int64_t most = slots ? settings->max_generations : settings->max_client_batch_size;
    if (n_sequences <= most)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "the request generates %" PRId64 " sequences, this server generates at most %" PRId64
                       " at a time (%s)",
                       n_sequences, most, slots ? "--max-generations" : "--max-client-batch-size");
}

int generation_open(struct request *request, struct generation *generation, const int64_t *n_prompt,
                    int64_t n_sequences)
{
    if (generation_check_count(request, n_sequences) != 0)
        return -1;
    generation->sequences = request_take(request, n_sequences, sizeof *generation->sequences);
    generation->slots = request_take(request, n_sequences, sizeof *generation->slots);
    generation->running = request_take(request, n_sequences, sizeof(struct generated *));
    request->job.items = request_take(request, n_sequences, sizeof *request->job.items);
    if (!generation->sequences || !generation->slots || !generation->running || !request->job.items)
        return -1;
    for (generation->n_sequences = 0; generation->n_sequences < n_sequences; generation->n_sequences++) {
        int64_t i = generation->n_sequences;
        if (open_sequence(request, generation, &generation->sequences[i], n_prompt[i]) != 0)
            return -1;
        generation->sequences[i].number = i;
    }
    return 0;
}

/* ---- Slots ---- */

/* Makes the first job wait until there is a slot for each sequence. */
static void want_slots(struct request *request, struct generation *generation)
{
    request->job.n_slots = generation->n_sequences;
    request->job.slots = generation->slots;
}

/* Records the slot of each sequence, if the first job has received its slots. */
static void take_slots(struct request *request, struct generation *generation)
{
    if (!request->job.has_slots)
        return;
    for (int64_t i = 0; i < generation->n_sequences; i++)
        generation->sequences[i].slot = generation->slots[i];
    request->job.has_slots = false;
    request->job.n_slots = 0;
}

static void give_slot(struct request *request, struct generated *sequence)
{
    if (sequence->slot != 0)
        batcher_give_slots(request->service->options.batcher, request->batcher_index, 1, &sequence->slot);
    sequence->slot = 0;
}

/* Counts the end of the sequence in the metrics, if the sequence has new tokens. */
static void count_end(const struct request *request, const struct generated *sequence)
{
    if (sequence->count > sequence->n_prompt)
        metrics_generation_end(request->service->options.metrics, request->metrics, generation_end_name(sequence->end));
}

void generation_release(struct request *request, struct generation *generation)
{
    take_slots(request, generation);
    for (int64_t i = 0; i < generation->n_sequences; i++) {
        struct generated *sequence = &generation->sequences[i];
        give_slot(request, sequence);
        if (sequence->end == GENERATION_RUNS) {
            sequence->end = GENERATION_LEFT;
            count_end(request, sequence);
        }
    }
}

const char *generation_end_name(enum generation_end end)
{
    static const char *const names[] = {
        [GENERATION_LENGTH] = "length", [GENERATION_ENDED] = "eos_token", [GENERATION_STOPPED] = "stop_sequence",
        [GENERATION_DRAINED] = "abort", [GENERATION_LEFT] = "cancelled",
    };
    return names[end];
}

/* ---- A job ---- */

/* Chooses the next token of a sequence from its logits. */
static void choose(struct generated *sequence, const float *logits)
{
    const struct generation *generation = sequence->generation;
    const struct sampling_options *options = &generation->sampling;
    int64_t index = sequence->count - sequence->n_prompt, vocabulary = generation->vocabulary;
    sequence->token = sampling_choose(options, vocabulary, logits, sequence->ids, sequence->count,
                                      sampling_random(options->seed, sequence->number, index), sequence->scratch);
    if (generation->n_best > 0)
        sampling_best(vocabulary, logits, generation->n_best, sequence->best + index * generation->n_best);
}

/* Computes the log-probability of token number `index` of the prompt. */
static void score(struct generated *sequence, int64_t index, const float *logits)
{
    const struct generation *generation = sequence->generation;
    int64_t vocabulary = generation->vocabulary, n_best = generation->n_best;
    sequence->prompt_logprobs[index] = sampling_logprob(vocabulary, logits, sequence->ids[index]);
    if (n_best > 0)
        sampling_best(vocabulary, logits, n_best, sequence->prompt_best + index * n_best);
}

/* Reads the logits of requested row number `index` of the item. A thread of the engine calls this function as soon as
 * these logits are computed (engine_item.finish). */
static void read_logits(void *context, int64_t index)
{
    struct generated *sequence = context;
    const float *logits = sequence->logits + index * sequence->generation->vocabulary;
    int64_t next = sequence->first_wanted + index + 1;
    if (next < sequence->n_prompt)
        score(sequence, next, logits);
    else
        choose(sequence, logits);
    /* Relaxed, because the end of the batch synchronises the threads. */
    atomic_store_explicit(&sequence->was_read, true, memory_order_relaxed);
}

/* The ids of a sequence that the next job reads, from `begin` to before `end`. */
struct range {
    int64_t begin, end;
    bool in_parts; /* the slot keeps the results of the rows before `begin`, so the item contains only the rows from
                      `begin` on */
    /* If true, the logits of all rows from sequence->submitted_rows on are needed. Otherwise at most the logits of the
     * last row are needed. */
    bool scores;
};

/* Returns the range for the next job. If the sequence is longer than the model reads, the positions of all rows change
 * with each token. In this case the job contains the last rows of the sequence, as many as the model reads. Only one of
 * them is new. */
static struct range next_range(const struct model_info *info, const struct generation *generation,
                               const struct generated *sequence)
{
    const struct model_input *input = &info->inputs[generation->sequence_input];
    int64_t most = info->window > 0 ? info->window : INT64_MAX, part = sequence->count;
    bool scores = generation->scores_prompts && sequence->submitted_rows < sequence->n_prompt;
    int64_t least_end = scores ? sequence->submitted_rows + 1 : sequence->count;
    if (least_end > most)
        return (struct range){.begin = least_end - most, .end = least_end, .scores = scores};
    if (info->n_slots > 0)
        part = input->max_length < PART_ROWS ? input->max_length : PART_ROWS;
    if (scores) {
        int64_t rows = info->earlier_rows_stay ? sequence->most_wanted : 1;
        part = rows < part ? rows : part;
    }
    int64_t last = sequence->count < most ? sequence->count : most;
    return (struct range){
        .begin = info->n_slots > 0 ? sequence->submitted_rows : 0,
        .end = last - sequence->submitted_rows > part ? sequence->submitted_rows + part : last,
        .in_parts = info->n_slots > 0,
        .scores = scores,
    };
}

/* Requests the logits of the item's last `count` rows. */
static void want_rows(struct generated *sequence, const struct range *range, int64_t count, struct engine_item *item)
{
    for (int64_t i = 0; i < count; i++)
        sequence->rows[i] = (int32_t)(range->end - range->begin - count + i);
    sequence->first_wanted = range->end - count;
    item->output = sequence->logits;
    item->rows = sequence->rows;
    item->n_rows = count;
    item->finish = read_logits;
    item->finish_context = sequence;
}

/* Sets the item to the next rows of the sequence. On failure sets request->failure and returns -1. */
static int set_item(struct request *request, struct generation *generation, struct generated *sequence,
                    struct engine_item *item)
{
    struct range range = next_range(request->info, generation, sequence);
    *item = range.in_parts && range.begin > 0 ? (struct engine_item){0} : sequence->given;
    if (range.in_parts) {
        item->slot =
            /* In the first job, the batcher replaces this 1 by the number of the slot. */
            sequence->slot != 0 ? sequence->slot : 1;
        item->first = range.begin;
        /* Through engine_item.earlier, the engine reads the first `submitted_rows` ids. */
        sequence->given.inputs[generation->sequence_input].data = sequence->ids;
        item->earlier = &sequence->given;
    }
    item->inputs[generation->sequence_input].data = sequence->ids + range.begin;
    item->inputs[generation->sequence_input].length = range.end - range.begin;
    if (range.scores)
        want_rows(sequence, &range, range.end - sequence->submitted_rows, item);
    else if (range.end == sequence->count)
        want_rows(sequence, &range, 1, item);
    sequence->submitted_rows = range.end;
    struct error error;
    if (model_check(request_engine_model(request), item, &error) == 0)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "%s", error.message);
}

/* Sets the items for all sequences that have not ended. Returns their number. On failure sets request->failure and
 * returns -1. */
static int64_t set_items(struct request *request, struct generation *generation)
{
    int64_t count = 0;
    for (int64_t i = 0; i < generation->n_sequences; i++) {
        struct generated *sequence = &generation->sequences[i];
        if (sequence->end != GENERATION_RUNS)
            continue;
        if (set_item(request, generation, sequence, &request->job.items[count]) != 0)
            return -1;
        generation->running[count++] = sequence;
    }
    request->job.n_items = count;
    return count;
}

/* The number of tokens of the prompts that only later jobs contain. */
static int64_t later_tokens(const struct generation *generation)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < generation->n_sequences; i++)
        tokens += generation->sequences[i].n_prompt - generation->sequences[i].submitted_rows;
    return tokens;
}

int generation_start(struct request *request, struct generation *generation)
{
    generation->vocabulary = request->info->output_columns;
    request->job.kind = JOB_GENERATION;
    want_slots(request, generation);
    if (set_items(request, generation) < 0)
        return -1;
    request->job.later_tokens = later_tokens(generation);
    return 0;
}

static bool ends_sequence(const struct generation *generation, int32_t id)
{
    for (int64_t i = 0; i < generation->n_end_ids; i++)
        if (generation->end_ids[i] == id)
            return true;
    return false;
}

/* Records a new token in the metrics, with the time since the previous token. For the first token, records the time
 * since the request's first job was submitted. */
static void record_token(const struct request *request, struct generated *sequence)
{
    struct metrics *metrics = request->service->options.metrics;
    const struct job *job = &request->job;
    int64_t now = clock_ns();
    if (sequence->count - sequence->n_prompt == 1)
        metrics_first_token(metrics, request->metrics, sequence->n_prompt, job->started_ns - job->submitted_ns,
                            now - job->submitted_ns);
    else
        metrics_next_token(metrics, request->metrics, now - sequence->token_ns);
    sequence->token_ns = now;
}

/* Appends the chosen token to the sequence. */
static void append(struct request *request, struct generation *generation, struct generated *sequence)
{
    sequence->logprobs[sequence->count - sequence->n_prompt] = sequence->token.logprob;
    sequence->ids[sequence->count++] = sequence->token.id;
    request->job.deadline_ns = 0; /* the deadline applies only to the time until the first token */
    record_token(request, sequence);
    if (ends_sequence(generation, sequence->token.id))
        sequence->end = GENERATION_ENDED;
    else if (sequence->count - sequence->n_prompt == generation->max_new_tokens)
        sequence->end = GENERATION_LENGTH;
    if (generation->token && !generation->token(request, generation, sequence))
        sequence->end = GENERATION_STOPPED;
}

/* Whether the server drains, and its time limit for generations has passed. */
static bool drain_ends(const struct service *service)
{
    int64_t end_ns = atomic_load(&service->drain_end_ns);
    return end_ns != 0 && clock_ns() >= end_ns;
}

/* Reads the logits of the item if the engine has not done so, because a CUDA device does not call `finish`. */
static void read_rest(struct generated *sequence, const struct engine_item *item)
{
    bool was_read = atomic_load_explicit(&sequence->was_read, memory_order_relaxed);
    for (int64_t i = 0; !was_read && item->output && i < item->n_rows; i++)
        read_logits(sequence, i);
    atomic_store_explicit(&sequence->was_read, false, memory_order_relaxed);
}

bool generation_next(struct request *request, struct generation *generation)
{
    bool drained = drain_ends(request->service);
    take_slots(request, generation);
    for (int64_t i = 0; i < request->job.n_items; i++) {
        struct generated *sequence = generation->running[i];
        read_rest(sequence, &request->job.items[i]);
        if (request->job.items[i].output && sequence->submitted_rows == sequence->count)
            append(request, generation, sequence);
        if (drained && sequence->end == GENERATION_RUNS && sequence->count > sequence->n_prompt)
            sequence->end = GENERATION_DRAINED;
        if (sequence->end == GENERATION_RUNS)
            continue;
        give_slot(request, sequence);
        count_end(request, sequence);
    }
    return request->failure.kind == FAILURE_NONE && set_items(request, generation) > 0;
}
