/* statistics: the counts and times of one model since the daemon started. Any thread may call the functions. They use
 * no lock, but relaxed atomics. So a reader may see an event in some counts, and not yet in others. */
#ifndef SERVER_STATISTICS_H
#define SERVER_STATISTICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Upper limit for the number of items of a batch in batches_of. Larger batches count only in `items` and `batches`. */
#define STATISTICS_MAX_ITEMS 1024

struct statistics_counter {
    atomic_int_fast64_t count, ns;
};

/* A zeroed struct contains no events. Only statistics.c may use its members. */
struct model_statistics {
    struct statistics_counter success, fail;                     /* requests, with their total times */
    atomic_int_fast64_t queue_ns, input_ns, infer_ns, output_ns; /* sums over successful requests */
    atomic_int_fast64_t items, batches; /* number of computed items, and number of batches that have run */
    atomic_int_fast64_t last_ms;        /* time of the last batch, in milliseconds since 1970 */
    struct statistics_counter batches_of[STATISTICS_MAX_ITEMS]; /* batches with i + 1 items at index i */
};

/* A request for results of the model. The times of a request that failed are not used, except total_ns. */
struct statistics_request {
    bool success;
    int64_t total_ns;
    int64_t queue_ns;  /* time of waiting for the first batch */
    int64_t input_ns;  /* time from the complete body to its submission to the batcher */
    int64_t infer_ns;  /* time of the batches with the request's items */
    int64_t output_ns; /* time of writing and sending the answer */
};

void statistics_add_request(struct model_statistics *statistics, const struct statistics_request *request);
void statistics_add_batch(struct model_statistics *statistics, int64_t items, int64_t inference_ns);

struct statistics_duration {
    int64_t count, ns;
};

struct statistics_now {
    struct statistics_duration success, fail;
    int64_t queue_ns, input_ns, infer_ns, output_ns;
    /* `last_ms` is the time of the last batch in milliseconds since 1970, or 0 if no batch has run. */
    int64_t items, batches, last_ms;
};

struct statistics_now statistics_read(const struct model_statistics *statistics);

/* Returns the number and time of the batches with this number of items, from 1 to STATISTICS_MAX_ITEMS. */
struct statistics_duration statistics_batches(const struct model_statistics *statistics, int64_t items);

#endif
