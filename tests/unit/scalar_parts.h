/* scalar_parts: functions that several files of the scalar reference use, for example to find the rows of a value in a
 * batch. */
#ifndef TESTS_UNIT_SCALAR_PARTS_H
#define TESTS_UNIT_SCALAR_PARTS_H

#include "engine/plan/padder.h"

struct scalar {
    const struct plan *plan;
    const struct batch *batch;
    double **values;
};

static inline const struct layout *layout_of(const struct scalar *scalar, int value)
{
    return &scalar->batch->layouts[scalar->plan->values[value].axis];
}

static inline int64_t rows_of(const struct scalar *scalar, int value)
{
    return layout_of(scalar, value)->item_starts[scalar->batch->n_items];
}

static inline int64_t columns_of(const struct scalar *scalar, int value)
{
    return scalar->plan->values[value].columns;
}

static inline double weight_at(const struct scalar *scalar, int weight, int64_t row, int64_t column)
{
    return scalar->plan->weights[weight].data[row * scalar->plan->weights[weight].columns + column];
}

/* The index of the sequence that contains a row of the value. If each item is one sequence, this is also the index of
 * the item. */
static inline int64_t sequence_index(const struct scalar *scalar, int value, int64_t row)
{
    int64_t sequence = 0;
    while (layout_of(scalar, value)->starts[sequence + 1] <= row)
        sequence++;
    return sequence;
}

/* The number of sequences whose rows alternate in the item's rows. The result is 1, except for calls. */
static inline int64_t width_of(const struct scalar *scalar, int value, int64_t item)
{
    int input = scalar->plan->axes[scalar->plan->values[value].axis].input;
    return input == PLAN_NONE ? 1 : padder_width(scalar->plan, &scalar->batch->items[item], input);
}

static inline bool mask_at(const struct scalar *scalar, int mask, int64_t row)
{
    return mask == PLAN_NONE || scalar->values[mask][row] != 0;
}

/* x[i] = exp(scale x[i]) / Σ exp(scale x[j]) over n numbers. */
void scalar_softmax(int64_t n, double scale, double *x);

/* Returns the function of two numbers. */
double scalar_function(enum plan_function function, double a, double b);

/* These functions compute a whole row of y, because the columns of a row share intermediate results. */
void scalar_attend_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y);
void scalar_linear_attend_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y);
void scalar_local_attend_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y);
void scalar_retrieve_row(const struct scalar *scalar, const struct plan_step *step, int64_t row, double *y);

/* Computes all elements that a step with a space writes. */
void scalar_run_over_space(const struct scalar *scalar, const struct plan_step *step);

#endif
