#include "server/jobs/batch.h"

#include "server/common/clock.h"
#include "server/common/metrics.h"
#include "server/jobs/lanes.h"

#include <math.h>
#include <string.h>

#define MILLISECOND_NS 1e6
/* If this number of jobs did not fit completely, the batch does not search the rest of the queue. */
#define LOOK_AHEAD 32

/* ---- Forming a batch ---- */

static double sum_of(const double *values)
{
    return values[JOB_OTHER] + values[JOB_GENERATION];
}

/* The pace (pace.h) of a kind of work. Before the first batch of this kind, the function returns the pace of the other
 * kind. */
static const struct pace *pace_of(const struct batcher_entry *entry, enum job_kind kind)
{
    return &entry->paces[entry->paces[kind].work > 0 ? (int)kind : JOB_KINDS - 1 - (int)kind];
}

/* The estimated time of an item in nanoseconds. Before the first batch of the model, the function returns the FLOPs. */
static double item_cost(const struct batcher_entry *entry, enum job_kind kind, double flops)
{
    const struct pace *pace = pace_of(entry, kind);
    return pace->work > 0 ? pace_ns(pace, flops) : flops;
}

/* Whether one more item, with these tokens and this cost, fits in the batch. The first item always fits. */
static bool batch_has_room(const struct lane *lane, const struct batcher_entry *entry, int64_t tokens, double cost)
{
    const struct batcher_options *options = &lane->batcher->options;
    const struct job_batch *batch = &lane->batch;
    if (batch->n_items == 0)
        return true;
    if (batch->n_items == options->max_batch_requests || batch->tokens + tokens > options->max_batch_tokens)
        return false;
    return options->max_batch_ms == 0 || pace_of(entry, JOB_OTHER)->work == 0 ||
           sum_of(batch->cost) + cost <= (double)options->max_batch_ms * MILLISECOND_NS;
}

/* Adds as many items of the job to the batch as fit. The cost of all items of the job's kind in the batch may be at
 * most `allowance`. */
static void batch_take(struct lane *lane, struct job *job, double allowance)
{
    struct job_batch *batch = &lane->batch;
    const struct batcher_entry *entry = &lane->batcher->entries[job->model_index];
    struct part part = {.job = job, .first_item = batch->n_items, .job_item = job->next_item};
    while (part.job_item + part.n_items < job->n_items) {
        const struct engine_item *item = &job->items[part.job_item + part.n_items];
        int64_t tokens = model_item_tokens(batch->model, item);
        double flops = model_item_flops(batch->model, item), cost = item_cost(entry, job->kind, flops);
        if (!batch_has_room(lane, entry, tokens, cost) || batch->cost[job->kind] + cost > allowance)
            break;
        batch->items[batch->n_items++] = *item;
        batch->tokens += tokens;
        batch->kind_tokens[job->kind] += tokens;
        batch->flops[job->kind] += flops;
        batch->cost[job->kind] += cost;
        part.n_items++;
        part.tokens += tokens;
        part.flops += flops;
        part.cost += cost;
    }
    if (part.n_items == 0)
        return;
    const struct model_info *info = model_info(batch->model);
    /* Without slots, no device keeps states of the sequences between batches. */
    if (job->kind == JOB_GENERATION && info->n_slots > 0)
        job->home = lane_of_model(lane, batch->model) % info->n_devices;
    job_queue_start(waiting_list(lane->batcher, job), job, part.n_items, part.tokens);
    batch->parts[batch->n_parts++] = part;
}

/* Adds items of one kind to the batch, until the batch is full, or until `most_passed` jobs did not fit completely.
 * Jobs that have expired leave the queue. */
static void batch_fill(struct lane *lane, int64_t model_index, enum job_kind kind, double allowance, int most_passed,
                       struct job_list *ended)
{
    struct batcher *batcher = lane->batcher;
    struct batcher_entry *entry = &batcher->entries[model_index];
    int64_t now = clock_ns();
    int passed = 0;
    for (struct job *job = entry->waiting.lists[kind].first, *next; job; job = next) {
        if (!batch_has_room(lane, entry, 1, 0) || passed == most_passed)
            break;
        next = job->next;
        if (job->deadline_ns && now >= job->deadline_ns) {
            job_expire(waiting_list(batcher, job), job, ended);
            continue;
        }
        if (!lane_takes(lane, job))
            continue;
        batch_take(lane, job, allowance);
        passed += job_waits(job);
    }
}

