/* batcher_options: limits of the batcher's queues and batches. */
#ifndef SERVER_BATCHER_OPTIONS_H
#define SERVER_BATCHER_OPTIONS_H

#include <stdint.h>

/* If the first job of a request is larger than a limit of its queue, it is admitted only when the queue is empty. */
struct batcher_options {
    int64_t max_batch_tokens;
    int64_t max_batch_requests;
    int64_t max_batch_ms;     /* limit on the estimated time of a batch with several items. The estimate comes from the
                                 model's earlier batches. 0 means no limit */
    int64_t max_queue_tokens; /* limit on the tokens that wait for one model. max_queue_tokens and max_queue_requests
                                 apply to the generation jobs of each model, and separately to its other jobs */
    int64_t max_queue_requests; /* limit on the items that wait for one model */
    int64_t max_queue_ms;    /* limit on the estimated time that a job waits for its first batch. It does not apply to
                                generation. 0 means no limit */
    int64_t max_generations; /* number of slots of each causal model, each for one sequence that is being generated. 0
                                if jobs do not wait for slots */
    int64_t generation_percent; /* percentage of a lane's time for generation, from 1 to 99 */
};

#endif
