/* shape: the class of a batch. What is launched for a batch depends on its class alone: counts of rows and items are
 * rounded up to few sizes, tables are padded (upload.h), and kernels that look into them leave rows alone that are no
 * item's. So batches of one class launch the same kernels with the same arguments, and products of matrices come in few
 * sizes. Rows behind the batch's own are in the arena all the same: they are computed, and nobody reads them. */
#ifndef ENGINE_CUDA_SHAPE_H
#define ENGINE_CUDA_SHAPE_H

#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "engine/backend.h"
}

/* Of the items, those that a step with plan_selection computes. */
enum selected { SELECTED_NONE, SELECTED_SOME, SELECTED_ALL };

struct shape_class {
    int64_t n_items, n_wanted; /* rounded up */
    int64_t top_k;             /* rounded up; 0: no item wants the best of its rows */
    bool hidden, pooled;       /* some item wants it */
    bool output, softmax;      /* … of its rows */
    int64_t *rows;             /* by axis, rounded up */
    enum selected *selected;   /* by step */
};

/* On success shape_free is owed. */
int shape_open(const struct plan *plan, struct shape_class *shape, struct error *error);
void shape_free(struct shape_class *shape);

/* The class of the batch; of the largest that the plan allows; of one of so many rows and items that want everything.
 */
void shape_of_batch(const struct plan *plan, const struct batch *batch, struct shape_class *shape);
void shape_of_largest(const struct plan *plan, struct shape_class *shape);
void shape_of_size(const struct plan *plan, int64_t rows, int64_t n_items, struct shape_class *shape);

bool shape_equals(const struct plan *plan, const struct shape_class *a, const struct shape_class *b);
uint64_t shape_hash(const struct plan *plan, const struct shape_class *shape);
void shape_copy(const struct plan *plan, struct shape_class *to, const struct shape_class *from);

/* Row blocks in the tables of that class: as many as items that share so many rows can have. */
int64_t shape_blocks(const struct shape_class *shape, int axis);

/* Rows rounded up to a class's, but not above `most`; those of the next smaller class, 0: there is none. */
int64_t shape_round_rows(int64_t rows, int64_t most);
int64_t shape_rows_below(int64_t rows);

/* Whether the OP_LINEAR leaves out rows so many that it is launched for the runs of selected items, by their own counts
 * of rows; else it computes all rows or none. */
bool shape_splits(const struct plan *plan, const struct shape_class *shape, int step);

/* Whether the batch's step computes the item. */
bool shape_selects(const struct batch *batch, const struct plan_step *step, int64_t item);

#endif
