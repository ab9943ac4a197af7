/* padder: computes which rows of each axis of the plan belong to which item of a batch. The rows of the items follow
 * one another. The padding of a model is a key of its config.json. With "slice", "masked" and "exact" no rows are
 * added. With "zero" the padder adds rows after the item's own rows, until the item has plan_padding.rows rows. With
 * "autopad" the padder adds rows up to the next multiple of plan_padding.multiple. */
#ifndef ENGINE_PLAN_PADDER_H
#define ENGINE_PLAN_PADDER_H

#include "engine/plan/plan.h"

#define PADDER_BLOCK_ROWS 128

/* At most PADDER_BLOCK_ROWS rows of one sequence: a unit of work for operations over sequences. */
struct row_block {
    int64_t sequence;
    int64_t first; /* index of the first row on the axis */
    int64_t rows;
};

/* The rows of the batch's items on one axis. The sequences of an item follow one another. On most axes an item is one
 * sequence (see plan_sequences in plan.h). */
struct layout {
    int64_t n_sequences; /* number of sequences of all items */
    int64_t *starts;     /* (n_sequences + 1): the rows of sequence s are starts[s] … starts[s + 1] - 1 */
    int64_t *item_starts; /* (n_items + 1): the rows of item i are item_starts[i] … item_starts[i + 1] - 1. Equal to the
                             pointer `starts` if each item is one sequence */
    /* For each row, its position in its sequence. Within a sequence, positions ascend. NULL if each row r of a sequence
     * s has the position r - starts[s]. */
    int32_t *positions;
    struct row_block *blocks;
    int64_t n_blocks;
    /* owners[s] is the sequence that contains the rows of sequence s. This is s itself, unless the item of s shares the
     * source of an earlier item (shared_rows.h). Then s has no rows of its own on this axis. NULL if the axis is never
     * shared. */
    int64_t *owners;
};

/* One requested row of the output. */
struct wanted_row {
    int64_t item;
    int64_t index;  /* index in the item's list of requested rows */
    int64_t row;    /* index of the row in the value of the last hidden state */
    int32_t target; /* the column whose log-probability is requested. -1 if none is */
};

struct batch {
    const struct engine_item *items;
    int64_t n_items;
    struct layout *layouts; /* the layout of each axis of the plan */
    int64_t *sizes;         /* (items, plan->n_sizes): the value of each size for each item */
    struct wanted_row *wanted;
    int64_t n_wanted, max_wanted;
    bool shares;     /* items may share rows. The caller of padder_open sets it */
    uint8_t *marks;  /* scratch memory: one byte for each row of one item */
    double *seconds; /* (plan->n_steps + 1). model_time_steps documents it. NULL if no times are measured */
};

/* The number of rows of a sequence that earlier batches have computed. 0 if the item is a whole sequence. In a plan
 * with slots each item is one sequence, so `sequence` is also the number of the item. */
static inline int64_t padder_earlier_rows(const struct plan *plan, const struct batch *batch, int64_t sequence)
{
    return plan->n_slots > 0 && batch->items[sequence].slot > 0 ? batch->items[sequence].first : 0;
}

static inline int64_t padder_owner(const struct layout *layout, int64_t sequence)
{
    return layout->owners ? layout->owners[sequence] : sequence;
}

static inline int64_t padder_position(const struct layout *layout, int64_t sequence, int64_t row)
{
    return layout->positions ? layout->positions[row] : row - layout->starts[sequence];
}

/* The index of the row at a position of a sequence. The axis must contain the row. */
int64_t padder_row(const struct layout *layout, int64_t sequence, int64_t position);

/* The index of an item's row on the axis. `number` counts all rows of the item from 0, even if the axis has only some
 * of them (AXIS_WANTED). The axis must contain row `number`. */
int64_t padder_item_row(const struct layout *layout, int64_t item, int64_t number);

/* Allocates the layouts for the plan's largest batch. After success the caller must call padder_free. The batch keeps
 * no pointer to the plan. */
