/* tracer: the queue is a ring of spans with a lock. The thread copies a batch out of the ring, and sends it without
 * holding the lock. While the thread sends a batch again that the collector did not accept, the ring fills up. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server/tracing/tracer.h"

#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/common/thread.h"
#include "server/tracing/collector.h"
#include "server/tracing/otlp.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Both sizes are the defaults of OpenTelemetry's batch processor, but count requests, not spans. The delay is shorter
 * than its default. */
#define QUEUE_REQUESTS 2048
#define BATCH_REQUESTS 512
#define SCHEDULE_DELAY_NS INT64_C(1000000000) /* maximum time that a span waits for other spans */
#define ATTEMPTS 5
#define FIRST_PAUSE_S 1 /* pause after the first failed attempt. It doubles with each further attempt */
#define LONGEST_PAUSE_S 30
#define CLOSE_PATIENCE_NS INT64_C(2000000000)

struct tracer {
    struct tracing_options options;
    struct collector *collector; /* only the tracer's thread uses it */
    struct log_limit failures;
    pthread_t thread;
    uint64_t seed; /* seed of the ids: a random number, chosen once per process */
    _Atomic uint64_t count;
    _Atomic int64_t end_ns; /* time of CLOCK_MONOTONIC at which sending must end. 0 before tracer_close */
    _Atomic int64_t sent, dropped;
    pthread_mutex_t lock;   /* guards the members below */
    pthread_cond_t changed; /* signalled when the first span is in the ring, when a batch is complete, or when `closing`
                               is set. Uses CLOCK_MONOTONIC */
    bool closing;
    int64_t first, used;          /* index of the first span in the ring, and number of spans in the ring */
    struct request_span *ring;    /* memory for QUEUE_REQUESTS spans */
    struct request_span *sending; /* memory for BATCH_REQUESTS spans. Only the tracer's thread uses it */
};

/* ---- Ids ---- */

/* Returns one number of the generator splitmix64 (Steele, Lea and Flood 2014). Within 2^64 calls, it never returns the
 * same number twice. */
