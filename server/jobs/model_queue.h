/* model_queue: the waiting jobs of one model, and the model's slots. Jobs wait in three lists, each in the order of
 * arrival. A job that wants slots first waits in the list MODEL_QUEUE_SLOTLESS. It takes all its slots at once, when
 * they are free and no job waits before it. So jobs of several sequences never wait for each other's slots, and a small
 * job does not overtake a large one.
 *
 * Threads: callers must hold the batcher's lock. */
#ifndef SERVER_MODEL_QUEUE_H
#define SERVER_MODEL_QUEUE_H

#include "server/jobs/job_queue.h"

#define MODEL_QUEUE_SLOTLESS JOB_KINDS
#define MODEL_QUEUE_LISTS (JOB_KINDS + 1)

struct slots;

struct model_queue {
    struct job_queue lists[MODEL_QUEUE_LISTS]; /* the first lists are the jobs of each kind that may run */
    struct slots *slots;                       /* NULL: jobs wait for no slots */
};

/* Opens `slots` slots, 0: none. Returns -1 if memory is lacking. */
int model_queue_open(struct model_queue *queue, int64_t slots);
void model_queue_close(struct model_queue *queue); /* all slots must be free. A zeroed queue is harmless */

/* The list that a waiting job is in, or would be in. */
struct job_queue *model_queue_list(struct model_queue *queue, const struct job *job);

/* Adds a job, whose items all wait. Returns false if the job waits for slots. */
bool model_queue_add(struct model_queue *queue, struct job *job);

/* Gives free slots to the jobs that wait for them. Returns whether a job has got slots. Call it when slots were given
 * back, and when a job left the list MODEL_QUEUE_SLOTLESS. */
bool model_queue_seat(struct model_queue *queue);

/* The number of waiting items, and their tokens. */
void model_queue_depth(const struct model_queue *queue, int64_t *items, int64_t *tokens);

/* The same for jobs of one kind, for the limits of a queue. Each kind has the limits for itself, so that sequences that
 * wait for slots do not keep other jobs out. If there are slots, they bound the jobs of running sequences. So these
 * jobs do not count. */
void model_queue_load(const struct model_queue *queue, enum job_kind kind, int64_t *items, int64_t *tokens);

#endif
