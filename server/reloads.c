#define _GNU_SOURCE /* pthread_setname_np */
#include "server/reloads.h"

#include "server/common/log.h"
#include "server/common/thread.h"

#include <pthread.h>
#include <stdlib.h>

struct reloads {
    const struct reload_hook *hooks; /* an array of `count` hooks */
    size_t count;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the members below. It is not held while a hook runs */
    pthread_cond_t changed;
    bool wanted, running, closing;
};

static bool is_closing(struct reloads *reloads)
{
    pthread_mutex_lock(&reloads->lock);
    bool closing = reloads->closing;
    pthread_mutex_unlock(&reloads->lock);
    return closing;
}

static void run_hooks(struct reloads *reloads)
{
    log_write(LOG_LEVEL_INFO, "reloading after SIGHUP", NULL);
    for (size_t i = 0; i < reloads->count && !is_closing(reloads); i++)
        reloads->hooks[i].reload(reloads->hooks[i].context);
}

static void *reloads_thread(void *argument)
{
    struct reloads *reloads = argument;
    pthread_mutex_lock(&reloads->lock);
    while (!reloads->closing) {
        if (!reloads->wanted) {
            pthread_cond_wait(&reloads->changed, &reloads->lock);
            continue;
        }
        reloads->wanted = false;
        reloads->running = true;
        pthread_mutex_unlock(&reloads->lock);
        run_hooks(reloads);
        pthread_mutex_lock(&reloads->lock);
        reloads->running = false;
    }
    pthread_mutex_unlock(&reloads->lock);
    return NULL;
}

static void reloads_free(struct reloads *reloads)
{
    pthread_cond_destroy(&reloads->changed);
    pthread_mutex_destroy(&reloads->lock);
    free(reloads);
}

int reloads_open(const struct reload_hook *hooks, size_t count, struct reloads **opened, struct error *error)
{
    struct reloads *reloads = calloc(1, sizeof *reloads);
    if (!reloads)
        return error_set(error, "out of memory");
    reloads->hooks = hooks;
    reloads->count = count;
    pthread_mutex_init(&reloads->lock, NULL);
    pthread_cond_init(&reloads->changed, NULL);
    int status = pthread_create(&reloads->thread, NULL, reloads_thread, reloads);
    if (status != 0) {
        reloads_free(reloads);
        return thread_refused("reloads", status, error);
    }
    pthread_setname_np(reloads->thread, "reloads");
    *opened = reloads;
    return 0;
}

void reloads_request(struct reloads *reloads)
{
    pthread_mutex_lock(&reloads->lock);
    reloads->wanted = true;
    pthread_cond_signal(&reloads->changed);
    pthread_mutex_unlock(&reloads->lock);
}

void reloads_stop(struct reloads *reloads)
{
    pthread_mutex_lock(&reloads->lock);
    reloads->closing = true;
    pthread_cond_signal(&reloads->changed);
    pthread_mutex_unlock(&reloads->lock);
}

bool reloads_busy(struct reloads *reloads)
{
    pthread_mutex_lock(&reloads->lock);
    bool running = reloads->running;
    pthread_mutex_unlock(&reloads->lock);
    return running;
}

void reloads_leave(struct reloads *reloads)
{
    pthread_detach(reloads->thread);
}

void reloads_close(struct reloads *reloads)
{
    reloads_stop(reloads);
    pthread_join(reloads->thread, NULL);
    reloads_free(reloads);
}
