/* Threads: one for each lane, and the deadline thread. A lane's thread repeats these steps:
 *   1. batch_form chooses a kind of work (share.h), and a model with waiting jobs of this kind. It moves items from
 *      the model's queue into the lane's batch.
 *   2. batch_drop_ended removes jobs from the batch: those whose client is gone, and those that another thread has
 *      ended since step 1, because they expired or failed.
 *   3. batch_run runs the batch, checks the results and ends the jobs that are complete.
 * The deadline thread looks at the jobs in the queues. When a job's deadline passes, this thread removes the job's
 * waiting items. If none of its items is running, it also ends the job. So the answers to expired jobs do not wait for
 * a running batch. Once a second, the deadline thread asks for each job that waits for slots
 * whether its client is still there (job.wanted).
 *
 * Lock: one lock guards the queues, the counters, and the private fields of each job from batcher_submit to its end. It
 * is not held while a batch runs, nor during calls of `wanted`, `done` and the log. A lane's batch belongs to its
 * thread and needs no lock.
 *
 * Turns: a lane may serve several models. After a batch of model i, it first searches the queue of model i + 1. Each
 * kind of work has its own turns.
 *
 * Sleep: a lane sleeps when no queue holds a job that it can run. Each lane runs the batches of a model on one device.
 * The lane can run the model if this device works (model_ready_lanes). batcher_submit wakes one sleeping lane that can
 * run the new job. A lane that leaves a job in a queue does the same. When a device works again, batcher_wake wakes
 * lanes that can now run a waiting job. A job is not forgotten if all lanes that can run it are awake, because each
 * lane searches the queues again when its batch ends. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server/jobs/batcher.h"

#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/common/metrics.h"
#include "server/common/thread.h"
#include "server/jobs/finite.h"
#include "server/jobs/model_queue.h"
#include "server/jobs/pace.h"
#include "server/jobs/share.h"
#include "server/jobs/slots.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS INT64_C(1000000000)
#define MILLISECOND_NS 1e6

/* After a search of all queues for expired jobs, the next alarm is at least this time later. Therefore many deadlines
 * that follow one another closely cause only a few searches. A new job may still set an earlier alarm. */
#define ALARM_STEP_NS INT64_C(1000000)

/* Jobs may wait for slots for a long time. This is the time between two checks of whether their clients have left. */
#define ASK_STEP_NS SECOND_NS

#define RETRY_AFTER_MAX_S 3600
#define LOOK_AHEAD 32 /* most jobs of a queue that a batch passes over because they do not fit */

struct queue {
    struct model_queue waiting; /* the jobs of one model */
    uint64_t ready_lanes;       /* copy of model_ready_lanes. Bit i is set if the device of the model's lane i works */
    struct pace paces[JOB_KINDS]; /* by kind. Their `work` is in FLOPs. A step of generation reads all weights for a few
                                     rows, so a FLOP of generation takes longer than a FLOP of other items */
    double ns_per_token;          /* moving average over the model's batches. 0 if none has run */
};

/* The items of one job in a batch. Items [first_item, first_item + n_items) of the batch are items [job_item, job_item
 * + n_items) of the job. */
struct part {
    struct job *job;
    int64_t first_item, n_items, job_item;
    int64_t tokens;
    double flops, cost;
    bool wanted; /* the result of the job's `wanted` before the run */

    /* Set after the run. */
    bool flawed;         /* a result is not finite */
    int64_t flawed_item; /* index of the item in the job */
    struct flaw flaw;
};

struct job_batch {
    struct model *model;
    struct engine_item *items; /* (max_batch_requests) */
    struct part *parts;        /* (max_batch_requests) */
    int64_t n_items, n_parts, tokens;
    double flops[JOB_KINDS];
    double cost[JOB_KINDS]; /* by kind: the estimated time, as item_cost returns it */
    struct job *first;      /* the job that had its turn with this batch. NULL if it was dropped */
};

/* A lane of the engine, with the thread that runs its batches. */
struct lane {
    struct batcher *batcher;
    int number;
    pthread_t thread;
    struct job_batch batch;

    enum { LANE_COLD, LANE_WARM, LANE_FAILED } state; /* guarded by the batcher's lock */
    struct error error;                               /* set in the state LANE_FAILED */

