/* padder: brings the items of a batch to the shape that the plan's axes ask for. The rows of the items lie one behind
 * the other; with padding "slice" and "masked" nothing is added, and an item's place is all that operations must know;
 * with "zero" every item has the axis' padded_rows, its own first; with "autopad" the next multiple of its
 * row_multiple. */
#ifndef ENGINE_PLAN_PADDER_H
#define ENGINE_PLAN_PADDER_H

#include "engine/plan/plan.h"

#define PADDER_BLOCK_ROWS 128

/* At most PADDER_BLOCK_ROWS rows of one item: the piece of work of operations that see sequences. */
struct row_block {
    int64_t item;
    int64_t first; /* row in the axis */
    int64_t rows;
};

/* Where the items' rows lie on one axis. */
struct layout {
    int64_t *starts;    /* (max_items + 1): item b has rows starts[b] … starts[b + 1] - 1 */
    int32_t *positions; /* of each row in its item, ascending; NULL: r - starts[b] */
    struct row_block *blocks;
    int64_t n_blocks;
};

/* One wanted row of the output. */
struct wanted_row {
    int64_t item;
    int64_t index; /* in the item's list */
    int64_t row;   /* of the hidden value */
};

struct batch {
    const struct engine_item *items;
    int64_t n_items;
    struct layout *layouts; /* by axis of the plan */
    struct wanted_row *wanted;
    int64_t n_wanted, max_wanted;
    uint8_t *marks; /* scratch: a byte for each row of an item */
};

static inline int64_t padder_position(const struct layout *layout, int64_t item, int64_t row)
{
    return layout->positions ? layout->positions[row] : row - layout->starts[item];
}

/* The row at a position of an item, which has to be there. */
int64_t padder_row(const struct layout *layout, int64_t item, int64_t position);

/* Room for the largest batch of the plan. On success padder_free is owed. The batch keeps nothing of the plan. */
int padder_open(const struct plan *plan, struct batch *batch, struct error *error);
void padder_free(const struct plan *plan, struct batch *batch);

/* Lays out the items; each passed model_check. Allocates nothing. */
void padder_lay_out(const struct plan *plan, struct batch *batch, const struct engine_item *items, int64_t n_items);

/* Copies the items' rows of input `index` behind each other into `rows` (ids and masks: int32_t, else float[columns]).
 * What is channels first, (columns, rows), is turned round.
 * A mask that an item does not give is 1, and so is what is beyond it but with "autopad"; else what is added is 0. */
void padder_gather(const struct plan *plan, const struct batch *batch, int index, void *rows);

/* The rows that an item gives of an input: its own, or those of the input's fallback, or of the one it is like. 0: none
 * of them is given. */
int64_t padder_length(const struct plan *plan, const struct engine_item *item, int index);

/* The sequences of a call that lie side by side in those rows; else 1. */
int64_t padder_width(const struct plan *plan, const struct engine_item *item, int index);

/* Those rows as an image, of height 1 where the input's layout is LAYOUT_CHANNELS. */
struct plan_image padder_image(const struct plan *plan, const struct engine_item *item, int index);

/* Those rows; NULL: neither is given. */
const void *padder_data(const struct plan *plan, const struct engine_item *item, int index);

/* The rows that an item has on an axis, padded ones included. */
int64_t padder_axis_rows(const struct plan *plan, const struct engine_item *item, int axis);

/* The item's image on an axis with the pixels of one. */
struct plan_image padder_axis_image(const struct plan *plan, const struct engine_item *item, int axis);

#endif
