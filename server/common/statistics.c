#include "server/common/statistics.h"

#include <assert.h>
#include <time.h>

static void add(atomic_int_fast64_t *sum, int64_t value)
{
    atomic_fetch_add_explicit(sum, value > 0 ? value : 0, memory_order_relaxed);
}

static int64_t now_of(const atomic_int_fast64_t *sum)
{
    return atomic_load_explicit(sum, memory_order_relaxed);
}

static void count(struct statistics_counter *counter, int64_t ns)
{
    add(&counter->count, 1);
    add(&counter->ns, ns);
}

static struct statistics_duration duration_of(const struct statistics_counter *counter)
{
    return (struct statistics_duration){now_of(&counter->count), now_of(&counter->ns)};
}

void statistics_add_request(struct model_statistics *statistics, const struct statistics_request *request)
{
    if (!request->success) {
        count(&statistics->fail, request->total_ns);
        return;
    }
    count(&statistics->success, request->total_ns);
    add(&statistics->queue_ns, request->queue_ns);
    add(&statistics->input_ns, request->input_ns);
    add(&statistics->infer_ns, request->infer_ns);
    add(&statistics->output_ns, request->output_ns);
}

void statistics_add_batch(struct model_statistics *statistics, int64_t items, int64_t inference_ns)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    add(&statistics->batches, 1);
    add(&statistics->items, items);
    atomic_store_explicit(&statistics->last_ms, time.tv_sec * INT64_C(1000) + time.tv_nsec / 1000000,
                          memory_order_relaxed);
    if (items >= 1 && items <= STATISTICS_MAX_ITEMS)
        count(&statistics->batches_of[items - 1], inference_ns);
}

struct statistics_now statistics_read(const struct model_statistics *statistics)
{
    return (struct statistics_now){
        .success = duration_of(&statistics->success),
        .fail = duration_of(&statistics->fail),
        .queue_ns = now_of(&statistics->queue_ns),
        .input_ns = now_of(&statistics->input_ns),
        .infer_ns = now_of(&statistics->infer_ns),
        .output_ns = now_of(&statistics->output_ns),
        .items = now_of(&statistics->items),
        .batches = now_of(&statistics->batches),
        .last_ms = now_of(&statistics->last_ms),
    };
}

struct statistics_duration statistics_batches(const struct model_statistics *statistics, int64_t items)
{
    assert(items >= 1 && items <= STATISTICS_MAX_ITEMS);
    return duration_of(&statistics->batches_of[items - 1]);
}