    pthread_cond_t work; /* signalled when `asleep` becomes false */
    bool asleep;         /* guarded by the batcher's lock */
    int64_t rounds;      /* guarded by the batcher's lock: how often the lane has looked for work */
    int64_t seen_rounds; /* guarded by the batcher's lock: `rounds` at the last call of batcher_progresses */

    /* Only the lane's thread uses the members below. */
    int64_t turns[JOB_KINDS]; /* by kind: the model whose queue the lane searches first */
    struct lane_share share;
};

struct batcher {
    struct batcher_options options;
    struct model **models;
    int64_t n_models;
    struct metrics *metrics;
    struct lane *lanes; /* (n_lanes) */
    int n_lanes, n_started;
    pthread_t deadline_thread;
    struct log_limit not_finite, failures; /* limits of log lines about batches */

    pthread_mutex_t lock;  /* guards the members below */
    pthread_cond_t warmed; /* signalled when a lane leaves the state LANE_COLD */
    pthread_cond_t alarm;  /* the deadline thread waits for it, with CLOCK_MONOTONIC. Signalled when alarm_ns or
                              `stopping` changes */
    struct queue *queues;  /* (n_models) */
    struct job_list ended; /* the deadline thread will call their `done` */
    int64_t alarm_ns; /* when to search the queues next for expired jobs. The search may begin ALARM_STEP_NS too late */
    int64_t ask_ns;   /* when to call `wanted` next for jobs that wait for slots. INT64_MAX if no job waits for slots */
    bool draining;    /* new jobs are refused */
    bool closing;     /* lanes end when no jobs wait */
    bool stopping;    /* the deadline thread must end */
};

static struct job_queue *queue_of(struct batcher *batcher, const struct job *job)
{
    return model_queue_list(&batcher->queues[job->model_index].waiting, job);
}

/* Whether a waiting job has its slots, or needs none, so that a lane could run it. */
static bool has_work(const struct queue *queue)
{
    return queue->waiting.lists[JOB_OTHER].first || queue->waiting.lists[JOB_GENERATION].first;
}

/* ---- Lanes. The lock is held ---- */

/* Takes a snapshot of the states of all devices. Forming a batch and waking lanes use the same snapshot. So each job
 * that the lane leaves in a queue wakes a lane that, by this snapshot, can run it. No job is left without a lane. */
static void look_at_devices(struct batcher *batcher)
{
    for (int64_t i = 0; i < batcher->n_models; i++)
        batcher->queues[i].ready_lanes = model_ready_lanes(batcher->models[i]);
}

/* The number of the lane among the lanes of the model. -1 if the lane does not serve the model. */
static int lane_of_model(const struct lane *lane, const struct model *model)
{
    const struct model_info *info = model_info(model);
    int number = lane->number - info->first_lane;
    return number >= 0 && number < info->n_lanes ? number : -1;
}

/* Whether the lane serves the model and its device works. While the batcher closes, the device need not work: the
 * engine then runs the batch on the CPU, and the model's other lanes may have ended already. */
static bool lane_runs(const struct lane *lane, int64_t model_index)
{
    const struct batcher *batcher = lane->batcher;
    int number = lane_of_model(lane, batcher->models[model_index]);
    return number >= 0 && (batcher->closing || batcher->queues[model_index].ready_lanes >> number & 1);
}

/* Wakes the first sleeping lane that can run the model. */
static void wake_lane(struct batcher *batcher, int64_t model_index)
{
    for (int i = 0; i < batcher->n_lanes; i++) {
        struct lane *lane = &batcher->lanes[i];
        if (!lane->asleep || !lane_runs(lane, model_index))
            continue;
        lane->asleep = false;
        pthread_cond_signal(&lane->work);
        return;
    }
}

/* Wakes a lane for each model with waiting jobs. */
static void wake_lanes(struct batcher *batcher)
{
    for (int64_t i = 0; batcher->n_lanes > 1 && i < batcher->n_models; i++)
        if (has_work(&batcher->queues[i]))
            wake_lane(batcher, i);
}

static void lane_sleep(struct lane *lane)
{
    lane->asleep = true;
    while (lane->asleep)
        pthread_cond_wait(&lane->work, &lane->batcher->lock);
}

/* ---- Forming a batch ---- */

static double sum_of(const double *values)
{
    return values[JOB_OTHER] + values[JOB_GENERATION];
}

