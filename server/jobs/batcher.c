/* batcher: opening and closing, and the functions that submitters call. batcher_state.h describes the parts of the
 * batcher and their lock. There is one thread for each lane (lane_threads.h), and the deadline thread (deadlines.h). */
#include "server/jobs/batcher.h"

#include "server/common/clock.h"
#include "server/jobs/batcher_state.h"
#include "server/jobs/deadlines.h"
#include "server/jobs/lane_threads.h"
#include "server/jobs/lanes.h"
#include "server/jobs/slots.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_AFTER_MAX_S 3600
#define NANOSECONDS 1e9 /* number of nanoseconds in a second */
#define MILLISECOND_NS 1e6

/* ---- Opening and closing ---- */

static void batcher_free(struct batcher *batcher)
{
    for (int64_t i = 0; batcher->entries && i < batcher->n_models; i++)
        model_queue_close(&batcher->entries[i].waiting);
    free(batcher->models);
    free(batcher->entries);
    for (int i = 0; batcher->lanes && i < batcher->n_lanes; i++) {
        free(batcher->lanes[i].batch.items);
        free(batcher->lanes[i].batch.parts);
    }
    free(batcher->lanes);
    free(batcher);
}

static bool lanes_new(struct batcher *batcher)
{
    size_t n_items = (size_t)batcher->options.max_batch_requests;
    for (int64_t i = 0; i < batcher->n_models; i++) {
        const struct model_info *info = model_info(batcher->models[i]);
        int behind = info->first_lane + info->n_lanes;
        batcher->n_lanes = behind > batcher->n_lanes ? behind : batcher->n_lanes;
    }
    batcher->lanes = calloc((size_t)batcher->n_lanes, sizeof *batcher->lanes);
    for (int i = 0; batcher->lanes && i < batcher->n_lanes; i++) {
        struct lane *lane = &batcher->lanes[i];
        *lane = (struct lane){.batcher = batcher, .number = i};
        lane->batch.items = calloc(n_items, sizeof *lane->batch.items);
        lane->batch.parts = calloc(n_items, sizeof *lane->batch.parts);
        if (!lane->batch.items || !lane->batch.parts)
            return false;
    }
    return batcher->lanes != NULL;
}

/* Opens the queue of a model in a free entry. All lanes of the model are marked as cold: they have to warm up the
 * model. Returns -1 if memory is lacking. */
static int queue_open(struct batcher *batcher, int64_t index, struct model *model, int64_t metrics)
{
    const struct model_info *info = model_info(model);
    struct batcher_entry *entry = &batcher->entries[index];
    *entry = (struct batcher_entry){.metrics = metrics, .cold = UINT64_MAX >> (64 - info->n_lanes)};
    if (model_queue_open(&entry->waiting, info->is_causal ? batcher->options.max_generations : 0) != 0)
        return -1;
    batcher->models[index] = model;
    if (index >= batcher->n_models)
        batcher->n_models = index + 1;
    return 0;
}

static struct batcher *batcher_new(struct model **models, int64_t n_models, const struct batcher_options *options)
{
    struct batcher *batcher = calloc(1, sizeof *batcher);
    if (!batcher)
        return NULL;
    batcher->models = calloc(BATCHER_MAX_MODELS, sizeof *batcher->models);
    batcher->entries = calloc(BATCHER_MAX_MODELS, sizeof *batcher->entries);
    batcher->options = *options;
    bool opened = batcher->models && batcher->entries;
    for (int64_t i = 0; i < n_models && opened; i++)
        opened = queue_open(batcher, i, models[i], i) == 0;
    if (!opened || !lanes_new(batcher)) {
        batcher_free(batcher);
        return NULL;
    }
    batcher->alarm_ns = batcher->ask_ns = INT64_MAX;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&batcher->lock, NULL);
    for (int i = 0; i < batcher->n_lanes; i++)
        pthread_cond_init(&batcher->lanes[i].work, NULL);
    pthread_cond_init(&batcher->warmed, NULL);
    pthread_cond_init(&batcher->alarm, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return batcher;
}

static void batcher_destroy(struct batcher *batcher)
{
    for (int i = 0; i < batcher->n_lanes; i++)
        pthread_cond_destroy(&batcher->lanes[i].work);
    pthread_cond_destroy(&batcher->warmed);
    pthread_cond_destroy(&batcher->alarm);
    pthread_mutex_destroy(&batcher->lock);
    batcher_free(batcher);
}

int batcher_open(struct model **models, int64_t n_models, const struct batcher_options *options,
                 struct metrics *metrics, struct batcher **result, struct error *error)
{
    assert(n_models >= 1 && options->max_batch_tokens >= 1 && options->max_batch_requests >= 1);
    struct batcher *batcher = batcher_new(models, n_models, options);
    if (!batcher)
        return error_set(error, "out of memory for batches of %lld sequences (--max-batch-requests)",
                         (long long)options->max_batch_requests);
    batcher->metrics = metrics;
    if (deadlines_start(batcher, error) != 0) {
        batcher_destroy(batcher);
        return -1;
    }
    int status = lane_threads_start(batcher, error);
    pthread_mutex_lock(&batcher->lock);
    if (status == 0)
        status = lane_threads_wait(batcher, error);
    pthread_mutex_unlock(&batcher->lock);
    if (status != 0) {
        batcher_close(batcher);
        return -1;
    }
    *result = batcher;
    return 0;
}

