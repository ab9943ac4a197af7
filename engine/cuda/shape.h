/* shape: the class of a batch. Counts of rows and items are rounded up to a few sizes, and batches with the same
 * rounded counts are one class. They launch the same kernels with the same arguments, so a CUDA graph of one serves
 * all. Products of matrices come in few sizes, too.
 *
 * Rows behind the batch's own are computed like the others, and nothing reads their results. Tables are padded to match
 * (upload.h). Kernels that look up a row's item skip rows that have none. */
#ifndef ENGINE_CUDA_SHAPE_H
#define ENGINE_CUDA_SHAPE_H

#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "engine/backend.h"
}

/* How many of the batch's items a step with a plan_selection computes. */
enum selected { SELECTED_NONE, SELECTED_SOME, SELECTED_ALL };

struct shape_class {
    int64_t n_items, n_wanted; /* rounded up */
    int64_t top_k;             /* the most that an item wants, rounded up; 0: none wants any */
    bool hidden, pooled;       /* whether some item wants it */
    bool output, softmax;      /* … of its rows of the output */
    int64_t *rows;             /* by axis, rounded up */
    enum selected *selected;   /* by step */
};

/* On success shape_free is owed. */
int shape_open(const struct plan *plan, struct shape_class *shape, struct error *error);
void shape_free(struct shape_class *shape);

/* Sets `shape` to the class of the batch; of the largest batch that the plan allows; of a batch of so many rows and
 * items that want everything. */
void shape_of_batch(const struct plan *plan, const struct batch *batch, struct shape_class *shape);
void shape_of_largest(const struct plan *plan, struct shape_class *shape);
void shape_of_size(const struct plan *plan, int64_t rows, int64_t n_items, struct shape_class *shape);

bool shape_equals(const struct plan *plan, const struct shape_class *a, const struct shape_class *b);
uint64_t shape_hash(const struct plan *plan, const struct shape_class *shape);
void shape_copy(const struct plan *plan, struct shape_class *to, const struct shape_class *from);

/* Row blocks in the tables of that class: the most that its items can make of its rows. */
int64_t shape_blocks(const struct shape_class *shape, int axis);

/* Rows rounded up to those of a class, at most `most`. Rows of the next smaller class; 0: there is none. */
int64_t shape_round_rows(int64_t rows, int64_t most);
int64_t shape_rows_below(int64_t rows);

/* Whether an OP_LINEAR that computes some items alone leaves out so many rows that each run of selected items is a
 * launch of its own. Else one launch computes all rows. */
bool shape_splits(const struct plan *plan, const struct shape_class *shape, int step);

/* Whether the step computes the batch's item. */
bool shape_selects(const struct batch *batch, const struct plan_step *step, int64_t item);

#endif