/* The pace of a kind of work. Until a batch of this kind has run, the function returns the pace of the other kind. */
static const struct pace *pace_of(const struct queue *queue, enum job_kind kind)
{
    return &queue->paces[queue->paces[kind].work > 0 ? (int)kind : JOB_KINDS - 1 - (int)kind];
}

/* The estimated time of an item in nanoseconds. Until a batch of the model has run, the function returns the FLOPs. */
static double item_cost(const struct queue *queue, enum job_kind kind, double flops)
{
    const struct pace *pace = pace_of(queue, kind);
    return pace->work > 0 ? pace_ns(pace, flops) : flops;
}

/* Whether one more item, with these tokens and this cost, fits in the batch. The first item always fits. */
static bool batch_has_room(const struct lane *lane, const struct queue *queue, int64_t tokens, double cost)
{
    const struct batcher_options *options = &lane->batcher->options;
    const struct job_batch *batch = &lane->batch;
    if (batch->n_items == 0)
        return true;
    if (batch->n_items == options->max_batch_requests || batch->tokens + tokens > options->max_batch_tokens)
        return false;
    return options->max_batch_ms == 0 || pace_of(queue, JOB_OTHER)->work == 0 ||
           sum_of(batch->cost) + cost <= (double)options->max_batch_ms * MILLISECOND_NS;
}

/* Adds as many items of the job to the batch as fit. The items of this kind in the batch may cost at most
 * `allowance`. */
static void batch_take(struct lane *lane, struct job *job, double allowance)
{
    struct job_batch *batch = &lane->batch;
    const struct queue *queue = &lane->batcher->queues[job->model_index];
    struct part part = {.job = job, .first_item = batch->n_items, .job_item = job->next_item};
    while (part.job_item + part.n_items < job->n_items) {
        const struct engine_item *item = &job->items[part.job_item + part.n_items];
        int64_t tokens = model_item_tokens(batch->model, item);
        double flops = model_item_flops(batch->model, item), cost = item_cost(queue, job->kind, flops);
        if (!batch_has_room(lane, queue, tokens, cost) || batch->cost[job->kind] + cost > allowance)
            break;
        batch->items[batch->n_items++] = *item;
        batch->tokens += tokens;
        batch->flops[job->kind] += flops;
        batch->cost[job->kind] += cost;
        part.n_items++;
        part.tokens += tokens;
        part.flops += flops;
        part.cost += cost;
    }
    if (part.n_items == 0)
        return;
    job_queue_start(queue_of(lane->batcher, job), job, part.n_items, part.tokens);
    batch->parts[batch->n_parts++] = part;
}

/* Adds items of one kind to the batch, until the batch is full, or until `most_passed` jobs did not fit completely.
 * Expired jobs leave the queue. */
static void batch_fill(struct lane *lane, int64_t model_index, enum job_kind kind, double allowance, int most_passed,
                       struct job_list *ended)
{
    struct batcher *batcher = lane->batcher;
    struct queue *queue = &batcher->queues[model_index];
    int64_t now = clock_ns();
    int passed = 0;
    for (struct job *job = queue->waiting.lists[kind].first, *next; job; job = next) {
        if (!batch_has_room(lane, queue, 1, 0) || passed == most_passed)
            break;
        next = job->next;
        if (job->deadline_ns && now >= job->deadline_ns) {
            job_expire(queue_of(batcher, job), job, ended);
            continue;
        }
        batch_take(lane, job, allowance);
        passed += job_waits(job);
    }
}

/* Fills the batch from the queue of one model. First come the items of the leading kind. The batch's first job has had
 * its turn, so its remaining items go to the end of the queue. Then come items of the other kind, in the order of the
 * queue, until one does not fit. A large item is not passed over, because it would otherwise wait for as long as small
 * items arrive. */
static void batch_fill_both(struct lane *lane, int64_t model_index, enum job_kind leader, struct job_list *ended)
{
    struct batcher *batcher = lane->batcher;
    struct job_batch *batch = &lane->batch;
    batch->model = batcher->models[model_index];
    batch_fill(lane, model_index, leader, INFINITY, LOOK_AHEAD, ended);
    batch->first = batch->n_parts > 0 ? batch->parts[0].job : NULL;
    if (batch->first)
        job_queue_go_behind(queue_of(batcher, batch->first), batch->first);
    double allowance = share_allowance(leader, batch->cost[leader], batcher->options.generation_percent);
    batch_fill(lane, model_index, leader == JOB_OTHER ? JOB_GENERATION : JOB_OTHER, allowance, 1, ended);
}

