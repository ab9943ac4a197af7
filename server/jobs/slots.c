#include "server/jobs/slots.h"

#include <assert.h>
#include <stdlib.h>

struct slots {
    int64_t count, n_free;
    int64_t free[]; /* an array of `count` elements. The first n_free elements are the numbers of the free slots */
};

struct slots *slots_open(int64_t count)
{
    struct slots *slots = malloc(sizeof *slots + (size_t)count * sizeof *slots->free);
    if (!slots)
        return NULL;
    slots->count = slots->n_free = count;
    for (int64_t i = 0; i < count; i++)
        /* The lowest numbers are at the end and taken first, because their memory may already be resident. */
        slots->free[i] = count - i;
    return slots;
}

void slots_close(struct slots *slots)
{
    assert(!slots || slots->n_free == slots->count);
    free(slots);
}

int slots_take(struct slots *slots, int64_t count, int64_t *numbers)
{
    if (count > slots->n_free)
        return -1;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = slots->free[--slots->n_free];
    return 0;
}

void slots_give(struct slots *slots, int64_t count, const int64_t *numbers)
{
    assert(count <= slots->count - slots->n_free);
    for (int64_t i = count - 1; i >= 0; i--)
        slots->free[slots->n_free++] = numbers[i];
}

int64_t slots_used(const struct slots *slots)
{
    return slots->count - slots->n_free;
}

int64_t slots_count(const struct slots *slots)
{
    return slots->count;
}
