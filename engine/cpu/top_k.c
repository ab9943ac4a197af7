/* The caller's arrays contain a heap of the largest values so far, with the smallest of them at the root. At the end,
 * the heap is sorted. */
#include "engine/cpu/top_k.h"

#include <math.h>
#include <stdbool.h>

struct heap {
    int32_t *columns;
    float *values;
    int64_t count;
};

static bool is_better(float value, int32_t column, float other_value, int32_t other_column)
{
    if (isnan(value) || isnan(other_value))
        return isnan(value) && (!isnan(other_value) || column < other_column);
    return value > other_value || (value == other_value && column < other_column);
}

static bool place_is_worse(const struct heap *heap, int64_t a, int64_t b)
{
    return is_better(heap->values[b], heap->columns[b], heap->values[a], heap->columns[a]);
}

static void swap(struct heap *heap, int64_t a, int64_t b)
{
    float value = heap->values[a];
    int32_t column = heap->columns[a];
    heap->values[a] = heap->values[b];
    heap->columns[a] = heap->columns[b];
    heap->values[b] = value;
    heap->columns[b] = column;
}

/* Moves the value at `place` down until both values below it are larger. */
static void sink(struct heap *heap, int64_t place)
{
    for (;;) {
        int64_t worst = place;
        for (int64_t child = 2 * place + 1; child <= 2 * place + 2; child++)
            if (child < heap->count && place_is_worse(heap, child, worst))
                worst = child;
        if (worst == place)
            return;
        swap(heap, place, worst);
        place = worst;
    }
}

void top_k(int64_t columns, const float *values, int64_t count, int32_t *top_columns, float *top_values)
{
    struct heap heap = {top_columns, top_values, count};
    for (int64_t c = 0; c < count; c++) {
        top_values[c] = values[c];
        top_columns[c] = (int32_t)c;
    }
    for (int64_t place = count / 2 - 1; place >= 0; place--)
        sink(&heap, place);
    for (int64_t c = count; c < columns; c++) {
        if (!is_better(values[c], (int32_t)c, top_values[0], top_columns[0]))
            continue;
        top_values[0] = values[c];
        top_columns[0] = (int32_t)c;
        sink(&heap, 0);
    }
    while (heap.count > 1) { /* the smallest remaining value moves to the end */
        swap(&heap, 0, --heap.count);
        sink(&heap, 0);
    }
}
