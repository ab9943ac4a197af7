/* shape: the class of a batch. Counts of rows and items are rounded up to a few sizes, and batches with the same
 * rounded counts are one class. They launch the same kernels with the same arguments, so one CUDA graph serves the
 * whole class. Matrix products have few sizes, too.
 *
 * The rows that rounding adds are computed like the others, but their results are not read. Tables are padded to match
 * (upload.h). Kernels that look up a row's item skip rows without an item. */
#ifndef ENGINE_CUDA_SHAPE_H
#define ENGINE_CUDA_SHAPE_H

#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "engine/backend.h"
}

/* How many of the batch's sequences a step with a plan_selection computes. */
enum selected { SELECTED_NONE, SELECTED_SOME, SELECTED_ALL };

struct shape_class {
    int64_t n_items, n_wanted; /* rounded up */
    int64_t top_k;             /* the largest top_k of an item, rounded up; 0: no item requests any */
    bool hidden, pooled;       /* some item requests it */
    bool output, softmax;      /* some item requests it for its rows of the output */
    uint64_t tensors;          /* a module's outputs that some item requests: shape_wants_tensor */
    int64_t *rows;             /* by axis, rounded up */
    int64_t *sequences;        /* by axis, rounded up */
    enum selected *selected;   /* by step */
};

/* On success shape_free is owed. */
int shape_open(const struct plan *plan, struct shape_class *shape, struct error *error);
void shape_free(struct shape_class *shape);

/* Sets `shape` to the class of a batch: of the given one, of the largest that the plan allows, or of one with `rows`
 * rows and n_items items that request all results. */
void shape_of_batch(const struct plan *plan, const struct batch *batch, struct shape_class *shape);
void shape_of_largest(const struct plan *plan, struct shape_class *shape);
void shape_of_size(const struct plan *plan, int64_t rows, int64_t n_items, struct shape_class *shape);

bool shape_equals(const struct plan *plan, const struct shape_class *a, const struct shape_class *b);
uint64_t shape_hash(const struct plan *plan, const struct shape_class *shape);
void shape_copy(const struct plan *plan, struct shape_class *to, const struct shape_class *from);

/* Row blocks in the tables of the class: the most that any batch of the class can have. */
int64_t shape_blocks(const struct shape_class *shape, int axis);

/* Rows rounded up to those of a class, at most `most`; rows of the next smaller class, or 0 for the smallest class. */
int64_t shape_round_rows(int64_t rows, int64_t most);
int64_t shape_rows_below(int64_t rows);

/* Whether to launch each run of selected sequences separately instead of computing all rows. For an OP_LINEAR that
 * computes some of the sequences. Separate launches pay if they leave out enough rows. */
bool shape_splits(const struct plan *plan, const struct shape_class *shape, int step);

/* Whether some item requests the module's output. Outputs from number 63 on have one bit together. */
static inline bool shape_wants_tensor(const struct shape_class *shape, int output)
{
    return shape->tensors >> (output < 63 ? output : 63) & 1;
}

/* Whether the step computes the batch's sequence. */
bool shape_selects(const struct batch *batch, const struct plan_step *step, int64_t sequence);

#endif
