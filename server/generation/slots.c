#include "server/generation/slots.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct slots {
    pthread_mutex_t lock; /* guards `free` and `n_free` */
    int64_t count, n_free;
    int64_t free[]; /* (count), the first n_free are the numbers of free slots */
};

struct slots *slots_open(int64_t count)
{
    struct slots *slots = malloc(sizeof *slots + (size_t)count * sizeof *slots->free);
    if (!slots)
        return NULL;
    pthread_mutex_init(&slots->lock, NULL);
    slots->count = slots->n_free = count;
    for (int64_t i = 0; i < count; i++)
        slots->free[i] = count - i; /* low numbers are taken first: their memory is in use already */
    return slots;
}

void slots_close(struct slots *slots)
{
    if (!slots)
        return;
    assert(slots->n_free == slots->count);
    pthread_mutex_destroy(&slots->lock);
    free(slots);
}

int slots_take(struct slots *slots, int64_t count, int64_t *numbers)
{
    pthread_mutex_lock(&slots->lock);
    int status = count <= slots->n_free ? 0 : -1;
    for (int64_t i = 0; status == 0 && i < count; i++)
        numbers[i] = slots->free[--slots->n_free];
    pthread_mutex_unlock(&slots->lock);
    return status;
}

void slots_give(struct slots *slots, int64_t count, const int64_t *numbers)
{
    pthread_mutex_lock(&slots->lock);
    for (int64_t i = count - 1; i >= 0; i--)
        slots->free[slots->n_free++] = numbers[i];
    assert(slots->n_free <= slots->count);
    pthread_mutex_unlock(&slots->lock);
}

int64_t slots_used(struct slots *slots)
{
    pthread_mutex_lock(&slots->lock);
    int64_t used = slots->count - slots->n_free;
    pthread_mutex_unlock(&slots->lock);
    return used;
}

int64_t slots_count(const struct slots *slots)
{
    return slots->count;
}
