/* workers: one queue and a few threads. The lock guards the queue and `closing`. The lock is not held while a task
 * runs.
 *
 * The queue is sorted by rounds. In a round each peer (a client, workers.h) has at most one task that waits or runs. If
 * tasks of the same peer wait or run, the round of a new task follows the round of the last such task. Otherwise the
 * new task joins the current round. Adding a task compares it with all waiting tasks. There are few waiting tasks,
 * because each one holds a body, and the memory of bodies is limited. */
#include "server/http/workers.h"

#include "server/common/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct worker {
    struct workers *workers;
    pthread_t thread;
    bool busy; /* the worker runs a task with the `peer` and `round` below */
    uint64_t peer;
    int64_t round;
};

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t added;
    struct task *first;
    int64_t round; /* the current round: the round of the task that was started last */
    bool closing;
    int count;
    struct worker list[];
};

/* Removes the first task from the queue, and records its peer and round in the worker. Returns NULL if no task waits.
 * The lock is held. */
static struct task *take_task(struct worker *worker)
{
    struct workers *workers = worker->workers;
    struct task *task = workers->first;
    worker->busy = task != NULL;
    if (!task)
        return NULL;
    workers->first = task->next;
    workers->round = task->round;
    worker->peer = task->peer;
    worker->round = task->round;
    return task;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct workers *workers = worker->workers;
    pthread_mutex_lock(&workers->lock);
    for (;;) {
        struct task *task = take_task(worker);
        if (task) {
            pthread_mutex_unlock(&workers->lock);
            task->run(task);
            pthread_mutex_lock(&workers->lock);
        } else if (workers->closing) {
            break;
        } else {
            pthread_cond_wait(&workers->added, &workers->lock);
        }
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

int workers_open(int count, struct workers **opened, struct error *error)
{
    struct workers *workers = calloc(1, sizeof *workers + (size_t)count * sizeof workers->list[0]);
    if (!workers)
        return error_set(error, "out of memory");
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->added, NULL);
    for (; workers->count < count; workers->count++) {
        struct worker *worker = &workers->list[workers->count];
        worker->workers = workers;
        int status = pthread_create(&worker->thread, NULL, work, worker);
        if (status != 0) {
            workers_close(workers);
            return thread_refused("large bodies", status, error);
        }
    }
    *opened = workers;
    return 0;
}

void workers_close(struct workers *workers)
{
    if (!workers)
        return;
    pthread_mutex_lock(&workers->lock);
    workers->closing = true;
    pthread_cond_broadcast(&workers->added);
    pthread_mutex_unlock(&workers->lock);
    for (int i = 0; i < workers->count; i++)
        pthread_join(workers->list[i].thread, NULL);
    pthread_cond_destroy(&workers->added);
    pthread_mutex_destroy(&workers->lock);
    free(workers);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void workers_add(struct workers *workers, struct task *task)
{
    struct task **place = &workers->first;
    pthread_mutex_lock(&workers->lock);
    task->round = workers->round;
    for (int i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->list[i];
        if (worker->busy && worker->peer == task->peer)
            task->round = later(task->round, worker->round + 1);
    }
    for (const struct task *other = workers->first; other; other = other->next) {
        if (other->peer == task->peer)
            task->round = later(task->round, other->round + 1);
    }
    while (*place && (*place)->round <= task->round)
        place = &(*place)->next;
    task->next = *place;
    *place = task;
    pthread_cond_signal(&workers->added);
    pthread_mutex_unlock(&workers->lock);
}
