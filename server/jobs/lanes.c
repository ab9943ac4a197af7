#include "server/jobs/lanes.h"

void lanes_look_at_devices(struct batcher *batcher)
{
    for (int64_t i = 0; i < batcher->n_models; i++)
        if (batcher->models[i])
            batcher->queues[i].ready_lanes = model_ready_lanes(batcher->models[i]);
}

int lane_of_model(const struct lane *lane, const struct model *model)
{
    const struct model_info *info = model_info(model);
    int number = lane->number - info->first_lane;
    return number >= 0 && number < info->n_lanes ? number : -1;
}

bool lane_runs(const struct lane *lane, int64_t model_index)
{
    const struct batcher *batcher = lane->batcher;
    const struct model *model = batcher->models[model_index];
    int number = model ? lane_of_model(lane, model) : -1;
    return number >= 0 && (batcher->closing || batcher->queues[model_index].ready_lanes >> number & 1);
}

void lanes_wake_one(struct batcher *batcher, int64_t model_index)
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

void lanes_wake(struct batcher *batcher)
{
    for (int64_t i = 0; batcher->n_lanes > 1 && i < batcher->n_models; i++)
        if (has_work(&batcher->queues[i]))
            lanes_wake_one(batcher, i);
}

void lane_sleep(struct lane *lane)
{
    lane->asleep = true;
    while (lane->asleep)
        pthread_cond_wait(&lane->work, &lane->batcher->lock);
}

bool lane_has_work(const struct lane *lane, enum job_kind kind)
{
    const struct batcher *batcher = lane->batcher;
    for (int64_t i = 0; i < batcher->n_models; i++)
        if (batcher->queues[i].waiting.lists[kind].first && lane_runs(lane, i))
            return true;
    return false;
}

void lanes_seat_jobs(struct batcher *batcher, int64_t model_index)
{
    struct queue *queue = &batcher->queues[model_index];
    if (!model_queue_seat(&queue->waiting))
        return;
    queue->ready_lanes = model_ready_lanes(batcher->models[model_index]);
    lanes_wake_one(batcher, model_index);
}