/* Whether there is a waiting job of this kind that the lane can run. */
static bool lane_has_work(const struct lane *lane, enum job_kind kind)
{
    const struct batcher *batcher = lane->batcher;
    for (int64_t i = 0; i < batcher->n_models; i++)
        if (batcher->queues[i].waiting.lists[kind].first && lane_runs(lane, i))
            return true;
    return false;
}

/* The lock is held. Returns false if no queue holds a job that the lane can run. */
static bool batch_form(struct lane *lane, struct job_list *ended)
{
    struct batcher *batcher = lane->batcher;
    struct job_batch *batch = &lane->batch;
    batch->n_items = batch->n_parts = batch->tokens = 0;
    for (int kind = 0; kind < JOB_KINDS; kind++)
        batch->flops[kind] = batch->cost[kind] = 0;
    bool generation_waits = lane_has_work(lane, JOB_GENERATION), others_wait = lane_has_work(lane, JOB_OTHER);
    if (!generation_waits && !others_wait)
        return false;
    enum job_kind leader = share_turn(&lane->share, generation_waits, others_wait);
    int64_t model_index = lane->turns[leader];
    while (!batcher->queues[model_index].waiting.lists[leader].first || !lane_runs(lane, model_index))
        model_index = (model_index + 1) % batcher->n_models;
    lane->turns[leader] = (model_index + 1) % batcher->n_models;
    batch_fill_both(lane, model_index, leader, ended);
    return true;
}

/* The lock is held, and the batch does not run yet. Removes a part from the batch, and cancels the job of this part. */
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
    batch->flops[part.job->kind] -= part.flops;
    batch->cost[part.job->kind] -= part.cost;
    for (int64_t i = index; i < batch->n_parts; i++)
        batch->parts[i].first_item -= part.n_items;
    if (part.job == batch->first)
        batch->first = NULL;
    part.job->running -= part.n_items;
    job_cancel(queue_of(lane->batcher, part.job), part.job);
    if (part.job->running == 0)
        job_end(part.job, ended);
}

/* The lock is not held. Drops jobs that are no longer wanted. Also drops jobs that expired or failed since the batch
 * was formed. The deadline thread or another lane has set the status of such a job. */
static void batch_drop_ended(struct lane *lane)
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
    error_set(&job->error, "sequence %lld: row %lld of %s holds NaN or an infinity", (long long)part->flawed_item,
              (long long)part->flaw.row, part->flaw.output);
}

/* The lock is held. Each kind of work pays its part of the batch's time (share.h). The time is divided in the ratio of
 * the estimated costs. */
static void batch_pay(struct lane *lane, int64_t inference_ns, bool failed)
{
    struct batcher *batcher = lane->batcher;
    struct job_batch *batch = &lane->batch;
    struct queue *own = &batcher->queues[batch->parts[0].job->model_index];
    double cost = sum_of(batch->cost);
    for (int kind = 0; kind < JOB_KINDS; kind++) {
        if (!(batch->cost[kind] > 0))
            continue;
        double ns = (double)inference_ns * batch->cost[kind] / cost;
        share_pay(&lane->share, (enum job_kind)kind, ns, batcher->options.generation_percent);
        if (!failed)
            pace_add(&own->paces[kind], batch->flops[kind], (int64_t)ns);
    }
}

/* The lock is held. `failure` is NULL if the batch ran. Ends the jobs that are complete. The batch's first job goes to
 * the end of the queue again, because jobs may have arrived during the run. */
static void batch_end(struct lane *lane, int64_t inference_ns, const struct error *failure, struct job_list *ended)
{
    struct batcher *batcher = lane->batcher;
    struct job_batch *batch = &lane->batch;
    struct queue *own = &batcher->queues[batch->parts[0].job->model_index];
    batch_pay(lane, inference_ns, failure != NULL);
    if (!failure) {
        double ns_per_token = (double)inference_ns / (double)batch->tokens;
        own->ns_per_token = own->ns_per_token > 0 ? 0.8 * own->ns_per_token + 0.2 * ns_per_token : ns_per_token;
    }
    int64_t now = clock_ns();
    for (int64_t i = 0; i < batch->n_parts; i++) {
        struct job *job = batch->parts[i].job;
        job->inference_ns += inference_ns;
        part_fail(&batch->parts[i], failure);
        if (job->status == JOB_OK && job->deadline_ns && now >= job->deadline_ns)
            job_expire(queue_of(batcher, job), job, ended);
        job->running -= batch->parts[i].n_items;
        if (job->status != JOB_OK)
            job_queue_leave(queue_of(batcher, job), job);
        if (job == batch->first)
            job_queue_go_behind(queue_of(batcher, job), job);
        if (!job_waits(job) && job->running == 0)
            job_end(job, ended);
    }
}

