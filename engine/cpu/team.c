#define _GNU_SOURCE /* for gettid and tgkill */
#include "engine/cpu/team.h"

#include <ctype.h>
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A thread that is started only to test whether the system allows it. */
struct trial {
    pthread_t thread;
    pthread_mutex_t *gate; /* locked by the starting thread until all threads are started */
    pid_t id;
};

/* The number of bytes that the text of OMP_STACKSIZE or GOMP_STACKSIZE requests. The text is a number with the unit b,
 * k, m or g. Without a unit, the number counts KiB. Returns 0 if the variable is not set or not valid. */
static size_t stack_bytes(const char *text)
{
    static const char units[] = "bkmg";
    if (!text)
        return 0;
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    while (isspace((unsigned char)*end))
        end++;
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : units + 1;
    int shift = unit ? 10 * (int)(unit - units) : 0;
    return unit && number <= SIZE_MAX >> shift ? (size_t)number << shift : 0;
}

static void *wait_at_gate(void *argument)
{
    struct trial *trial = argument;
    trial->id = gettid();
    pthread_mutex_lock(trial->gate);
    pthread_mutex_unlock(trial->gate);
    return NULL;
}

/* Waits until the Linux kernel no longer counts the thread. This happens a little after pthread_join returns. */
static void end_trial(const struct trial *trial)
{
    pthread_join(trial->thread, NULL);
    while (tgkill(getpid(), trial->id, 0) == 0)
        sched_yield();
}

/* Tries to start `count` threads that run at the same time, with stacks like OpenMP's. Returns 0, or the error of
 * pthread_create. */
static int try_threads(int count)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t attributes;
    struct trial *trials = calloc((size_t)count, sizeof *trials);
    if (!trials)
        return ENOMEM;
    const char *size = getenv("OMP_STACKSIZE");
    size_t stack = stack_bytes(size ? size : getenv("GOMP_STACKSIZE"));
    pthread_attr_init(&attributes);
    if (stack > 0)
        pthread_attr_setstacksize(&attributes, stack); /* a refused size is ignored, as in libgomp */
    int started = 0, failure = 0;
    pthread_mutex_lock(&gate);
    for (; started < count && failure == 0; started += failure == 0) {
        trials[started].gate = &gate;
        failure = pthread_create(&trials[started].thread, &attributes, wait_at_gate, &trials[started]);
    }
    pthread_mutex_unlock(&gate);
    while (started > 0)
        end_trial(&trials[--started]);
    pthread_attr_destroy(&attributes);
    free(trials);
    return failure;
}

int team_start(int threads, struct error *error)
{
    static _Thread_local int most = 1; /* the size of the caller's team */
    if (threads <= most)
        return 0;
    int failure = try_threads(threads - 1);
    if (failure != 0)
        return error_set(error,
                         "%d compute threads (--threads) cannot be started: %s; is the number of threads limited "
                         "(ulimit -u, a container's pids.max), or memory (ulimit -v)?",
                         threads, strerror(failure));
    omp_set_dynamic(0); /* teams keep their size, because a smaller team would end threads, and the next team would
                           start them again */
#pragma omp parallel num_threads(threads)
    (void)omp_get_thread_num(); /* the region must not be empty, because the compiler may remove an empty region */
    most = threads;
    return 0;
}
