/* shape: the shape of a batch. The numbers of rows and items of a batch are rounded up to a few values. The rounded
 * numbers and the kinds of results form the shape. Batches of the same shape launch the same kernels with the same
 * arguments, so one CUDA graph serves all of them. Because of the rounding, matrix products have only a few sizes.
 *
 * The rows that rounding adds are computed like the others, but their results are not read. The tables of items,
 * sequences and rows on the device are padded to the same numbers (upload.h). Kernels that look up the item of a row
 * skip rows without an item. */
#ifndef ENGINE_CUDA_SHAPE_H
#define ENGINE_CUDA_SHAPE_H

#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "engine/backend.h"
}

/* Whether a step computes none, some or all of the batch's sequences. plan_step.only selects the sequences of a step by
 * their numbers of rows. */
enum selected { SELECTED_NONE, SELECTED_SOME, SELECTED_ALL };

struct batch_shape {
    int64_t n_items, n_wanted; /* numbers of items and of requested rows, both rounded up */
    int64_t top_k;             /* the largest top_k of an item, rounded up. 0 if no item requests top_k */
    /* Whether the batch contains a whole sequence, an item with a slot and one row, or an item with a slot and several
     * rows. */
    bool whole_sequences, single_rows, several_rows;
    bool hidden, pooled;           /* some item requests this result */
    bool output, softmax, targets; /* some item requests this result for its rows of the output */
    /* One bit for each output of the module, set if some item requests the output. Use shape_wants_tensor. */
    uint64_t tensors;
    int64_t *rows;           /* by axis: number of rows, rounded up */
    int64_t *sequences;      /* by axis: number of sequences, rounded up */
    enum selected *selected; /* by step: whether it computes none, some or all sequences */
    /* By step: whether none, some or all sequences are selected and full (shape_full_rows). */
    enum selected *full;
};

/* After success the caller must call shape_free. */
int shape_open(const struct plan *plan, struct batch_shape *shape, struct error *error);
void shape_free(struct batch_shape *shape);

/* Each of these functions sets `shape`. shape_of_batch sets it to the shape of the given batch. shape_of_largest sets
 * it to that of the largest batch that the plan allows. shape_of_size assumes a batch with `rows` rows, and with
 * n_items items that request all results. */
void shape_of_batch(const struct plan *plan, const struct batch *batch, struct batch_shape *shape);
void shape_of_largest(const struct plan *plan, struct batch_shape *shape);
void shape_of_size(const struct plan *plan, int64_t rows, int64_t n_items, struct batch_shape *shape);

bool shape_equals(const struct plan *plan, const struct batch_shape *a, const struct batch_shape *b);
uint64_t shape_hash(const struct plan *plan, const struct batch_shape *shape);
void shape_copy(const struct plan *plan, struct batch_shape *to, const struct batch_shape *from);

/* A sequence is full if it has as many rows as the E of an OP_PROJECT_SEQUENCE. A product of cuBLASLt may compute full
 * sequences (project_full.cu). shape_full_rows returns the number of rows of a full sequence. It returns 0 if cuBLASLt
 * never computes sequences of this step.
 *
 * If only some sequences of a batch are full, no graph replays the batch. If a full sequence has fewer than FULL_ROWS
 * rows, running without a graph costs more time than the product saves. In this case, cuBLASLt computes the step only
 * if every sequence of every batch is full. */
int64_t shape_full_rows(const struct plan *plan, const struct plan_step *step);

/* Grouped products of cuBLAS may compute the sequences that cuBLASLt does not compute (project_grouped.cu), in a step
 * for which shape_full_rows is not 0. cuBLASLt computes the sequences with `multiplied` rows, or none if `multiplied`
 * is 0.
 *
 * shape_could_group tells whether grouped products may suit some batch of the plan. shape_groups tells whether they
 * suit this batch. No graph replays a batch with grouped products. They therefore need so many rows that they save more
 * time than the separate launches cost. Their sequences must have several lengths, and no sequence of the batch may be
 * empty. */
bool shape_could_group(const struct plan *plan, const struct plan_step *step);
bool shape_groups(const struct plan *plan, const struct batch *batch, const struct plan_step *step, int64_t multiplied);

/* The number of full sequences, rounded up, in a batch whose sequences are all full. `step` is the number of a step for
 * which shape_full_rows is not 0. The memory of x and y suffices for this number. */
int64_t shape_full_count(const struct plan *plan, const struct batch_shape *shape, int step);

/* `step` is the number of a step for which shape_full_rows is not 0. shape_most_full returns the largest number of its
 * full sequences in any batch. shape_of_full sets `shape` to that of a batch of `count` full sequences. In this shape,
 * no other step has full sequences. */
int64_t shape_most_full(const struct plan *plan, int step);
void shape_of_full(const struct plan *plan, int step, int64_t count, struct batch_shape *shape);

/* The number of row blocks (struct row_block in padder.h) for which the axis's table in device memory has room. It is
 * the largest number in any batch of the shape. */
int64_t shape_blocks(const struct batch_shape *shape, int axis);

/* shape_round_rows rounds a number of rows up to a number that a shape may have, and limits it to `most`.
 * shape_rows_below returns the next smaller number that a shape may have, or 0 if there is none. */
int64_t shape_round_rows(int64_t rows, int64_t most);
int64_t shape_rows_below(int64_t rows);

/* Whether to launch each group of neighbouring selected sequences separately, instead of computing all rows. `step` is
 * an OP_LINEAR that computes only some of the sequences. Computing up to SPOILED_ROWS unneeded rows takes less time
 * than several launches, so the batch must have more than SPOILED_ROWS rows. */
bool shape_launches_apart(const struct plan *plan, const struct batch_shape *shape, int step);

/* Whether some item requests the module's output. Output 63 and all later outputs share one bit. */
static inline bool shape_wants_tensor(const struct batch_shape *shape, int output)
{
    return shape->tensors >> (output < 63 ? output : 63) & 1;
}

/* Whether the step computes this sequence of the batch. */
bool shape_selects(const struct batch *batch, const struct plan_step *step, int64_t sequence);

#endif