int padder_open(const struct plan *plan, struct batch *batch, struct error *error);
void padder_free(const struct plan *plan, struct batch *batch);

/* Lays out the items. Each must have passed model_check. Allocates nothing. */
void padder_lay_out(const struct plan *plan, struct batch *batch, const struct engine_item *items, int64_t n_items);

/* Copies an item's rows of input `index` to their place in `rows`, which has room for the rows of all items. Ids and
 * masks become one int32_t per row, other inputs float[columns] per row. Inputs with channels first, (columns, rows),
 * are transposed. A missing mask is 1 everywhere. Rows that padding adds are 0. Exception: in masks, added rows are 1,
 * unless the padding is "autopad". */
void padder_gather_item(const struct plan *plan, const struct batch *batch, int index, int64_t item, void *rows);
/* Like padder_gather_item, for all items. */
void padder_gather(const struct plan *plan, const struct batch *batch, int index, void *rows);

/* The number of rows of an item's input. For LAYOUT_TENSOR, these are the rows of the input's value. If the item lacks
 * the input, the function counts the rows of the fallback, or of the input model_input.like. Returns 0 for an optional
 * input if the item lacks all of these. */
int64_t padder_length(const struct plan *plan, const struct engine_item *item, int index);

/* The number of sequences of an item's input with LAYOUT_CALL. It is 1 for other layouts. If the item lacks the input,
 * the sequences of the fallback are counted. */
int64_t padder_width(const struct plan *plan, const struct engine_item *item, int index);

/* Like padder_width, for the input that determines the rows of a value. Returns 1 if there is no such input. */
int64_t padder_value_width(const struct plan *plan, const struct engine_item *item, int value);

/* The height and width of the image whose pixels are the rows of an item's input. The height is 1 unless the input has
 * LAYOUT_IMAGE. */
struct plan_image padder_image(const struct plan *plan, const struct engine_item *item, int index);

/* The data of an item's input. If the item lacks the input, returns the data of the fallback. Returns NULL if the item
 * lacks both. */
const void *padder_data(const struct plan *plan, const struct engine_item *item, int index);

/* The number of rows that an item has on an axis, padding included. */
int64_t padder_axis_rows(const struct plan *plan, const struct engine_item *item, int axis);

/* The number of rows that an item has on an axis, not counting padding. For an AXIS_WANTED, these are the rows of the
 * axis that it selects from. */
int64_t padder_own_rows(const struct plan *plan, const struct engine_item *item, int axis);

/* The largest number of rows of an item on any axis, like plan_item_rows in plan.h. */
int64_t padder_item_rows(const struct plan *plan, const struct engine_item *item, int *axis);

/* Sets *value to a size for the item. Returns false in the same cases as plan_size_value. */
bool padder_size(const struct plan *plan, const struct engine_item *item, int size, int64_t *value);

/* The memory of the item for one output of a module. NULL if the item does not request the output. */
float *padder_tensor(const struct engine_item *item, int output);

/* The memory of the item for the softmax of an attention step, (h, n, keys) as in model_output_shape. NULL if the item
 * does not request it. */
float *padder_softmax(const struct plan *plan, const struct engine_item *item, const struct plan_step *step);

struct padder_sequence {
    int64_t item, number; /* the sequence's number within its item */
    int64_t first, rows;  /* index of the first row on the axis, and number of rows */
};

/* Describes one sequence of the axis, 0 <= index < n_sequences. */
struct padder_sequence padder_sequence(const struct plan *plan, const struct batch *batch, int axis, int64_t index);

/* The height and width of the item's image on an axis of pixels. */
struct plan_image padder_axis_image(const struct plan *plan, const struct engine_item *item, int axis);

/* The size of the image that a convolution reads for an item of the batch. If the item consists of several sequences,
 * each sequence is an image of this size.
 */
struct plan_image padder_convolution_image(const struct plan *plan, const struct batch *batch,
                                           const struct plan_step *step, int64_t item);

#endif
