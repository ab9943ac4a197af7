#define _GNU_SOURCE /* pthread_setname_np */
#include "server/jobs/lane_threads.h"

#include "server/common/clock.h"
#include "server/common/thread.h"
#include "server/jobs/batch.h"
#include "server/jobs/deadlines.h"
#include "server/jobs/lanes.h"

/* Warms up a model, and clears the bit of this lane in `cold`. The time of the warm-up is a first, rough measure of the
 * model's pace. The lock is held, but not during the warm-up. */
static void warm_up(struct lane *lane, int64_t model_index, int number)
{
    struct batcher *batcher = lane->batcher;
    struct model *model = batcher->models[model_index];
    struct batcher_entry *entry = &batcher->entries[model_index];
    struct error error;
    double flops = 0;
    pthread_mutex_unlock(&batcher->lock);
    int64_t start = clock_ns();
    int status = model_warm_up(model, number, &flops, &error);
    int64_t ns = clock_ns() - start;
    pthread_mutex_lock(&batcher->lock);
    if (status == 0) {
        pace_add(&entry->paces[JOB_OTHER], flops, ns);
    } else if (!batcher->warm_failed) {
        error_prefix(&error, "warming up %s", model_info(model)->architecture);
        batcher->warm_failed = true;
        batcher->warm_error = error;
    }
    entry->cold &= ~(UINT64_C(1) << number);
    pthread_cond_broadcast(&batcher->warmed);
}

/* Warms up the models that need a warm-up on this lane. Such models have no jobs yet. The lock is held. */
static void warm_up_all(struct lane *lane)
{
    struct batcher *batcher = lane->batcher;
    for (int64_t i = 0; i < batcher->n_models; i++) {
        int number = batcher->models[i] ? lane_of_model(lane, batcher->models[i]) : -1;
        if (number >= 0 && batcher->entries[i].cold >> number & 1)
            warm_up(lane, i, number);
    }
}

static void *lane_thread(void *argument)
{
    struct lane *lane = argument;
    struct batcher *batcher = lane->batcher;
    struct job_list ended = {NULL, NULL};
    pthread_mutex_lock(&batcher->lock);
    for (;; lane->rounds++) {
        warm_up_all(lane);
        lanes_look_at_devices(batcher);
        if (!batch_form(lane, &ended)) {
            if (batcher->closing)
                break;
            lanes_wake(batcher);
            lane_sleep(lane);
            continue;
        }
        lanes_wake(batcher);
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

int lane_threads_start(struct batcher *batcher, struct error *error)
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

int lane_threads_wait(struct batcher *batcher, struct error *error)
{
    for (int64_t i = 0; i < batcher->n_models; i++)
        while (batcher->models[i] && batcher->entries[i].cold != 0)
            pthread_cond_wait(&batcher->warmed, &batcher->lock);
    if (batcher->warm_failed)
        *error = batcher->warm_error;
    return batcher->warm_failed ? -1 : 0;
}

void lane_threads_stop(struct batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->closing = true;
    deadlines_cancel_jobs_without_slots(batcher);
    for (int i = 0; i < batcher->n_started; i++) {
        batcher->lanes[i].asleep = false;
        pthread_cond_signal(&batcher->lanes[i].work);
    }
    pthread_mutex_unlock(&batcher->lock);
    for (int i = 0; i < batcher->n_started; i++)
        pthread_join(batcher->lanes[i].thread, NULL);
}
