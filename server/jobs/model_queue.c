#include "server/jobs/model_queue.h"

#include "server/jobs/slots.h"

#include <assert.h>

int model_queue_open(struct model_queue *queue, int64_t slots)
{
    *queue = (struct model_queue){.slots = slots > 0 ? slots_open(slots) : NULL};
    return slots == 0 || queue->slots ? 0 : -1;
}

void model_queue_close(struct model_queue *queue)
{
    slots_close(queue->slots);
    queue->slots = NULL;
}

static bool lacks_slots(const struct model_queue *queue, const struct job *job)
{
    return queue->slots && job->n_slots > 0 && !job->has_slots;
}

struct job_queue *model_queue_list(struct model_queue *queue, const struct job *job)
{
    return &queue->lists[lacks_slots(queue, job) ? MODEL_QUEUE_WAITING_FOR_SLOTS : (int)job->kind];
}

static bool take_slots(struct model_queue *queue, struct job *job)
{
    if (slots_take(queue->slots, job->n_slots, job->slots) != 0)
        return false;
    job->has_slots = true;
    for (int64_t i = 0; i < job->n_items; i++)
        if (job->items[i].slot != 0)
            job->items[i].slot = job->slots[i];
    return true;
}

bool model_queue_add(struct model_queue *queue, struct job *job)
{
    assert(job->n_slots == 0 || job->n_slots == job->n_items);
    assert(!queue->slots || job->n_slots <= slots_count(queue->slots));
    bool waits =
        lacks_slots(queue, job) && (queue->lists[MODEL_QUEUE_WAITING_FOR_SLOTS].first || !take_slots(queue, job));
    if (waits)
        job->waiting_tokens += job->later_tokens;
    job_queue_add(model_queue_list(queue, job), job);
    return !waits;
}

bool model_queue_assign_slots(struct model_queue *queue)
{
    struct job_queue *waiting_for_slots = &queue->lists[MODEL_QUEUE_WAITING_FOR_SLOTS];
    bool assigned = false;
    for (struct job *job; (job = waiting_for_slots->first) != NULL && take_slots(queue, job); assigned = true) {
        job_queue_take_out(waiting_for_slots, job);
        job->waiting_tokens -= job->later_tokens;
        job_queue_add(&queue->lists[job->kind], job);
    }
    return assigned;
}

static void add_list(const struct model_queue *queue, int list, int64_t *items, int64_t *tokens)
{
    *items += queue->lists[list].waiting_requests;
    *tokens += queue->lists[list].waiting_tokens;
}

void model_queue_depth(const struct model_queue *queue, int64_t *items, int64_t *tokens)
{
    *items = *tokens = 0;
    for (int i = 0; i < MODEL_QUEUE_LISTS; i++)
        add_list(queue, i, items, tokens);
}

void model_queue_load(const struct model_queue *queue, enum job_kind kind, int64_t *items, int64_t *tokens)
{
    *items = *tokens = 0;
    add_list(queue, kind == JOB_GENERATION && queue->slots ? MODEL_QUEUE_WAITING_FOR_SLOTS : (int)kind, items, tokens);
}