static uint64_t next_random(struct tracer *tracer)
{
    uint64_t z = tracer->seed + atomic_fetch_add(&tracer->count, 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Fills `count` bytes with random numbers other than 0, because an id of zeros would be invalid. `count` is a multiple
 * of 8. */
static void new_id(struct tracer *tracer, unsigned char *id, int count)
{
    for (int i = 0; i < count; i += 8) {
        uint64_t number = 0;
        while (number == 0)
            number = next_random(tracer);
        memcpy(id + i, &number, sizeof number);
    }
}

static uint64_t random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        seed = (uint64_t)clock_ns() ^ (uint64_t)getpid() << 48;
    return seed;
}

/* ---- The thread ---- */

static void count_dropped(struct tracer *tracer, int64_t spans, const char *reason)
{
    atomic_fetch_add(&tracer->dropped, spans);
    log_write_limited(&tracer->failures, LOG_LEVEL_WARNING, "spans are lost", "collector", tracer->options.url,
                      "reason", reason, LOG_INTEGER("spans", spans), NULL);
}

/* Waits `seconds` before the next attempt. Returns false if the tracer is being closed. */
static bool pause_s(struct tracer *tracer, int64_t seconds)
{
    int64_t until_ns = clock_ns() + seconds * 1000000000;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_mutex_lock(&tracer->lock);
    while (!tracer->closing && pthread_cond_timedwait(&tracer->changed, &tracer->lock, &until) == 0)
        ;
    bool closing = tracer->closing;
    pthread_mutex_unlock(&tracer->lock);
    return !closing;
}

static void send_json(struct tracer *tracer, const struct writer *json, int64_t spans)
{
    struct collector_answer answer;
    int64_t pause = FIRST_PAUSE_S;
    for (int attempt = 1;; attempt++) {
        collector_send(tracer->collector, json->data, json->length, &answer);
        if (answer.outcome == COLLECTOR_TOOK)
            break;
        int64_t wanted = answer.retry_after_s > pause ? answer.retry_after_s : pause;
        if (answer.outcome == COLLECTOR_REFUSED || attempt == ATTEMPTS ||
            !pause_s(tracer, wanted < LONGEST_PAUSE_S ? wanted : LONGEST_PAUSE_S)) {
            count_dropped(tracer, spans, answer.reason);
            return;
        }
        pause *= 2;
    }
    int64_t rejected = otlp_rejected(answer.body, answer.length, spans);
    atomic_fetch_add(&tracer->sent, spans - rejected);
    if (rejected > 0)
        count_dropped(tracer, rejected, "the collector rejected the spans");
}

static void send_batch(struct tracer *tracer, int64_t count)
{
    struct writer json = {0};
    int64_t spans = 0;
    for (int64_t i = 0; i < count; i++)
        spans += request_span_count(&tracer->sending[i]);
    otlp_write(&json, &tracer->options, tracer->sending, count);
    if (json.failed)
        count_dropped(tracer, spans, "out of memory");
    else
        send_json(tracer, &json, spans);
    writer_free(&json);
}

/* Waits until the ring contains a span. After that, waits until a batch is complete, the delay is over, or the tracer
 * is being closed. The lock is held. */
static void wait_for_batch(struct tracer *tracer)
{
    while (!tracer->closing && tracer->used == 0)
        pthread_cond_wait(&tracer->changed, &tracer->lock);
    int64_t until_ns = clock_ns() + SCHEDULE_DELAY_NS;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    while (!tracer->closing && tracer->used < BATCH_REQUESTS &&
           pthread_cond_timedwait(&tracer->changed, &tracer->lock, &until) == 0)
        ;
}

/* Moves spans from the ring to `sending`, and returns their number. The lock is held. */
static int64_t take_batch(struct tracer *tracer)
{
    int64_t count = tracer->used < BATCH_REQUESTS ? tracer->used : BATCH_REQUESTS;
    for (int64_t i = 0; i < count; i++)
        tracer->sending[i] = tracer->ring[(tracer->first + i) % QUEUE_REQUESTS];
    tracer->first = (tracer->first + count) % QUEUE_REQUESTS;
    tracer->used -= count;
    return count;
}

static void *tracer_thread(void *argument)
{
    struct tracer *tracer = argument;
    pthread_mutex_lock(&tracer->lock);
    for (;;) {
        wait_for_batch(tracer);
        int64_t count = take_batch(tracer);
        if (count == 0 && tracer->closing)
            break;
        pthread_mutex_unlock(&tracer->lock);
        if (count > 0)
            send_batch(tracer, count);
        pthread_mutex_lock(&tracer->lock);
    }
    pthread_mutex_unlock(&tracer->lock);
    return NULL;
}

/* ---- Opening and closing ---- */

static void tracer_free(struct tracer *tracer)
{
    collector_close(tracer->collector);
    tracing_options_free(&tracer->options);
    free(tracer->ring);
    free(tracer->sending);
    free(tracer);
}

static int start_thread(struct tracer *tracer, struct error *error)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&tracer->lock, NULL);
    pthread_cond_init(&tracer->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    int status = pthread_create(&tracer->thread, NULL, tracer_thread, tracer);
    if (status == 0) {
        pthread_setname_np(tracer->thread, "traces");
        return 0;
    }
    pthread_cond_destroy(&tracer->changed);
    pthread_mutex_destroy(&tracer->lock);
    return thread_refused("traces", status, error);
}