/* The lock is not held. */
static void batch_run(struct lane *lane)
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
            metrics_batch(batcher->metrics, batch->parts[0].job->model_index, batch->n_items, batch->tokens,
                          inference_ns);
    }
    pthread_mutex_lock(&batcher->lock);
    batch_end(lane, inference_ns, failed ? &error : NULL, &ended);
    pthread_mutex_unlock(&batcher->lock);
    job_list_finish(&ended);
}

/* Warms up each model that the lane serves. The time of a warm-up is a first, rough measure of the pace. */
static int warm_up(struct lane *lane)
{
    struct batcher *batcher = lane->batcher;
    for (int64_t i = 0; i < batcher->n_models; i++) {
        int number = lane_of_model(lane, batcher->models[i]);
        if (number < 0)
            continue;
        double flops;
        int64_t start = clock_ns();
        if (model_warm_up(batcher->models[i], number, &flops, &lane->error) != 0)
            return error_prefix(&lane->error, "warming up %s", model_info(batcher->models[i])->architecture);
        pthread_mutex_lock(&batcher->lock);
        pace_add(&batcher->queues[i].paces[JOB_OTHER], flops, clock_ns() - start);
        pthread_mutex_unlock(&batcher->lock);
    }
    return 0;
}

static void *lane_thread(void *argument)
{
    struct lane *lane = argument;
    struct batcher *batcher = lane->batcher;
    struct job_list ended = {NULL, NULL};
    int status = warm_up(lane);
    pthread_mutex_lock(&batcher->lock);
    lane->state = status == 0 ? LANE_WARM : LANE_FAILED;
    pthread_cond_signal(&batcher->warmed);
    for (;; lane->rounds++) {
        look_at_devices(batcher);
        if (!batch_form(lane, &ended)) {
            if (batcher->closing)
                break;
            wake_lanes(batcher);
            lane_sleep(lane);
            continue;
        }
        wake_lanes(batcher);
        pthread_mutex_unlock(&batcher->lock);
        job_list_finish(&ended);
        batch_drop_ended(lane);
        if (lane->batch.n_items > 0)
            batch_run(lane);
        pthread_mutex_lock(&batcher->lock);
    }
    pthread_mutex_unlock(&batcher->lock);
    return NULL;
}

/* ---- Deadlines ---- */

/* The lock is held. Call this function when slots of the model may have become free. It gives slots to jobs that wait
 * for them. */
static void seat_jobs(struct batcher *batcher, int64_t model_index)
{
    struct queue *queue = &batcher->queues[model_index];
    if (!model_queue_seat(&queue->waiting))
        return;
    queue->ready_lanes = model_ready_lanes(batcher->models[model_index]);
    wake_lane(batcher, model_index);
}

/* The lock is held. Expires those jobs of a list whose deadline has passed (job_expire). Returns the earliest deadline
 * of the other jobs. */
static int64_t expire_list(struct batcher *batcher, struct job_queue *list, int64_t now)
{
    int64_t earliest = INT64_MAX;
    for (struct job *job = list->first, *next; job; job = next) {
        next = job->next;
        if (job->deadline_ns && now >= job->deadline_ns)
            job_expire(list, job, &batcher->ended);
        else if (job->deadline_ns && job->deadline_ns < earliest)
            earliest = job->deadline_ns;
    }
    return earliest;
}

/* The lock is held. Expires the jobs in the queues whose deadline has passed (job_expire), and sets the next alarm. */
static void expire_waiting(struct batcher *batcher, int64_t now)
{
    int64_t earliest = INT64_MAX;
    for (int64_t i = 0; i < batcher->n_models; i++) {
        for (int list = 0; list < MODEL_QUEUE_LISTS; list++) {
            int64_t found = expire_list(batcher, &batcher->queues[i].waiting.lists[list], now);
            earliest = found < earliest ? found : earliest;
        }
        seat_jobs(batcher, i);
    }
    batcher->alarm_ns = earliest < now + ALARM_STEP_NS ? now + ALARM_STEP_NS : earliest;
}

