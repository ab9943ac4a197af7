#include "engine/cuda/fastest.h"

#include <time.h>

#define MIN_MILLISECONDS 0.4f /* minimum duration of a measurement, because events are some microseconds late */
#ifndef MAX_REPETITIONS
/* Maximum number of launches in a measurement. More launches would wait for room in the stream's queue. */
#define MAX_REPETITIONS 128
#endif
/* Number of measurements. The shortest measurement counts, because disturbances can only prolong a measurement. */
#define MEASUREMENTS 3
/* An algorithm that takes more than this factor times the least time is not measured again. */
#define HOPELESS 1.3f
#define CLEARLY_FASTER 0.97f /* a clearly faster algorithm takes less than this factor times the other time */
/* A clearly faster algorithm takes at least this much less time. A smaller difference may be chance. */
#define MILLISECONDS_FASTER 0.001f
#define CYCLES_TO_LAUNCH 10000 /* clock cycles for each launch: 5 microseconds at 2 GHz */

int stopwatch_open(struct stopwatch *watch, struct error *error)
{
    cudaEvent_t *events[] = {&watch->begin, &watch->end};
    for (cudaEvent_t *event : events)
        if (cuda_open_event(event, cudaEventDefault, error) != 0)
            return -1;
    return 0;
}

void stopwatch_free(struct stopwatch *watch)
{
    if (watch->begin)
        cudaEventDestroy(watch->begin);
    if (watch->end)
        cudaEventDestroy(watch->end);
}

static double now_milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static __global__ void let_time_pass(int64_t cycles)
{
    int64_t begin = clock64();
    while (clock64() - begin < cycles)
        ;
}

/* Keeps the stream busy until all products are launched. The device may compute a small product faster than the host
 * launches it. The measurement must not contain the time of launches, because graphs avoid it. */
static void hold_up(struct cuda_run *run, int launches)
{
    struct cuda_run now = *run;
    now.choosing = false;
    launch(&now, let_time_pass, 1, 1, WARP, launches * (int64_t)CYCLES_TO_LAUNCH);
    note(run, now.status);
}

/* Returns the milliseconds of `repetitions` consecutive launches. The result is negative if the algorithm cannot run,
 * or if the device failed. */
static float measure(struct cuda_run *run, struct stopwatch *watch, int repetitions, int number,
                     const launch_algorithm &launch)
{
    float milliseconds = 0;
    bool runs = true;
    pthread_mutex_lock(run->submitting);
    hold_up(run, repetitions);
    note(run, cudaEventRecord(watch->begin, run->stream));
    for (int i = 0; i < repetitions && runs; i++)
        runs = launch(number);
    note(run, cudaEventRecord(watch->end, run->stream));
    pthread_mutex_unlock(run->submitting);
    if (has_not_failed(run))
        note(run, cudaEventSynchronize(watch->end));
    if (has_not_failed(run))
        note(run, cudaEventElapsedTime(&milliseconds, watch->begin, watch->end));
    return runs && has_not_failed(run) ? milliseconds : -1;
}

/* Returns the milliseconds of one launch. `least` is the time of the fastest algorithm so far, or 0 if there is none.
 * *repetitions is raised until a measurement lasts long enough. The result is negative in the same cases as that of
 * `measure`. */
static float time_of(struct cuda_run *run, struct stopwatch *watch, float least, int *repetitions, int number,
                     const launch_algorithm &launch)
{
    /* The first launch is not measured, because CUDA may have to load the kernel. */
    float shortest = measure(run, watch, 1, number, launch);
    if (shortest < 0)
        return -1;
    while ((shortest = measure(run, watch, *repetitions, number, launch)) >= 0 && shortest < MIN_MILLISECONDS &&
           *repetitions < MAX_REPETITIONS)
        *repetitions *= 2;
    float each = (float)*repetitions;
    for (int i = 1; i < MEASUREMENTS && shortest >= 0; i++) {
        if (least > 0 && shortest / each > least * HOPELESS)
            break;
        float again = measure(run, watch, *repetitions, number, launch);
        shortest = again < shortest ? again : shortest;
    }
    return shortest / each;
}

static bool is_clearly_faster(float milliseconds, float others)
{
    return milliseconds < others * CLEARLY_FASTER && milliseconds < others - MILLISECONDS_FASTER;
}

/* Measures the first algorithm again, and returns whether it is as fast as the fastest algorithm. Its earlier
 * measurement was the first of all, perhaps while the device was still raising its clock rate. */
static bool is_as_fast(struct cuda_run *run, struct stopwatch *watch, float least, int *repetitions,
                       const launch_algorithm &launch)
{
    float milliseconds = time_of(run, watch, least, repetitions, 0, launch);
    return milliseconds >= 0 && !is_clearly_faster(least, milliseconds);
}

int fastest_find(struct cuda_run *run, struct stopwatch *watch, int count, const launch_algorithm &launch)
{
    int fastest = -1, repetitions = 1;
    float least = 0;
    if (count <= 1 || run->tuning_milliseconds <= 0)
        return count > 0 ? 0 : -1;
    double started = now_milliseconds(), end = started + run->tuning_milliseconds;
    for (int i = 0; i < count && has_not_failed(run) && (fastest < 0 || now_milliseconds() < end); i++) {
        float milliseconds = time_of(run, watch, least, &repetitions, i, launch);
        if (milliseconds < 0 || (fastest >= 0 && !is_clearly_faster(milliseconds, least)))
            continue;
        fastest = i;
        least = milliseconds;
    }
    if (fastest > 0 && is_as_fast(run, watch, least, &repetitions, launch))
        fastest = 0;
    run->tuning_milliseconds -= now_milliseconds() - started;
    return fastest;
}
