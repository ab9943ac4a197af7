#include "engine/sequences.h"
#include "engine/plan/arithmetic.h"

#include <stdlib.h>

/* Maximum number of rows that one batch computes again, for a sequence whose states are lost. Meanwhile, batches of
 * other items wait. */
#define MAX_ROWS 512
#define NOWHERE (-1)

/* Where the states of a slot are, and how many rows they include. */
struct held {
    int64_t place; /* sequences_place.number of the place. NOWHERE if the states are undefined */
    int64_t rows;  /* how many rows of the sequence the states include */
};

struct sequences {
    const struct plan *plan;
    struct held *slots;    /* (plan->n_slots): the states of each slot */
    struct batch *batches; /* for each lane: the layout of a batch that computes lost states again */
    int n_lanes;
};

int sequences_open(const struct plan *plan, int n_lanes, struct sequences **sequences, struct error *error)
{
    struct sequences *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, "out of memory while loading a model");
    opened->plan = plan;
    opened->slots = calloc((size_t)plan->n_slots, sizeof *opened->slots);
    opened->batches = calloc((size_t)n_lanes, sizeof *opened->batches);
    if (!opened->slots || !opened->batches) {
        sequences_close(opened);
        return error_set(error, "out of memory while loading a model");
    }
    for (int64_t i = 0; i < plan->n_slots; i++)
        opened->slots[i].place = NOWHERE;
    for (; opened->n_lanes < n_lanes; opened->n_lanes++)
        if (padder_open(plan, &opened->batches[opened->n_lanes], error) != 0) {
            sequences_close(opened);
            return -1;
        }
    *sequences = opened;
    return 0;
}

void sequences_close(struct sequences *sequences)
{
    if (!sequences)
        return;
    for (int i = 0; i < sequences->n_lanes; i++)
        padder_free(sequences->plan, &sequences->batches[i]);
    free(sequences->batches);
    free(sequences->slots);
    free(sequences);
}

/* Returns an item with rows [first, first + rows) of `whole`, as a part of its sequence. */
static struct engine_item part_of(const struct plan *plan, const struct engine_item *whole, int64_t slot, int64_t first,
                                  int64_t rows)
{
    int input = plan->axes[plan->resumed_axis].input;
    int64_t columns = plan->inputs[input].input.columns; /* elements are ids or floats, both of 4 bytes */
    struct engine_item part = {.slot = slot, .first = first};
    for (int i = 0; first == 0 && i < plan->n_inputs; i++)
        part.inputs[i] = whole->inputs[i];
    part.inputs[input] = whole->inputs[input];
    part.inputs[input].data = (const char *)whole->inputs[input].data + first * columns * (int64_t)sizeof(float);
    part.inputs[input].length = rows;
    return part;
}

static int compute_again(struct sequences *sequences, struct sequences_place place, int lane,
                         const struct engine_item *item, struct error *error)
{
    const struct plan *plan = sequences->plan;
    struct batch *batch = &sequences->batches[lane];
    if (!item->earlier) {
        error_set(error, "the device no longer has the first %lld rows of a sequence", (long long)item->first);
        return BACKEND_REFUSED;
    }
    for (int64_t first = 0; first < item->first;) {
        int64_t rows = least(least(MAX_ROWS, plan->max_rows), item->first - first);
        struct engine_item part = part_of(plan, item->earlier, item->slot, first, rows);
        padder_lay_out(plan, batch, &part, 1);
        int status = place.functions->run(place.resident, place.lane, batch, error);
        if (status != 0)
            return status;
        first += rows;
    }
    return 0;
}

/* How many rows of its sequence the item contains. */
static int64_t rows_of(const struct plan *plan, const struct engine_item *item)
{
    return padder_length(plan, item, plan->axes[plan->resumed_axis].input);
}

int sequences_run(struct sequences *sequences, struct sequences_place place, int lane, const struct batch *batch,
                  struct error *error)
{
    const struct plan *plan = sequences->plan;
    for (int64_t i = 0; i < batch->n_items; i++) {
        const struct engine_item *item = &batch->items[i];
        if (item->slot == 0)
            continue;
        struct held *held = &sequences->slots[item->slot - 1];
        bool lost = held->place != place.number || held->rows != item->first;
        held->place = NOWHERE; /* a batch that fails may leave undefined states */
        int status = item->first > 0 && lost ? compute_again(sequences, place, lane, item, error) : 0;
        if (status != 0)
            return status;
    }
    int status = place.functions->run(place.resident, place.lane, batch, error);
    for (int64_t i = 0; status == 0 && i < batch->n_items; i++) {
        const struct engine_item *item = &batch->items[i];
        if (item->slot > 0)
            sequences->slots[item->slot - 1] = (struct held){place.number, item->first + rows_of(plan, item)};
    }
    return status;
}