/* The lock is held. Makes a list of all jobs that wait for slots, linked by next_asked. Also increases their `running`,
 * so that no other thread ends them. */
static struct job *hold_slotless(struct batcher *batcher)
{
    struct job *held = NULL;
    for (int64_t i = 0; i < batcher->n_models; i++)
        for (struct job *job = batcher->queues[i].waiting.lists[MODEL_QUEUE_SLOTLESS].first; job; job = job->next) {
            job->running++;
            job->next_asked = held;
            held = job;
        }
    return held;
}

/* The lock is held, but not during the calls of `wanted`. Drops jobs that wait for slots and are no longer wanted. A
 * job may get slots and run during these calls. If it completes in this time, its lane cannot end it, and this function
 * does. */
static void ask_slotless(struct batcher *batcher)
{
    struct job *held = hold_slotless(batcher);
    pthread_mutex_unlock(&batcher->lock);
    for (struct job *job = held; job; job = job->next_asked)
        job->left = job->wanted && !job->wanted(job);
    pthread_mutex_lock(&batcher->lock);
    for (struct job *job = held, *next; job; job = next) {
        next = job->next_asked;
        job->running--;
        if (job->left && !job->has_slots)
            job_cancel(queue_of(batcher, job), job);
        if (!job_waits(job) && job->running == 0)
            job_end(job, &batcher->ended);
    }
    for (int64_t i = 0; i < batcher->n_models; i++)
        seat_jobs(batcher, i);
    batcher->ask_ns = held ? clock_ns() + ASK_STEP_NS : INT64_MAX;
}

static void *deadline_thread(void *argument)
{
    struct batcher *batcher = argument;
    pthread_mutex_lock(&batcher->lock);
    for (;;) {
        int64_t now = clock_ns();
        if (now >= batcher->alarm_ns)
            expire_waiting(batcher, now);
        if (now >= batcher->ask_ns)
            ask_slotless(batcher);
        int64_t wake_ns = batcher->alarm_ns < batcher->ask_ns ? batcher->alarm_ns : batcher->ask_ns;
        struct job_list ended = batcher->ended;
        if (ended.first) {
            batcher->ended = (struct job_list){NULL, NULL};
            pthread_mutex_unlock(&batcher->lock);
            job_list_finish(&ended);
            pthread_mutex_lock(&batcher->lock);
        } else if (batcher->stopping) {
            break;
        } else if (wake_ns == INT64_MAX) {
            pthread_cond_wait(&batcher->alarm, &batcher->lock);
        } else {
            struct timespec until = {wake_ns / SECOND_NS, wake_ns % SECOND_NS};
            pthread_cond_timedwait(&batcher->alarm, &batcher->lock, &until);
        }
    }
    pthread_mutex_unlock(&batcher->lock);
    return NULL;
}

/* ---- Opening and closing ---- */