int tracer_open(const char *endpoint, struct tracer **opened, struct error *error)
{
    struct tracing_options options;
    *opened = NULL;
    if (tracing_options_read(endpoint, &options, error) != 0)
        return -1;
    if (!options.url)
        return 0;
    struct tracer *tracer = calloc(1, sizeof *tracer);
    if (!tracer) {
        tracing_options_free(&options);
        return error_set(error, "out of memory");
    }
    tracer->options = options;
    tracer->seed = random_seed();
    tracer->ring = calloc(QUEUE_REQUESTS, sizeof *tracer->ring);
    tracer->sending = calloc(BATCH_REQUESTS, sizeof *tracer->sending);
    int status = tracer->ring && tracer->sending ? 0 : error_set(error, "out of memory");
    if (status == 0)
        status = collector_open(&tracer->options, &tracer->end_ns, &tracer->collector, error);
    if (status == 0)
        status = start_thread(tracer, error);
    if (status != 0) {
        tracer_free(tracer);
        return -1;
    }
    *opened = tracer;
    return 0;
}

void tracer_close(struct tracer *tracer)
{
    if (!tracer)
        return;
    atomic_store(&tracer->end_ns, clock_ns() + CLOSE_PATIENCE_NS);
    pthread_mutex_lock(&tracer->lock);
    tracer->closing = true;
    pthread_cond_signal(&tracer->changed);
    pthread_mutex_unlock(&tracer->lock);
    pthread_join(tracer->thread, NULL);
    pthread_cond_destroy(&tracer->changed);
    pthread_mutex_destroy(&tracer->lock);
    tracer_free(tracer);
}

/* ---- For callers on any thread ---- */

void tracer_begin(struct tracer *tracer, const struct trace_context *parent, struct trace *trace)
{
    memset(trace, 0, sizeof *trace);
    if (!tracer)
        return;
    trace->has_parent = parent != NULL;
    if (parent) {
        memcpy(trace->trace_id, parent->trace_id, sizeof trace->trace_id);
        memcpy(trace->parent_id, parent->span_id, sizeof trace->parent_id);
    } else {
        new_id(tracer, trace->trace_id, TRACE_ID_BYTES);
    }
    trace->sampled = sampler_takes(&tracer->options.sampler, parent, trace->trace_id);
}

static void to_calendar(int64_t *time_ns, int64_t offset_ns)
{
    if (*time_ns > 0)
        *time_ns += offset_ns;
}

/* Converts times of CLOCK_MONOTONIC to nanoseconds since 1970, with the present difference of the two clocks. */
static void convert_times(struct request_span *span)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t offset_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec - clock_ns();
    to_calendar(&span->begun_ns, offset_ns);
    to_calendar(&span->ended_ns, offset_ns);
    to_calendar(&span->queued_ns, offset_ns);
    to_calendar(&span->started_ns, offset_ns);
    to_calendar(&span->finished_ns, offset_ns);
}

void tracer_end(struct tracer *tracer, const struct trace *trace, struct request_span *span)
{
    if (!tracer || !trace->sampled)
        return;
    memcpy(span->trace_id, trace->trace_id, sizeof span->trace_id);
    memcpy(span->parent_id, trace->parent_id, sizeof span->parent_id);
    span->has_parent = trace->has_parent;
    new_id(tracer, span->span_id, SPAN_ID_BYTES);
    new_id(tracer, span->queue_id, SPAN_ID_BYTES);
    new_id(tracer, span->inference_id, SPAN_ID_BYTES);
    convert_times(span);
    pthread_mutex_lock(&tracer->lock);
    bool room = tracer->used < QUEUE_REQUESTS;
    if (room)
        tracer->ring[(tracer->first + tracer->used++) % QUEUE_REQUESTS] = *span;
    if (room && (tracer->used == 1 || tracer->used == BATCH_REQUESTS))
        pthread_cond_signal(&tracer->changed);
    pthread_mutex_unlock(&tracer->lock);
    if (!room)
        count_dropped(tracer, request_span_count(span), "the collector is too slow, so the queue is full");
}

struct tracer_counts tracer_counts(const struct tracer *tracer)
{
    if (!tracer)
        return (struct tracer_counts){0};
    return (struct tracer_counts){.sent = atomic_load(&tracer->sent), .dropped = atomic_load(&tracer->dropped)};
}
