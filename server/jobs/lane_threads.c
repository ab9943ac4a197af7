#define _GNU_SOURCE /* pthread_setname_np */
#include "server/jobs/lane_threads.h"

#include "server/common/clock.h"
#include "server/common/thread.h"
#include "server/jobs/batch.h"
#include "server/jobs/deadlines.h"
#include "server/jobs/lanes.h"

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

void lane_threads_stop(struct batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->draining = batcher->closing = true;
    deadlines_cancel_slotless(batcher);
    for (int i = 0; i < batcher->n_started; i++) {
        batcher->lanes[i].asleep = false;
        pthread_cond_signal(&batcher->lanes[i].work);
    }
    pthread_mutex_unlock(&batcher->lock);
    for (int i = 0; i < batcher->n_started; i++)
        pthread_join(batcher->lanes[i].thread, NULL);
}