static void batcher_free(struct batcher *batcher)
{
    for (int64_t i = 0; batcher->queues && i < batcher->n_models; i++)
        model_queue_close(&batcher->queues[i].waiting);
    free(batcher->models);
    free(batcher->queues);
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

static struct batcher *batcher_new(struct model **models, int64_t n_models, const struct batcher_options *options)
{
    struct batcher *batcher = calloc(1, sizeof *batcher);
    if (!batcher)
        return NULL;
    batcher->models = calloc((size_t)n_models, sizeof *batcher->models);
    batcher->queues = calloc((size_t)n_models, sizeof *batcher->queues);
    batcher->options = *options;
    if (!batcher->models || !batcher->queues) {
        batcher_free(batcher);
        return NULL;
    }
    memcpy(batcher->models, models, (size_t)n_models * sizeof *models);
    batcher->n_models = n_models;
    bool opened = lanes_new(batcher);
    for (int64_t i = 0; i < n_models; i++)
        opened &= model_queue_open(&batcher->queues[i].waiting,
                                   model_info(models[i])->is_causal ? options->max_generations : 0) == 0;
    if (!opened) {
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

static void deadline_thread_stop(struct batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->stopping = true;
    pthread_cond_signal(&batcher->alarm);
    pthread_mutex_unlock(&batcher->lock);
    pthread_join(batcher->deadline_thread, NULL);
}

static int lanes_start(struct batcher *batcher, struct error *error)
{
    for (; batcher->n_started < batcher->n_lanes; batcher->n_started++) {
        struct lane *lane = &batcher->lanes[batcher->n_started];
        int status = pthread_create(&lane->thread, NULL, lane_thread, lane);
        if (status != 0)
            return thread_refused("batches", status, error);
        pthread_setname_np(lane->thread, "batches");
    }
    return 0;
}

/* Waits until no lane is cold. Returns -1 with the first error if a warm-up failed. */
static int lanes_wait(struct batcher *batcher, struct error *error)
{
    int status = 0;
    pthread_mutex_lock(&batcher->lock);
    for (int i = 0; i < batcher->n_lanes; i++) {
        struct lane *lane = &batcher->lanes[i];
        while (lane->state == LANE_COLD)
            pthread_cond_wait(&batcher->warmed, &batcher->lock);
        if (lane->state == LANE_FAILED && status == 0) {
            *error = lane->error;
            status = -1;
        }
    }
    pthread_mutex_unlock(&batcher->lock);
    return status;
}

/* The lock is held. Ends the jobs that wait for slots. */
static void cancel_slotless(struct batcher *batcher)
{
    for (int64_t i = 0; i < batcher->n_models; i++) {
        struct job_queue *list = &batcher->queues[i].waiting.lists[MODEL_QUEUE_SLOTLESS];
        for (struct job *job; (job = list->first) != NULL;) {
            job_cancel(list, job);
            if (job->running == 0) /* otherwise ask_slotless ends it */
                job_end(job, &batcher->ended);
        }
    }
    pthread_cond_signal(&batcher->alarm);
}

/* Lets the lanes end when no jobs wait, and joins their threads. */
static void lanes_stop(struct batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->draining = batcher->closing = true;
    cancel_slotless(batcher);
    for (int i = 0; i < batcher->n_started; i++) {
        batcher->lanes[i].asleep = false;
        pthread_cond_signal(&batcher->lanes[i].work);
    }
    pthread_mutex_unlock(&batcher->lock);
    for (int i = 0; i < batcher->n_started; i++)
        pthread_join(batcher->lanes[i].thread, NULL);
}

int batcher_open(struct model **models, int64_t n_models, const struct batcher_options *options,
                 struct metrics *metrics, struct batcher **result, struct error *error)
{
    assert(n_models >= 1 && options->max_batch_tokens >= 1 && options->max_batch_requests >= 1);
    struct batcher *batcher = batcher_new(models, n_models, options);
    if (!batcher)
        return error_set(error, "batcher: no memory for batches of %lld items", (long long)options->max_batch_requests);
    batcher->metrics = metrics;
    int failure = pthread_create(&batcher->deadline_thread, NULL, deadline_thread, batcher);
    if (failure != 0) {
        batcher_destroy(batcher);
        return thread_refused("deadlines", failure, error);
    }
    pthread_setname_np(batcher->deadline_thread, "deadlines");
    if (lanes_start(batcher, error) != 0 || lanes_wait(batcher, error) != 0) {
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

void batcher_set_limits(struct batcher *batcher, int64_t max_queue_tokens, int64_t max_queue_requests)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->options.max_queue_tokens = max_queue_tokens;
    batcher->options.max_queue_requests = max_queue_requests;
    pthread_mutex_unlock(&batcher->lock);
}

void batcher_drain(struct batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->draining = true;
    pthread_mutex_unlock(&batcher->lock);
}

void batcher_close(struct batcher *batcher)
{
    if (!batcher)
        return;
    lanes_stop(batcher);
    deadline_thread_stop(batcher);
    batcher_destroy(batcher);
}

void batcher_wake(struct batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    look_at_devices(batcher);
    wake_lanes(batcher);
    pthread_mutex_unlock(&batcher->lock);
}

/* ---- For the submitters ---- */

/* The lock is held. An empty queue accepts a job of any size. Otherwise a job larger than a limit would be refused at
 * every attempt. A job that continues a request is always accepted, because the request was admitted with its first
 * job. */
static bool fits_queue(const struct batcher *batcher, const struct job *job)
{
    if (job->continues)
        return true;
    const struct batcher_options *options = &batcher->options;
    int64_t items, tokens;
    model_queue_load(&batcher->queues[job->model_index].waiting, job->kind, &items, &tokens);
    return items == 0 || (job->n_items <= options->max_queue_requests - items &&
                          job->waiting_tokens + job->later_tokens <= options->max_queue_tokens - tokens);
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
        job->started_ns = job->inference_ns = job->tokens = 0;
        job->submitted_ns = clock_ns();
    }
    job->finished_ns = 0;
    job->model_index = model_index;
    job->next_item = job->running = 0;
    job->tokens += tokens;
    job->waiting_tokens = tokens;
}

/* The lock is held. Sets *alarm_ns to an earlier time, and wakes the deadline thread so that it sees this time. */
static void set_alarm(struct batcher *batcher, int64_t *alarm_ns, int64_t time_ns)
{
    if (time_ns >= *alarm_ns)
        return;
    *alarm_ns = time_ns;
    pthread_cond_signal(&batcher->alarm);
}

enum submit_status batcher_submit(struct batcher *batcher, int64_t model_index, struct job *job)
{
    assert(model_index >= 0 && model_index < batcher->n_models && job->n_items >= 1 && job->done);
    struct queue *queue = &batcher->queues[model_index];
    job_prepare(job, batcher->models[model_index], model_index);

    enum submit_status status = SUBMIT_OK;
    pthread_mutex_lock(&batcher->lock);
    if (batcher->draining && !job->continues) {
        status = SUBMIT_DRAINING;
    } else if (!fits_queue(batcher, job)) {
        status = SUBMIT_FULL;
    } else {
        if (job->deadline_ns)
            set_alarm(batcher, &batcher->alarm_ns, job->deadline_ns);
        if (model_queue_add(&queue->waiting, job)) {
            queue->ready_lanes = model_ready_lanes(batcher->models[model_index]);
            wake_lane(batcher, model_index);
        } else if (batcher->ask_ns == INT64_MAX) {
            set_alarm(batcher, &batcher->ask_ns, job->submitted_ns + ASK_STEP_NS);
        }
    }
    pthread_mutex_unlock(&batcher->lock);
    return status;
}

void batcher_give_slots(struct batcher *batcher, int64_t model_index, int64_t count, const int64_t *slots)
{
    pthread_mutex_lock(&batcher->lock);
    slots_give(batcher->queues[model_index].waiting.slots, count, slots);
    seat_jobs(batcher, model_index);
    pthread_mutex_unlock(&batcher->lock);
}

struct batcher_depth batcher_depth(struct batcher *batcher, int64_t model_index)
{
    struct batcher_depth depth = {0};
    pthread_mutex_lock(&batcher->lock);
    const struct model_queue *queue = &batcher->queues[model_index].waiting;
    model_queue_depth(queue, &depth.requests, &depth.tokens);
    if (queue->slots) {
        depth.slots = slots_count(queue->slots);
        depth.slots_used = slots_used(queue->slots);
    }
    depth.slotless = queue->lists[MODEL_QUEUE_SLOTLESS].waiting_requests;
    pthread_mutex_unlock(&batcher->lock);
    return depth;
}

/* Whether the models have a lane in common. */
static bool share_a_lane(const struct model_info *a, const struct model_info *b)
{
    return a->first_lane < b->first_lane + b->n_lanes && b->first_lane < a->first_lane + a->n_lanes;
}

int64_t batcher_retry_after_s(struct batcher *batcher, int64_t model_index)
{
    pthread_mutex_lock(&batcher->lock);
    const struct queue *queue = &batcher->queues[model_index];
    const struct model_info *info = model_info(batcher->models[model_index]);
    int n_ready = __builtin_popcountll(model_ready_lanes(batcher->models[model_index])); /* at least 1 */
    int64_t sharing = 0; /* models with waiting jobs that take turns on this model's lanes */
    for (int64_t i = 0; i < batcher->n_models; i++)
        sharing += has_work(&batcher->queues[i]) && share_a_lane(info, model_info(batcher->models[i]));
    int64_t items, tokens;
    model_queue_depth(&queue->waiting, &items, &tokens);
    double ns = queue->ns_per_token * (double)tokens * (double)(sharing > 0 ? sharing : 1);
    double seconds = ceil(ns / n_ready / (double)SECOND_NS);
    pthread_mutex_unlock(&batcher->lock);
    return seconds < 1 ? 1 : seconds > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : (int64_t)seconds;
}