/* Fills the batch from the queues of one model. Items of the leading kind are added first. The batch's first job has
 * had its turn, so smaller jobs pass its remaining items in the queue. Items of the other kind are added after that, in
 * the order of their queue, until one does not fit. That item is not passed over, because it would otherwise wait for
 * as long as small items arrive. */
static void batch_fill_both(struct lane *lane, int64_t model_index, enum job_kind leader, struct job_list *ended)
{
    struct batcher *batcher = lane->batcher;
    struct job_batch *batch = &lane->batch;
    batch->model = batcher->models[model_index];
    batch_fill(lane, model_index, leader, INFINITY, LOOK_AHEAD, ended);
    batch->first = batch->n_parts > 0 ? batch->parts[0].job : NULL;
    if (batch->first)
        job_queue_let_pass(waiting_list(batcher, batch->first), batch->first);
    double allowance = lane_time_allowance(leader, batch->cost[leader], batcher->options.generation_percent);
    batch_fill(lane, model_index, leader == JOB_OTHER ? JOB_GENERATION : JOB_OTHER, allowance, 1, ended);
}

bool batch_form(struct lane *lane, struct job_list *ended)
{
    struct batcher *batcher = lane->batcher;
    struct job_batch *batch = &lane->batch;
    batch->n_items = batch->n_parts = batch->tokens = 0;
    for (int kind = 0; kind < JOB_KINDS; kind++) {
        batch->flops[kind] = batch->cost[kind] = 0;
        batch->kind_tokens[kind] = 0;
    }
    bool generation_waits = lane_has_work(lane, JOB_GENERATION), others_wait = lane_has_work(lane, JOB_OTHER);
    if (!generation_waits && !others_wait)
        return false;
    enum job_kind leader = lane_time_turn(&lane->time, generation_waits, others_wait);
    int64_t model_index = lane->turns[leader];
    while (!lane_has_work_of(lane, model_index, leader))
        model_index = (model_index + 1) % batcher->n_models;
    lane->turns[leader] = (model_index + 1) % batcher->n_models;
    batch_fill_both(lane, model_index, leader, ended);
    return true;
}

/* Removes a part from a batch that does not run yet, and cancels the job of this part. The lock is held. */
static void batch_drop(struct lane *lane, int64_t index, struct job_list *ended)
{
    struct job_batch *batch = &lane->batch;
    struct part part = batch->parts[index];
    struct engine_item *items = &batch->items[part.first_item];
    memmove(items, items + part.n_items, sizeof *items * (size_t)(batch->n_items - part.first_item - part.n_items));
    memmove(&batch->parts[index], &batch->parts[index + 1], sizeof part * (size_t)(batch->n_parts - index - 1));
    batch->n_items -= part.n_items;
    batch->n_parts--;
    batch->tokens -= part.tokens;
    batch->kind_tokens[part.job->kind] -= part.tokens;
    batch->flops[part.job->kind] -= part.flops;
    batch->cost[part.job->kind] -= part.cost;
    for (int64_t i = index; i < batch->n_parts; i++)
        batch->parts[i].first_item -= part.n_items;
    if (part.job == batch->first)
        batch->first = NULL;
    part.job->running -= part.n_items;
    job_cancel(waiting_list(lane->batcher, part.job), part.job);
    if (part.job->running == 0)
        job_end(part.job, ended);
}

void batch_drop_ended(struct lane *lane)
{
    struct batcher *batcher = lane->batcher;
    struct job_batch *batch = &lane->batch;
    struct job_list ended = {NULL, NULL};
    for (int64_t i = 0; i < batch->n_parts; i++) {
        struct job *job = batch->parts[i].job;
        batch->parts[i].wanted = !job->wanted || job->wanted(job);
    }
    pthread_mutex_lock(&batcher->lock);
    for (int64_t i = batch->n_parts - 1; i >= 0; i--)
        if (!batch->parts[i].wanted || batch->parts[i].job->status != JOB_OK)
            batch_drop(lane, i, &ended);
    pthread_mutex_unlock(&batcher->lock);
    job_list_finish(&ended);
}

/* ---- Running a batch ---- */

static void batch_look_at_results(struct batcher *batcher, struct job_batch *batch)
{
    for (int64_t i = 0; i < batch->n_parts; i++) {
        struct part *part = &batch->parts[i];
        for (int64_t item = 0; item < part->n_items && !part->flawed; item++) {
            part->flawed = !item_is_finite(batch->model, &batch->items[part->first_item + item], &part->flaw);
            part->flawed_item = part->job_item + item;
        }
        if (part->flawed)
            log_write_limited(&batcher->not_finite, LOG_LEVEL_WARNING, "a result is not finite", "architecture",
                              model_info(batch->model)->architecture, "output", part->flaw.output, NULL);
    }
}

