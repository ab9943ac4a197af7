/* signals: the lock guards the phase and what was received; the thread that waits for signals and the caller's use
 * them.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server/signals.h"

#include "server/clock.h"
#include "server/log.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAME_SIGNAL_NS INT64_C(100000000) /* timeout(1) and others send it twice: to the process and its group */

enum phase { PHASE_STARTING, PHASE_SERVING, PHASE_DRAINING, PHASE_ENDED };

struct signals {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum phase phase;
    int received; /* the one that began the draining, and when */
    int64_t received_ns;
};

static sigset_t signals_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

void signals_block(void)
{
    sigset_t set = signals_set();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Returns whether the process ends at once: by any signal while it starts, and by SIGINT once it drains, which is
 * somebody at a keyboard. Supervisors send SIGTERM again and again: that is no second wish.
 */
static bool signals_take(struct signals *signals, int number)
{
    bool end = false;
    pthread_mutex_lock(&signals->lock);
    if (signals->phase == PHASE_SERVING) {
        signals->phase = PHASE_DRAINING;
        signals->received = number;
        signals->received_ns = clock_ns();
        pthread_cond_signal(&signals->changed);
    } else if (signals->phase != PHASE_ENDED) {
        bool same = number == signals->received && clock_ns() - signals->received_ns < SAME_SIGNAL_NS;
        end = signals->phase == PHASE_STARTING || (number == SIGINT && !same);
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
    sigset_t set = signals_set();
    while (!signals_ended(signals)) {
        int number = 0;
        if (sigwait(&set, &number) == 0 && signals_take(signals, number)) {
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
    signals->phase = PHASE_STARTING;
    pthread_mutex_init(&signals->lock, NULL);
    pthread_cond_init(&signals->changed, NULL);
    int status = pthread_create(&signals->thread, NULL, signals_thread, signals);
    if (status != 0) {
        pthread_cond_destroy(&signals->changed);
        pthread_mutex_destroy(&signals->lock);
        free(signals);
        return error_set(error, "no thread for signals: %s", strerror(status));
    }
    pthread_setname_np(signals->thread, "signals");
    *opened = signals;
    return 0;
}

void signals_expect(struct signals *signals)
{
    pthread_mutex_lock(&signals->lock);
    signals->phase = PHASE_SERVING;
    pthread_mutex_unlock(&signals->lock);
}

int signals_wait(struct signals *signals)
{
    pthread_mutex_lock(&signals->lock);
    while (!signals->received)
        pthread_cond_wait(&signals->changed, &signals->lock);
    pthread_mutex_unlock(&signals->lock);
    return signals->received;
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
