/* statistics: the counts and times of one model since the daemon started. Any thread may call the functions. They take
 * no lock, but use relaxed atomics, so a reader may see an event in some counts and not yet in others. */
#ifndef SERVER_STATISTICS_H
#define SERVER_STATISTICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Batches with more items than this count in the sums only. */
#define STATISTICS_MOST_ITEMS 1024

struct statistics_counter {
    atomic_int_fast64_t count, ns;
};

/* A zeroed struct has no events. Its members are private to statistics.c. */
struct model_statistics {
    struct statistics_counter success, fail;                     /* requests */
    atomic_int_fast64_t queue_ns, input_ns, infer_ns, output_ns; /* sums over successful requests */
    atomic_int_fast64_t items, batches;                          /* computed items, and batches that have run */
    atomic_int_fast64_t last_ms;                                 /* time of the last batch, since 1970 */
    struct statistics_counter batches_of[STATISTICS_MOST_ITEMS]; /* index: number of items - 1 */
};

/* A request for results of the model. The times of a request that failed are not used, except total_ns. */
struct statistics_request {
    bool success;
    int64_t total_ns;
    int64_t queue_ns;  /* waiting for the first batch */
    int64_t input_ns;  /* reading the body */
    int64_t infer_ns;  /* the batches with its items */
    int64_t output_ns; /* writing and sending the answer */
};

void statistics_add_request(struct model_statistics *statistics, const struct statistics_request *request);
void statistics_add_batch(struct model_statistics *statistics, int64_t items, int64_t inference_ns);

struct statistics_duration {
    int64_t count, ns;
};

struct statistics_now {
    struct statistics_duration success, fail;
    int64_t queue_ns, input_ns, infer_ns, output_ns;
    int64_t items, batches, last_ms; /* last_ms is 0 if no batch has run */
};

struct statistics_now statistics_read(const struct model_statistics *statistics);

/* The batches with this number of items, from 1 to STATISTICS_MOST_ITEMS. */
struct statistics_duration statistics_batches(const struct model_statistics *statistics, int64_t items);

#endif
