/* model_queue: the waiting jobs of one model, and the model's slots. Jobs wait in three lists, each in the order of
 * arrival. A job that needs slots first waits in the list MODEL_QUEUE_SLOTLESS. When enough slots are free and no job
 * of this list is before it, it takes all its slots at once. So two jobs of several sequences never each hold a part of
 * the slots that both need. A small job does not overtake a large one.
 *
 * Threads: callers must hold the batcher's lock. */
#ifndef SERVER_MODEL_QUEUE_H
#define SERVER_MODEL_QUEUE_H

#include "server/jobs/job_queue.h"

#define MODEL_QUEUE_SLOTLESS JOB_KINDS
#define MODEL_QUEUE_LISTS (JOB_KINDS + 1)

struct slots;

struct model_queue {
    struct job_queue lists[MODEL_QUEUE_LISTS]; /* lists[kind] contains the jobs of this kind that may run. The last list
                                                  is MODEL_QUEUE_SLOTLESS */
    struct slots *slots;                       /* NULL if jobs do not wait for slots */
};

/* Opens the queue with this number of slots. If it is 0, jobs do not wait for slots. Returns -1 if memory is
 * lacking. */
int model_queue_open(struct model_queue *queue, int64_t slots);
void model_queue_close(struct model_queue *queue); /* all slots must be free. A zeroed queue is harmless */

/* The list that contains the job while it waits. */
struct job_queue *model_queue_list(struct model_queue *queue, const struct job *job);

/* Adds a job, all of whose items wait. Returns false if the job must wait for slots. */
bool model_queue_add(struct model_queue *queue, struct job *job);

/* Gives free slots to the jobs that wait for them. Returns whether a job has got slots. Call it when slots were given
 * back, and when a job left the list MODEL_QUEUE_SLOTLESS. */
bool model_queue_seat(struct model_queue *queue);

/* Sets *items to the number of waiting items of all lists, and *tokens to their tokens. */
void model_queue_depth(const struct model_queue *queue, int64_t *items, int64_t *tokens);

/* Sets the number of waiting items of one kind, and their tokens, for the limits of a queue. The limits apply to each
 * kind separately, so that sequences that wait for slots do not keep other jobs out. If there are slots, jobs of
 * sequences that have slots do not count, because the number of slots limits them. */
void model_queue_load(const struct model_queue *queue, enum job_kind kind, int64_t *items, int64_t *tokens);

#endif