bool batcher_progresses(struct batcher *batcher)
{
    bool progresses = true;
    pthread_mutex_lock(&batcher->lock);
    for (int i = 0; i < batcher->n_lanes; i++) {
        struct lane *lane = &batcher->lanes[i];
        bool rests = lane->asleep && !lane_has_work(lane, JOB_GENERATION) && !lane_has_work(lane, JOB_OTHER);
        progresses = progresses && (rests || lane->rounds != lane->seen_rounds);
        lane->seen_rounds = lane->rounds;
    }
    pthread_mutex_unlock(&batcher->lock);
    return progresses;
}

void batcher_set_limits(struct batcher *batcher, int64_t max_queue_tokens, int64_t max_queue_requests,
                        int64_t max_queue_ms)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->options.max_queue_tokens = max_queue_tokens;
    batcher->options.max_queue_requests = max_queue_requests;
    batcher->options.max_queue_ms = max_queue_ms;
    pthread_mutex_unlock(&batcher->lock);
}

/* ---- Models that come and go ---- */

/* Wakes all lanes, so that they warm up a new model. The lock is held. */
static void wake_all(struct batcher *batcher)
{
    for (int i = 0; i < batcher->n_lanes; i++) {
        batcher->lanes[i].asleep = false;
        pthread_cond_signal(&batcher->lanes[i].work);
    }
}

/* Removes a model that has no jobs, and whose slots are all free. The lock is held. */
static void queue_remove(struct batcher *batcher, int64_t index)
{
    model_queue_close(&batcher->entries[index].waiting);
    batcher->models[index] = NULL;
}

int batcher_add(struct batcher *batcher, struct model *model, int64_t metrics, int64_t *index, struct error *error)
{
    const struct model_info *info = model_info(model);
    if (info->first_lane + info->n_lanes > batcher->n_lanes)
        return error_set(error, "the model needs device %s, on which no model ran at the start; restart the daemon",
                         info->device);
    pthread_mutex_lock(&batcher->lock);
    int64_t entry = 0;
    while (entry < batcher->n_models && batcher->models[entry])
        entry++;
    int status = -1;
    batcher->warm_failed = false;
    if (entry == BATCHER_MAX_MODELS) {
        error_set(error, "expected at most %d models in memory; wait until requests no longer use old ones",
                  BATCHER_MAX_MODELS);
    } else if (queue_open(batcher, entry, model, metrics) != 0) {
        error_set(error, "out of memory");
    } else {
        wake_all(batcher);
        status = lane_threads_wait(batcher, error);
        if (status != 0)
            queue_remove(batcher, entry);
    }
    pthread_mutex_unlock(&batcher->lock);
    *index = entry;
    return status;
}

void batcher_remove(struct batcher *batcher, int64_t index)
{
    pthread_mutex_lock(&batcher->lock);
    queue_remove(batcher, index);
    pthread_mutex_unlock(&batcher->lock);
}

void batcher_close(struct batcher *batcher)
{
    if (!batcher)
        return;
    lane_threads_stop(batcher);
    deadlines_stop(batcher);
    batcher_destroy(batcher);
}

void batcher_wake(struct batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    lanes_look_at_devices(batcher);
    lanes_wake(batcher);
    pthread_mutex_unlock(&batcher->lock);
}

/* ---- For the submitters ---- */

/* Whether the models have a lane in common. */
static bool share_a_lane(const struct model_info *a, const struct model_info *b)
{
    return a->first_lane < b->first_lane + b->n_lanes && b->first_lane < a->first_lane + a->n_lanes;
}

/* The estimated time in nanoseconds until the lanes have computed waiting jobs of one kind with these tokens. 0 before
 * the first batch of this kind. The estimate assumes that all models with waiting jobs on these lanes share the lanes'
 * time equally. The lock is held. */
static double wait_ns(const struct batcher *batcher, int64_t model_index, enum job_kind kind, int64_t tokens)
{
    const struct batcher_entry *entry = &batcher->entries[model_index];
    const struct model_info *info = model_info(batcher->models[model_index]);
    int n_ready = __builtin_popcountll(model_ready_lanes(batcher->models[model_index])); /* at least 1 */
    int64_t sharing = 0;
    for (int64_t i = 0; i < batcher->n_models; i++)
        sharing += has_work(&batcher->entries[i]) && share_a_lane(info, model_info(batcher->models[i]));
    return pace_ns(&entry->token_paces[kind], (double)tokens) * (double)(sharing > 0 ? sharing : 1) / n_ready;
}

