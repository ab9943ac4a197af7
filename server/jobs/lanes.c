#include "server/jobs/lanes.h"

void lanes_look_at_devices(struct batcher *batcher)
{
    for (int64_t i = 0; i < batcher->n_models; i++)
        if (batcher->models[i])
            batcher->entries[i].ready_lanes = model_ready_lanes(batcher->models[i]);
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
    return number >= 0 && (batcher->closing || batcher->entries[model_index].ready_lanes >> number & 1);
}

/* Whether the device `home` of the job works. The model's lane with the same number runs on this device, so the
 * function tests the bit of this lane. */
static bool home_works(const struct batcher *batcher, const struct job *job)
{
    return batcher->entries[job->model_index].ready_lanes >> job->home & 1;
}

bool lane_takes(const struct lane *lane, const struct job *job)
{
    const struct batcher *batcher = lane->batcher;
    const struct model *model = batcher->models[job->model_index];
    if (!lane_runs(lane, job->model_index))
        return false;
    return job->home == NO_HOME || lane_of_model(lane, model) % model_info(model)->n_devices == job->home ||
           batcher->closing || !home_works(batcher, job);
}

bool lane_has_work_of(const struct lane *lane, int64_t model_index, enum job_kind kind)
{
    const struct job *job = lane->batcher->entries[model_index].waiting.lists[kind].first;
    while (job && !lane_takes(lane, job))
        job = job->next;
    return job != NULL;
}

bool lane_has_work(const struct lane *lane, enum job_kind kind)
{
    for (int64_t i = 0; i < lane->batcher->n_models; i++)
        if (lane_has_work_of(lane, i, kind))
            return true;
    return false;
}

void lanes_wake_one(struct batcher *batcher, int64_t model_index)
{
    for (int i = 0; i < batcher->n_lanes; i++) {
        struct lane *lane = &batcher->lanes[i];
        bool works = lane->asleep && (lane_has_work_of(lane, model_index, JOB_OTHER) ||
                                      lane_has_work_of(lane, model_index, JOB_GENERATION));
        if (!works)
            continue;
        lane->asleep = false;
        pthread_cond_signal(&lane->work);
        return;
    }
}

void lanes_wake(struct batcher *batcher)
{
    for (int64_t i = 0; batcher->n_lanes > 1 && i < batcher->n_models; i++)
        if (has_work(&batcher->entries[i]))
            lanes_wake_one(batcher, i);
}

void lane_sleep(struct lane *lane)
{
    lane->asleep = true;
    while (lane->asleep)
        pthread_cond_wait(&lane->work, &lane->batcher->lock);
}

void lanes_assign_slots(struct batcher *batcher, int64_t model_index)
{
    struct batcher_entry *entry = &batcher->entries[model_index];
    if (!model_queue_assign_slots(&entry->waiting))
        return;
    entry->ready_lanes = model_ready_lanes(batcher->models[model_index]);
    lanes_wake_one(batcher, model_index);
}
