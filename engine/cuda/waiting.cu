#include "engine/cuda/waiting.h"

#include <sched.h>
#include <time.h>

/* The thread polls for some nanoseconds before and after the expected end. Their number is an eighth of the expected
 * time, within these limits. */
#define MIN_AROUND 500000
#define MAX_AROUND 2000000

/* Nanoseconds between two checks before the thread polls. An early end is noticed at most this late. */
#define PAUSE 150000

static int64_t now_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t around(int64_t expected)
{
    int64_t nanoseconds = expected / 8 < MAX_AROUND ? expected / 8 : MAX_AROUND;
    return nanoseconds > MIN_AROUND ? nanoseconds : MIN_AROUND;
}

static cudaError_t wait_until_done(cudaEvent_t event, int64_t started, int64_t expected)
{
    const struct timespec pause = {0, PAUSE};
    int64_t from = started + expected - around(expected), until = started + expected + around(expected);
    for (int64_t now = started; now < until; now = now_nanoseconds()) {
        cudaError_t status = cudaEventQuery(event);
        if (status != cudaErrorNotReady)
            return status;
        if (now + PAUSE < from)
            nanosleep(&pause, NULL);
        else
            sched_yield();
    }
    return cudaEventSynchronize(event);
}

cudaError_t durations_wait(struct durations *durations, uint64_t hash, cudaEvent_t event)
{
    size_t place = hash % KNOWN_SHAPES;
    bool known = durations->hashes[place] == hash;
    int64_t started = now_nanoseconds();
    cudaError_t status = wait_until_done(event, started, known ? durations->nanoseconds[place] : 0);
    durations->hashes[place] = hash;
    durations->nanoseconds[place] = now_nanoseconds() - started;
    return status;
}
