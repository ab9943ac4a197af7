/* shape: the shape of a batch. The numbers of rows and items of a batch are rounded up to a few values. The rounded
 * numbers and the kinds of results form the shape. Batches of the same shape launch the same kernels with the same
 * arguments, so one CUDA graph serves all of them. Because of the rounding, matrix products have only a few sizes.
 *
 * The rows that rounding adds are computed like the others, but their results are not read. The tables of items,
 * sequences and rows on the device are padded to the same numbers (upload.h). Kernels that look up a row's item skip
 * rows without an item. */
#ifndef ENGINE_CUDA_SHAPE_H
#define ENGINE_CUDA_SHAPE_H

#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "engine/backend.h"
}

/* Whether a step with a plan_selection computes none, some or all of the batch's sequences. */
enum selected { SELECTED_NONE, SELECTED_SOME, SELECTED_ALL };

struct batch_shape {
    int64_t n_items, n_wanted; /* numbers of items and of requested rows, both rounded up */
    int64_t top_k;             /* the largest top_k of an item, rounded up. 0 if no item requests top_k */
    bool wholes, steps, parts; /* some item is a whole sequence, one row of a sequence, several rows of a sequence */
    bool hidden, pooled;       /* some item requests this result */
    bool output, softmax, targets; /* some item requests this result for its rows of the output */
    uint64_t tensors;              /* bits of the module's outputs that some item requests. Use shape_wants_tensor */
    int64_t *rows;                 /* by axis: number of rows, rounded up */
    int64_t *sequences;            /* by axis: number of sequences, rounded up */
    enum selected *selected;       /* by step */
    enum selected *whole;          /* by step: which sequences are whole (shape_whole_rows) and selected */
};

/* After success the caller must call shape_free. */
int shape_open(const struct plan *plan, struct batch_shape *shape, struct error *error);
void shape_free(struct batch_shape *shape);

/* Each of these functions sets `shape`. The first function uses the given batch, and the second one the largest batch
 * that the plan allows. The third one uses a batch with `rows` rows and n_items items that request all
 * results. */
void shape_of_batch(const struct plan *plan, const struct batch *batch, struct batch_shape *shape);
void shape_of_largest(const struct plan *plan, struct batch_shape *shape);
void shape_of_size(const struct plan *plan, int64_t rows, int64_t n_items, struct batch_shape *shape);

bool shape_equals(const struct plan *plan, const struct batch_shape *a, const struct batch_shape *b);
uint64_t shape_hash(const struct plan *plan, const struct batch_shape *shape);
void shape_copy(const struct plan *plan, struct batch_shape *to, const struct batch_shape *from);

/* For an OP_PROJECT_SEQUENCE that tells whole sequences apart. Returns the number of rows of a whole sequence, for
 * which E has as many rows. A product of cuBLASLt may compute whole sequences (project.cu). Returns 0 for all other
 * steps. If some sequences of a batch are whole, no graph replays the batch. So steps whose E has few rows tell whole
 * sequences apart only if all sequences are whole in every batch. */
int64_t shape_whole_rows(const struct plan *plan, const struct plan_step *step);

/* For such a step, if all sequences of the batch are whole: their number, rounded up. x and y have room for them. */
int64_t shape_whole_count(const struct plan *plan, const struct batch_shape *shape, int step);

/* For such a step: the largest number of whole sequences in a batch, and the shape of a batch of `count` of them. In
 * this shape no other step has whole sequences. */
int64_t shape_most_whole(const struct plan *plan, int step);
void shape_of_whole(const struct plan *plan, int step, int64_t count, struct batch_shape *shape);

/* The number of row blocks (struct row_block in padder.h) for which the axis has room on the device. It is the largest
 * number in any batch of the shape. */
int64_t shape_blocks(const struct batch_shape *shape, int axis);

/* shape_round_rows rounds rows up to those of a shape, at most `most`. The second function returns the rows of the next
 * smaller shape, or 0 for the smallest shape. */
int64_t shape_round_rows(int64_t rows, int64_t most);
int64_t shape_rows_below(int64_t rows);

/* For an OP_LINEAR that computes only some of the sequences. Returns whether to launch each group of neighbouring
 * selected sequences separately, instead of computing all rows. Computing up to SPOILED_ROWS rows in vain takes less
 * time than several launches, so the batch must have more rows. */
bool shape_splits(const struct plan *plan, const struct batch_shape *shape, int step);

/* Whether some item requests the module's output. All outputs from number 63 on share one bit. */
static inline bool shape_wants_tensor(const struct batch_shape *shape, int output)
{
    return shape->tensors >> (output < 63 ? output : 63) & 1;
}

/* Whether the step computes this sequence of the batch. */
bool shape_selects(const struct batch *batch, const struct plan_step *step, int64_t sequence);

#endif
