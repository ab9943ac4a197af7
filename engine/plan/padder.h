/* padder: lays out the items of a batch on the plan's axes. The rows of the items follow one another. With padding
 * "slice" and "masked" no rows are added. With "zero" each item has padded.rows rows of its axis, its own rows first.
 * With "autopad" its rows are rounded up to the next multiple of padded.multiple. */
#ifndef ENGINE_PLAN_PADDER_H
#define ENGINE_PLAN_PADDER_H

#include "engine/plan/plan.h"

#define PADDER_BLOCK_ROWS 128

/* At most PADDER_BLOCK_ROWS rows of one sequence: a unit of work for operations over sequences. */
struct row_block {
    int64_t sequence;
    int64_t first; /* row in the axis */
    int64_t rows;
};

/* The rows of the batch's items on one axis. The sequences of an item follow one another. On most axes an item is one
 * sequence; see plan_sequences. */
struct layout {
    int64_t n_sequences;  /* of all items */
    int64_t *starts;      /* (n_sequences + 1): sequence s has rows starts[s] … starts[s + 1] - 1 */
    int64_t *item_starts; /* (n_items + 1): the same for items. It is `starts` if each item is one sequence */
    int32_t *positions;   /* of each row in its sequence, ascending; NULL: r - starts[s] */
    struct row_block *blocks;
    int64_t n_blocks;
};

/* One requested row of the output. */
struct wanted_row {
    int64_t item;
    int64_t index; /* in the item's list */
    int64_t row;   /* of the hidden value */
};

struct batch {
    const struct engine_item *items;
    int64_t n_items;
    struct layout *layouts; /* by axis of the plan */
    int64_t *sizes;         /* (items, plan->n_sizes): the value of each size for each item */
    struct wanted_row *wanted;
    int64_t n_wanted, max_wanted;
    uint8_t *marks; /* scratch: a byte for each row of an item */
};

static inline int64_t padder_position(const struct layout *layout, int64_t sequence, int64_t row)
{
    return layout->positions ? layout->positions[row] : row - layout->starts[sequence];
}

/* The row at a position of a sequence. The axis must have that row. */
int64_t padder_row(const struct layout *layout, int64_t sequence, int64_t position);

/* The same for row number `number` of an item. */
int64_t padder_item_row(const struct layout *layout, int64_t item, int64_t number);

/* Allocates the layouts of the plan's largest batch. On success padder_free is owed. The batch keeps no pointer to the
 * plan. */
int padder_open(const struct plan *plan, struct batch *batch, struct error *error);
void padder_free(const struct plan *plan, struct batch *batch);

/* Lays out the items. Each must have passed model_check. Allocates nothing. */
void padder_lay_out(const struct plan *plan, struct batch *batch, const struct engine_item *items, int64_t n_items);

/* Copies all items' rows of input `index` into `rows`. Elements are int32_t for ids and masks, else float[columns].
 * Inputs with channels first, (columns, rows), are transposed. A missing mask is 1 everywhere. Rows that padding adds
 * are 0; only in masks without "autopad" they are 1. */
void padder_gather(const struct plan *plan, const struct batch *batch, int index, void *rows);

/* An item's rows of an input; of a tensor the rows of its value. If the item lacks the input, its rows of the fallback,
 * or of the input that it is like. 0: the item lacks all of these. */
int64_t padder_length(const struct plan *plan, const struct engine_item *item, int index);

/* The number of sequences in these rows, for a call; else 1. */
int64_t padder_width(const struct plan *plan, const struct engine_item *item, int index);

/* The image that these rows are. With LAYOUT_CHANNELS its height is 1. */
struct plan_image padder_image(const struct plan *plan, const struct engine_item *item, int index);

/* The data of these rows; NULL: the item lacks them. */
const void *padder_data(const struct plan *plan, const struct engine_item *item, int index);

/* The rows that an item has on an axis, padding included. */
int64_t padder_axis_rows(const struct plan *plan, const struct engine_item *item, int axis);

/* The rows of one of its sequences. */
int64_t padder_sequence_rows(const struct plan *plan, const struct engine_item *item, int axis);

/* The rows that an item has on an axis without padding. An AXIS_WANTED counts as the axis whose rows it selects. */
int64_t padder_own_rows(const struct plan *plan, const struct engine_item *item, int axis);

/* See plan_item_rows. */
int64_t padder_item_rows(const struct plan *plan, const struct engine_item *item, int *axis);

/* The value of a size for the item; false: see plan_size_value. */
bool padder_size(const struct plan *plan, const struct engine_item *item, int size, int64_t *value);

/* The item's memory for a module's output; NULL: it does not want it. */
float *padder_tensor(const struct engine_item *item, int output);

struct padder_sequence {
    int64_t item, number; /* of the item's sequences */
    int64_t first, rows;  /* rows of the axis */
};

/* One of the layout's n_sequences. */
struct padder_sequence padder_sequence(const struct plan *plan, const struct batch *batch, int axis, int64_t index);

/* The item's image on an axis of pixels. */
struct plan_image padder_axis_image(const struct plan *plan, const struct engine_item *item, int axis);

/* The image that a convolution reads for an item of the batch. If the item is several sequences, each is such an image.
 */
struct plan_image padder_convolution_image(const struct plan *plan, const struct batch *batch,
                                           const struct plan_step *step, int64_t item);

#endif
