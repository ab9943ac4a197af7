/* signals: the handled signals are blocked in all threads, and one thread waits for them with sigwait. The lock guards
 * the members below it. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server/signals.h"

#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/common/thread.h"
#include "server/reloads.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* If the same signal comes again within this time, it counts as one signal. For example, timeout(1) sends a signal to
 * the process and to its group. */
#define SAME_SIGNAL_NS INT64_C(100000000)

enum phase { PHASE_STARTING, PHASE_SERVING, PHASE_DELAYING, PHASE_DRAINING, PHASE_ENDED };

struct signals {
    sigset_t set;
    pthread_t thread;
    struct log_limit limit; /* limits the number of log lines about signals without an effect */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when the phase changes. Uses CLOCK_MONOTONIC */
    enum phase phase;
    struct reloads *reloads; /* NULL until signals_expect */
    bool hung_up;            /* SIGHUP was received during the start */
    int received;            /* the signal that began this phase. 0 if there was none yet */
    int64_t received_ns;     /* time at which `received` arrived */
};

static void signals_block(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGXCPU);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGHUP, SIG_DFL); /* nohup sets SIGHUP to be ignored, and sigwait need not return an ignored signal */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* Begins a phase because of a signal. The lock is held. */
static void signals_enter(struct signals *signals, enum phase phase, int number)
{
    signals->phase = phase;
    signals->received = number;
    signals->received_ns = clock_ns();
    pthread_cond_broadcast(&signals->changed);
}

/* Handles SIGHUP. The function holds the lock while it calls reloads_request, so that reloads_request is called only in
 * the phase PHASE_SERVING. */
static void signals_hang_up(struct signals *signals)
{
    pthread_mutex_lock(&signals->lock);
    if (signals->phase == PHASE_STARTING)
        signals->hung_up = true;
    else if (signals->phase == PHASE_SERVING)
        reloads_request(signals->reloads);
    pthread_mutex_unlock(&signals->lock);
}

/* Handles a signal that drains. Returns whether the process must end at once. A second SIGINT comes from a user at a
 * keyboard who does not want to wait. Supervisors repeat SIGTERM, so a second SIGTERM has no further effect. */
static bool signals_take(struct signals *signals, int number)
{
    bool end = false;
    pthread_mutex_lock(&signals->lock);
    bool same = number == signals->received && clock_ns() - signals->received_ns < SAME_SIGNAL_NS;
    switch (signals->phase) {
    case PHASE_STARTING:
        end = true;
        break;
    case PHASE_SERVING:
        signals_enter(signals, PHASE_DRAINING, number);
        break;
    case PHASE_DELAYING:
        if (number == SIGINT)
            signals_enter(signals, PHASE_DRAINING, number);
        break;
    case PHASE_DRAINING:
        end = number == SIGINT && !same;
        break;
    case PHASE_ENDED:
        break;
    }
    pthread_mutex_unlock(&signals->lock);
    return end;
}

static bool signals_ended(struct signals *signals)
{
    pthread_mutex_lock(&signals->lock);
    bool ended = signals->phase == PHASE_ENDED;
    pthread_mutex_unlock(&signals->lock);
    return ended;
}

static void *signals_thread(void *argument)
{
    struct signals *signals = argument;
    while (!signals_ended(signals)) {
        int number = 0;
        if (sigwait(&signals->set, &number) != 0)
            continue;
        if (number == SIGHUP) {
            signals_hang_up(signals);
        } else if (number == SIGUSR1 || number == SIGUSR2) {
            log_write_limited(&signals->limit, LOG_LEVEL_INFO, "ignored a signal", "signal", strsignal(number), NULL);
        } else if (signals_take(signals, number)) {
            log_write(LOG_LEVEL_WARNING, "ended by a signal", "signal", strsignal(number), NULL);
            log_flush();
            _exit(128 + number);
        }
    }
    return NULL;
}

int signals_open(struct signals **opened, struct error *error)
{
    struct signals *signals = calloc(1, sizeof *signals);
    if (!signals)
        return error_set(error, "out of memory");
    signals_block(&signals->set);
    signals->phase = PHASE_STARTING;
    pthread_mutex_init(&signals->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&signals->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    int status = pthread_create(&signals->thread, NULL, signals_thread, signals);
    if (status != 0) {
        pthread_cond_destroy(&signals->changed);
        pthread_mutex_destroy(&signals->lock);
        free(signals);
        return thread_refused("signals", status, error);
    }
    pthread_setname_np(signals->thread, "signals");
    *opened = signals;
    return 0;
}

void signals_expect(struct signals *signals, struct reloads *reloads)
{
    pthread_mutex_lock(&signals->lock);
    signals->reloads = reloads;
    signals->phase = PHASE_SERVING;
    if (signals->hung_up)
        reloads_request(reloads);
    pthread_mutex_unlock(&signals->lock);
}

int signals_wait(struct signals *signals)
{
    pthread_mutex_lock(&signals->lock);
    while (signals->received == 0)
        pthread_cond_wait(&signals->changed, &signals->lock);
    int number = signals->received;
    pthread_mutex_unlock(&signals->lock);
    return number;
}

void signals_delay(struct signals *signals, int64_t milliseconds)
{
    int64_t until_ns = clock_ns() + milliseconds * 1000000;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_mutex_lock(&signals->lock);
    if (signals->received != SIGINT)
        signals->phase = PHASE_DELAYING;
    while (signals->phase == PHASE_DELAYING && pthread_cond_timedwait(&signals->changed, &signals->lock, &until) == 0)
        ;
    signals->phase = PHASE_DRAINING;
    pthread_mutex_unlock(&signals->lock);
}

void signals_close(struct signals *signals)
{
    pthread_mutex_lock(&signals->lock);
    signals->phase = PHASE_ENDED;
    pthread_mutex_unlock(&signals->lock);
    pthread_kill(signals->thread, SIGTERM);
    pthread_join(signals->thread, NULL);
    pthread_cond_destroy(&signals->changed);
    pthread_mutex_destroy(&signals->lock);
    free(signals);
}
