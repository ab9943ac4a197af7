/* watchdog: the checks may wait for the locks of the event loops and of the batcher. If a thread never releases such a
 * lock, the watchdog is not fed either, as intended. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server/watchdog.h"

#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/common/thread.h"
#include "server/http/http.h"
#include "server/jobs/batcher.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOKS = 4 /* number of checks in the time of WATCHDOG_USEC */ };

struct watchdog {
    const struct notifier *notifier;
    struct http *http;
    struct batcher *batcher;
    int64_t period_ns; /* time between two checks */
    bool stuck;        /* the last check found no progress. Only the thread uses it */
    pthread_t thread;
    pthread_mutex_t lock; /* guards `closing` */
    pthread_cond_t changed;
    bool closing;
};

/* Returns the time after which the service manager gives up, in microseconds. Returns 0 if the service manager does not
 * watch this process. */
static int64_t wanted_us(void)
{
    const char *time = getenv("WATCHDOG_USEC"), *process = getenv("WATCHDOG_PID");
    char *end = NULL;
    if (!time || (process && strtol(process, NULL, 10) != (long)getpid()))
        return 0;
    errno = 0;
    long long microseconds = strtoll(time, &end, 10);
    return errno == 0 && *end == '\0' && microseconds > 0 && microseconds < INT64_MAX / 1000 ? microseconds : 0;
}

static void look(struct watchdog *watchdog)
{
    bool loops = http_turns(watchdog->http), batches = batcher_progresses(watchdog->batcher);
    bool stuck = !loops || !batches;
    if (!stuck)
        notifier_feed(watchdog->notifier);
    if (stuck && !watchdog->stuck)
        log_write(LOG_LEVEL_ERROR, "no progress; the service manager's watchdog is not notified", "where",
                  !loops ? "an event loop" : "a batch", NULL);
    if (!stuck && watchdog->stuck)
        log_write(LOG_LEVEL_WARNING, "progress again; the service manager's watchdog is notified", NULL);
    watchdog->stuck = stuck;
}

static void *watchdog_thread(void *argument)
{
    struct watchdog *watchdog = argument;
    pthread_mutex_lock(&watchdog->lock);
    while (!watchdog->closing) {
        pthread_mutex_unlock(&watchdog->lock);
        look(watchdog);
        pthread_mutex_lock(&watchdog->lock);
        int64_t until_ns = clock_ns() + watchdog->period_ns;
        struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
        while (!watchdog->closing && pthread_cond_timedwait(&watchdog->changed, &watchdog->lock, &until) == 0)
            ;
    }
    pthread_mutex_unlock(&watchdog->lock);
    return NULL;
}

static void watchdog_free(struct watchdog *watchdog)
{
    pthread_cond_destroy(&watchdog->changed);
    pthread_mutex_destroy(&watchdog->lock);
    free(watchdog);
}

int watchdog_open(const struct notifier *notifier, struct http *http, struct batcher *batcher, struct watchdog **opened,
                  struct error *error)
{
    int64_t microseconds = wanted_us();
    *opened = NULL;
    if (microseconds == 0 || notifier->fd < 0)
        return 0;
    struct watchdog *watchdog = calloc(1, sizeof *watchdog);
    if (!watchdog)
        return error_set(error, "out of memory");
    *watchdog = (struct watchdog){
        .notifier = notifier, .http = http, .batcher = batcher, .period_ns = microseconds * 1000 / LOOKS};
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&watchdog->lock, NULL);
    int status = pthread_create(&watchdog->thread, NULL, watchdog_thread, watchdog);
    if (status != 0) {
        watchdog_free(watchdog);
        return thread_refused("the watchdog", status, error);
    }
    pthread_setname_np(watchdog->thread, "watchdog");
    *opened = watchdog;
    return 0;
}

void watchdog_close(struct watchdog *watchdog)
{
    if (!watchdog)
        return;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->closing = true;
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->lock);
    pthread_join(watchdog->thread, NULL);
    watchdog_free(watchdog);
}