static void part_fail(struct part *part, const struct error *failure)
{
    struct job *job = part->job;
    if (job->status != JOB_OK || (!failure && !part->flawed))
        return;
    if (failure) {
        job->status = JOB_FAILED;
        job->error = *failure;
        return;
    }
    job->status = JOB_NOT_FINITE;
    error_set(&job->error,
              part->flaw.is_channel ? "image %lld: channel %lld of %s contains NaN or an infinity"
                                    : "sequence %lld: row %lld of %s contains NaN or an infinity",
              (long long)part->flawed_item, (long long)part->flaw.row, part->flaw.output);
}

/* Charges each kind of work with its part of the batch's time (lane_time.h). The time is divided in the ratio of the
 * estimated costs. The lock is held. */
static void batch_pay(struct lane *lane, int64_t inference_ns, bool failed)
{
    struct batcher *batcher = lane->batcher;
    struct job_batch *batch = &lane->batch;
    struct batcher_entry *own = &batcher->entries[batch->parts[0].job->model_index];
    double cost = sum_of(batch->cost);
    for (int kind = 0; kind < JOB_KINDS; kind++) {
        if (!(batch->cost[kind] > 0))
            continue;
        double ns = (double)inference_ns * batch->cost[kind] / cost;
        lane_time_pay(&lane->time, (enum job_kind)kind, ns, batcher->options.generation_percent);
        if (failed)
            continue;
        pace_add(&own->paces[kind], batch->flops[kind], (int64_t)ns);
        pace_add(&own->token_paces[kind], (double)batch->kind_tokens[kind], (int64_t)ns);
    }
}

/* Ends the jobs that are complete. `failure` is NULL if the batch ran without an error. The batch's first job lets
 * smaller jobs pass again, because jobs may have arrived during the run. The lock is held. */
static void batch_end(struct lane *lane, int64_t inference_ns, const struct error *failure, struct job_list *ended)
{
    struct batcher *batcher = lane->batcher;
    struct job_batch *batch = &lane->batch;
    batch_pay(lane, inference_ns, failure != NULL);
    int64_t now = clock_ns();
    for (int64_t i = 0; i < batch->n_parts; i++) {
        struct job *job = batch->parts[i].job;
        job->inference_ns += inference_ns;
        job->batches++;
        job->batch_items = job->batch_items > batch->n_items ? job->batch_items : batch->n_items;
        part_fail(&batch->parts[i], failure);
        if (job->status == JOB_OK && job->deadline_ns && now >= job->deadline_ns)
            job_expire(waiting_list(batcher, job), job, ended);
        job->running -= batch->parts[i].n_items;
        if (job->status != JOB_OK)
            job_queue_leave(waiting_list(batcher, job), job);
        if (job == batch->first)
            job_queue_let_pass(waiting_list(batcher, job), job);
        if (!job_waits(job) && job->running == 0)
            job_end(job, ended);
    }
}

void batch_run(struct lane *lane)
{
    struct batcher *batcher = lane->batcher;
    struct job_batch *batch = &lane->batch;
    struct job_list ended = {NULL, NULL};
    struct error error = {""};
    int64_t start = clock_ns();
    for (int64_t i = 0; i < batch->n_parts; i++)
        if (batch->parts[i].job_item == 0 && batch->parts[i].job->started_ns == 0)
            batch->parts[i].job->started_ns = start;
    int number = lane_of_model(lane, batch->model);
    bool failed = model_run(batch->model, number, batch->items, batch->n_items, &error) != 0;
    int64_t inference_ns = clock_ns() - start;
    if (failed) {
        log_write_limited(&batcher->failures, LOG_LEVEL_ERROR, "a batch failed", "architecture",
                          model_info(batch->model)->architecture, "reason", error.message, NULL);
    } else {
        batch_look_at_results(batcher, batch);
        if (batcher->metrics)
            metrics_batch(batcher->metrics, batcher->entries[batch->parts[0].job->model_index].metrics, batch->n_items,
                          batch->tokens, inference_ns);
    }
    pthread_mutex_lock(&batcher->lock);
    batch_end(lane, inference_ns, failed ? &error : NULL, &ended);
    pthread_mutex_unlock(&batcher->lock);
    job_list_finish(&ended);
}
