#include "server/jobs/job_queue.h"

#include "server/common/clock.h"

#include <assert.h>

bool job_waits(const struct job *job)
{
    return job->next_item < job->n_items;
}

/* Inserts the job behind `before`, or in front of all jobs if `before` is NULL. */
static void insert_behind(struct job_queue *queue, struct job *before, struct job *job)
{
    job->previous = before;
    job->next = before ? before->next : queue->first;
    *(before ? &before->next : &queue->first) = job;
    *(job->next ? &job->next->previous : &queue->last) = job;
}

static void unlink_job(struct job_queue *queue, struct job *job)
{
    *(job->previous ? &job->previous->next : &queue->first) = job->next;
    *(job->next ? &job->next->previous : &queue->last) = job->previous;
    job->next = job->previous = NULL;
}

void job_queue_add(struct job_queue *queue, struct job *job)
{
    insert_behind(queue, queue->last, job);
    queue->waiting_requests += job->n_items;
    queue->waiting_tokens += job->waiting_tokens;
}

void job_queue_start(struct job_queue *queue, struct job *job, int64_t n_items, int64_t tokens)
{
    job->next_item += n_items;
    job->waiting_tokens -= tokens;
    job->running += n_items;
    queue->waiting_requests -= n_items;
    queue->waiting_tokens -= tokens;
    if (!job_waits(job))
        unlink_job(queue, job);
}

/* Whether `waiting` is smaller than `job`: it has fewer waiting tokens, or equally many and is older. */
static bool is_smaller(const struct job *waiting, const struct job *job)
{
    if (waiting->waiting_tokens != job->waiting_tokens)
        return waiting->waiting_tokens < job->waiting_tokens;
    return waiting->submitted_ns < job->submitted_ns;
}

void job_queue_let_pass(struct job_queue *queue, struct job *job)
{
    if (!job_waits(job))
        return;
    struct job *before = queue->last;
    while (before != job && !is_smaller(before, job))
        before = before->previous;
    if (before == job)
        return;
    unlink_job(queue, job);
    insert_behind(queue, before, job);
}

void job_queue_take_out(struct job_queue *queue, struct job *job)
{
    unlink_job(queue, job);
    queue->waiting_requests -= job->n_items - job->next_item;
    queue->waiting_tokens -= job->waiting_tokens;
}

void job_queue_leave(struct job_queue *queue, struct job *job)
{
    if (!job_waits(job))
        return;
    job_queue_take_out(queue, job);
    job->next_item = job->n_items;
    job->waiting_tokens = 0;
}

/* The message is written before job_queue_leave, which changes next_item. */
void job_expire(struct job_queue *queue, struct job *job, struct job_list *ended)
{
    job->status = JOB_EXPIRED;
    if (job->kind == JOB_GENERATION && job->continues) /* an earlier job has computed a part of the prompt */
        error_set(&job->error, "the request's deadline (--request-timeout-ms) passed before its first token");
    else
        error_set(&job->error, "the request's deadline passed when %lld of its %lld sequences had been started",
                  (long long)job->next_item, (long long)job->n_items);
    job_queue_leave(queue, job);
    if (job->running == 0)
        job_end(job, ended);
}

void job_cancel(struct job_queue *queue, struct job *job)
{
    if (job->status == JOB_OK) {
        job->status = JOB_CANCELLED;
        error_set(&job->error, "the request was cancelled");
    }
    job_queue_leave(queue, job);
}

void job_end(struct job *job, struct job_list *ended)
{
    assert(job->running == 0);
    job->finished_ns = clock_ns();
    job->next = NULL;
    *(ended->last ? &ended->last->next : &ended->first) = job;
    ended->last = job;
}

void job_list_finish(struct job_list *ended)
{
    for (struct job *job = ended->first, *next; job; job = next) {
        next = job->next;
        job->next = NULL;
        job->done(job);
    }
    ended->first = ended->last = NULL;
}