/* Whether a job behind `tokens` waiting tokens probably starts within max_queue_ms. True for a job that generates,
 * because its start depends on the slots and is not estimated. The lock is held. */
static bool starts_in_time(const struct batcher *batcher, const struct job *job, int64_t tokens)
{
    const struct batcher_options *options = &batcher->options;
    if (options->max_queue_ms == 0 || job->kind != JOB_OTHER)
        return true;
    double ns = wait_ns(batcher, job->model_index, JOB_OTHER, tokens);
    if (batcher->entries[job->model_index].waiting.lists[JOB_GENERATION].first)
        ns /= lane_time_fraction(JOB_OTHER, options->generation_percent);
    return ns <= (double)options->max_queue_ms * MILLISECOND_NS;
}

/* Whether the queue accepts the job. An empty queue accepts a job of any size, because a job larger than a limit would
 * otherwise be refused at every attempt. A job that continues a request is always accepted, because the request was
 * admitted with its first job. The lock is held. */
static bool fits_queue(const struct batcher *batcher, const struct job *job)
{
    if (job->continues)
        return true;
    const struct batcher_options *options = &batcher->options;
    int64_t items, tokens;
    model_queue_load(&batcher->entries[job->model_index].waiting, job->kind, &items, &tokens);
    return items == 0 || (job->n_items <= options->max_queue_requests - items &&
                          job->waiting_tokens + job->later_tokens <= options->max_queue_tokens - tokens &&
                          starts_in_time(batcher, job, tokens));
}

/* Initialises the members of a job that the batcher sets. */
static void job_prepare(struct job *job, const struct model *model, int64_t model_index)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < job->n_items; i++)
        tokens += model_item_tokens(model, &job->items[i]);
    job->status = JOB_OK;
    job->error.message[0] = '\0';
    if (!job->continues) {
        job->started_ns = job->inference_ns = job->batches = job->batch_items = job->tokens = 0;
        job->submitted_ns = clock_ns();
        job->home = NO_HOME;
    }
    job->finished_ns = 0;
    job->model_index = model_index;
    job->next_item = job->running = 0;
    job->tokens += tokens;
    job->waiting_tokens = tokens;
}

enum submit_status batcher_submit(struct batcher *batcher, int64_t model_index, struct job *job)
{
    assert(model_index >= 0 && model_index < BATCHER_MAX_MODELS && job->n_items >= 1 && job->done);
    struct batcher_entry *entry = &batcher->entries[model_index];
    job_prepare(job, batcher->models[model_index], model_index);

    enum submit_status status = SUBMIT_OK;
    pthread_mutex_lock(&batcher->lock);
    assert(!batcher->closing || job->continues);
    if (!fits_queue(batcher, job)) {
        status = SUBMIT_FULL;
    } else {
        bool ready = model_queue_add(&entry->waiting, job);
        deadlines_watch(batcher, job, !ready);
        if (ready) {
            entry->ready_lanes = model_ready_lanes(batcher->models[model_index]);
            lanes_wake_one(batcher, model_index);
        }
    }
    pthread_mutex_unlock(&batcher->lock);
    return status;
}

void batcher_give_slots(struct batcher *batcher, int64_t model_index, int64_t count, const int64_t *slots)
{
    pthread_mutex_lock(&batcher->lock);
    slots_give(batcher->entries[model_index].waiting.slots, count, slots);
    lanes_assign_slots(batcher, model_index);
    pthread_mutex_unlock(&batcher->lock);
}

struct batcher_depth batcher_depth(struct batcher *batcher, int64_t model_index)
{
    struct batcher_depth depth = {0};
    pthread_mutex_lock(&batcher->lock);
    const struct model_queue *queue = &batcher->entries[model_index].waiting;
    model_queue_depth(queue, &depth.requests, &depth.tokens);
    if (queue->slots) {
        depth.slots = slots_count(queue->slots);
        depth.slots_used = slots_used(queue->slots);
    }
    depth.waiting_for_slots = queue->lists[MODEL_QUEUE_WAITING_FOR_SLOTS].waiting_requests;
    pthread_mutex_unlock(&batcher->lock);
    return depth;
}

int64_t batcher_retry_after_s(struct batcher *batcher, int64_t model_index)
{
    pthread_mutex_lock(&batcher->lock);
    int64_t items, all_tokens, tokens;
    model_queue_depth(&batcher->entries[model_index].waiting, &items, &all_tokens);
    tokens = batcher->entries[model_index].waiting.lists[JOB_OTHER].waiting_tokens;
    double ns = wait_ns(batcher, model_index, JOB_OTHER, tokens) +
                wait_ns(batcher, model_index, JOB_GENERATION, all_tokens - tokens);
    double seconds = ceil(ns / NANOSECONDS);
    pthread_mutex_unlock(&batcher->lock);
    return seconds < 1 ? 1 : seconds > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : (int64_t)seconds;
}
