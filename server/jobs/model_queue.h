/* model_queue: the waiting jobs of one model, and the model's slots (slots.h). Jobs wait in three lists, each in the
 * order of arrival. A job that needs slots first waits in the list MODEL_QUEUE_WAITING_FOR_SLOTS. When the job is the
 * first of this list and enough slots are free, it takes all its slots at once. So two jobs with several sequences
 * never each hold a part of the slots that both need. A small job does not overtake a large one.
 *
 * Threads: callers must hold the batcher's lock. */
#ifndef SERVER_MODEL_QUEUE_H
#define SERVER_MODEL_QUEUE_H

#include "server/jobs/job_queue.h"

/* Indices of the lists. The first JOB_KINDS indices are the kinds of jobs (enum job_kind). */
enum {
    MODEL_QUEUE_WAITING_FOR_SLOTS = JOB_KINDS,
    MODEL_QUEUE_LISTS /* number of lists */
};

struct slots;

struct model_queue {
    /* lists[kind] contains the jobs of this kind that a lane may run. lists[MODEL_QUEUE_WAITING_FOR_SLOTS] contains the
     * jobs that wait for slots. */
    struct job_queue lists[MODEL_QUEUE_LISTS];
    struct slots *slots; /* NULL if jobs do not wait for slots */
};

/* Opens the queue with this number of slots. If `slots` is 0, jobs do not wait for slots. Returns -1 if memory is
 * lacking. */
int model_queue_open(struct model_queue *queue, int64_t slots);
void model_queue_close(struct model_queue *queue); /* call it when all slots are free. A zeroed queue is harmless */

/* The list in which the job waits. */
struct job_queue *model_queue_list(struct model_queue *queue, const struct job *job);

/* Adds a job whose items all wait. Returns false if the job must wait for slots. */
bool model_queue_add(struct model_queue *queue, struct job *job);

/* Gives free slots to the jobs that wait for slots. Returns whether at least one job has received its slots. Call it
 * when slots were given back, and when a job left the list MODEL_QUEUE_WAITING_FOR_SLOTS. */
bool model_queue_assign_slots(struct model_queue *queue);

/* Sets *items to the number of waiting items in all lists, and *tokens to the number of their tokens. */
void model_queue_depth(const struct model_queue *queue, int64_t *items, int64_t *tokens);

/* Sets *items and *tokens to the numbers of waiting items and tokens of one kind that count towards the limits of a
 * queue. The limits apply to each kind separately, so that sequences that wait for slots do not block other jobs. If
 * there are slots, jobs of sequences that have slots do not count, because the number of slots already limits them. */
void model_queue_load(const struct model_queue *queue, enum job_kind kind, int64_t *items, int64_t *tokens);

#endif
