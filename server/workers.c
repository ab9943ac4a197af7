/* workers: one queue and a few threads. The lock guards the queue and `closing`, and is not held while a task runs. */
#include "server/workers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t added;
    struct task *first, **end;
    bool closing;
    int count;
    pthread_t threads[];
};

static void *work(void *argument)
{
    struct workers *workers = argument;

    pthread_mutex_lock(&workers->lock);
    for (;;) {
        struct task *task = workers->first;

        if (task) {
            workers->first = task->next;
            if (!workers->first)
                workers->end = &workers->first;
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
    struct workers *workers = calloc(1, sizeof *workers + (size_t)count * sizeof workers->threads[0]);

    if (!workers)
        return error_set(error, "out of memory");
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->added, NULL);
    workers->end = &workers->first;
    for (; workers->count < count; workers->count++) {
        int status = pthread_create(&workers->threads[workers->count], NULL, work, workers);

        if (status) {
            workers_close(workers);
            return error_set(error, "cannot start a thread: %s", strerror(status));
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
        pthread_join(workers->threads[i], NULL);
    pthread_cond_destroy(&workers->added);
    pthread_mutex_destroy(&workers->lock);
    free(workers);
}

void workers_add(struct workers *workers, struct task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&workers->lock);
    *workers->end = task;
    workers->end = &task->next;
    pthread_cond_signal(&workers->added);
    pthread_mutex_unlock(&workers->lock);
}
