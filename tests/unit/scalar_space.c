/* The scalar reference of operations over a space: nested loops, one for each dimension. */
#include "tests/unit/scalar_parts.h"

#include <math.h>
#include <stdlib.h>

/* A walk over the space of a step for one item. `sizes` are the values of the plan's sizes for this item. */
struct walk {
    const struct scalar *scalar;
    const struct plan_step *step;
    const struct plan_space *space;
    const int64_t *sizes;
    int64_t item;
};

/* Indices of the current elements of the operands, counted from the first element of the item. */
struct visited {
    int64_t x, z, keys, y;
};

static double *item_at(const struct walk *walk, int value)
{
    return walk->scalar->values[value] +
           layout_of(walk->scalar, value)->item_starts[walk->item] * columns_of(walk->scalar, value);
}

/* The element `index` of the value or of the weight, or `number` if the operand is neither. */
static double operand_at(const struct walk *walk, int value, int weight, float number, int64_t index)
{
    if (value != PLAN_NONE)
        return item_at(walk, value)[index];
    return weight == PLAN_NONE ? (double)number : (double)walk->scalar->plan->weights[weight].data[index];
}

static void visit_element(const struct walk *walk, struct visited at)
{
    const struct plan_step *step = walk->step;
    double *y = item_at(walk, step->y) + at.y, x, z;
    if (step->operation == OP_ARRANGE) {
        *y = operand_at(walk, step->x, step->x_weight, step->arrange.x, at.x);
    } else if (step->operation == OP_COMBINE) {
        x = operand_at(walk, step->x, step->x_weight, 0, at.x);
        z = operand_at(walk, step->z, step->z_weight, step->combine.z, at.z);
        *y = step->combine.z_first ? scalar_function(step->combine.function, z, x)
                                   : scalar_function(step->combine.function, x, z);
    } else {
        x = operand_at(walk, step->x, step->x_weight, step->select.x, at.x);
        z = operand_at(walk, step->z, step->z_weight, step->select.z, at.z);
        *y = item_at(walk, step->keys)[at.keys] != 0 ? x : z;
    }
}

static void visit_dimension(const struct walk *walk, int dimension, struct visited at)
{
    if (dimension == walk->space->rank) {
        visit_element(walk, at);
        return;
    }
    const struct plan_dimension *along = &walk->space->dimensions[dimension];
    for (int64_t i = 0; i < walk->sizes[along->count]; i++) {
        visit_dimension(walk, dimension + 1, at);
        at.x += walk->sizes[along->x];
        at.z += walk->sizes[along->z];
        at.keys += walk->sizes[along->keys];
        at.y += walk->sizes[along->y];
    }
}

/* The elements of x that this dimension and the inner dimensions visit, in order, and the matching elements of y. */
struct gathered {
    int64_t count, room;
    double *x, **y;
};

static void gather_dimensions(const struct walk *walk, int dimension, struct visited at, struct gathered *gathered)
{
    if (dimension == walk->space->rank) {
        if (gathered->count == gathered->room) {
            gathered->room = gathered->room * 2 + 1;
            gathered->x = realloc(gathered->x, (size_t)gathered->room * sizeof *gathered->x);
            gathered->y = realloc(gathered->y, (size_t)gathered->room * sizeof *gathered->y);
        }
        gathered->x[gathered->count] = item_at(walk, walk->step->x)[at.x];
        gathered->y[gathered->count++] = item_at(walk, walk->step->y) + at.y;
        return;
    }
    const struct plan_dimension *along = &walk->space->dimensions[dimension];
    for (int64_t i = 0; i < walk->sizes[along->count]; i++) {
        gather_dimensions(walk, dimension + 1, at, gathered);
        at.x += walk->sizes[along->x];
        at.y += walk->sizes[along->y];
    }
}

static double variance_of(const struct gathered *g, double correction)
{
    double mean = 0, sum = 0;
    for (int64_t i = 0; i < g->count; i++)
        mean += g->x[i] / (double)g->count;
    for (int64_t i = 0; i < g->count; i++)
        sum += (g->x[i] - mean) * (g->x[i] - mean);
    return sum / ((double)g->count - correction);
}

static double reduced(enum plan_reduction reduction, double parameter, const struct gathered *g)
{
    double sum = 0, product = 1, norm = 0;
    int64_t largest = 0, smallest = 0;
    for (int64_t i = 0; i < g->count; i++) {
        sum += g->x[i];
        product *= g->x[i];
        norm = isinf(parameter) ? fmax(norm, fabs(g->x[i])) : norm + pow(fabs(g->x[i]), parameter);
        largest = g->x[i] > g->x[largest] ? i : largest;
        smallest = g->x[i] < g->x[smallest] ? i : smallest;
    }
    switch (reduction) {
    case REDUCTION_SUM:
        return sum;
    case REDUCTION_MEAN:
        return sum / (double)g->count;
    case REDUCTION_MAXIMUM:
        return g->x[largest];
    case REDUCTION_MINIMUM:
        return g->x[smallest];
    case REDUCTION_PRODUCT:
        return product;
    case REDUCTION_NORM:
        return isinf(parameter) ? norm : pow(norm, 1 / parameter);
    case REDUCTION_VARIANCE:
        return variance_of(g, parameter);
    case REDUCTION_DEVIATION:
        return sqrt(variance_of(g, parameter));
    case REDUCTION_ARGMAX:
        return (double)largest;
    case REDUCTION_CUMULATE:
    case REDUCTION_COUNT:
        break;
    }
    return NAN;
}

static void reduce_gathered(const struct plan_step *step, struct gathered *g)
{
    double sum = 0;
    if (step->operation == OP_SOFTMAX) {
        scalar_softmax(g->count, 1, g->x);
        for (int64_t i = 0; i < g->count; i++)
            *g->y[i] = step->softmax.logarithm ? log(g->x[i]) : g->x[i];
    } else if (step->reduce.reduction == REDUCTION_CUMULATE) {
        for (int64_t i = 0; i < g->count; i++)
            *g->y[i] = sum += g->x[i];
    } else {
        *g->y[0] = reduced(step->reduce.reduction, (double)step->reduce.parameter, g);
    }
}

/* Visits the outer dimensions, and reduces the elements of the inner dimensions. */
static void reduce_dimension(const struct walk *walk, int dimension, struct visited at)
{
    const struct plan_step *step = walk->step;
    if (dimension == walk->space->rank - (step->operation == OP_REDUCE ? step->reduce.reduced : 1)) {
        struct gathered gathered = {0, 0, NULL, NULL};
        gather_dimensions(walk, dimension, at, &gathered);
        reduce_gathered(step, &gathered);
        free(gathered.x);
        free(gathered.y);
        return;
    }
    const struct plan_dimension *along = &walk->space->dimensions[dimension];
    for (int64_t i = 0; i < walk->sizes[along->count]; i++) {
        reduce_dimension(walk, dimension + 1, at);
        at.x += walk->sizes[along->x];
        at.y += walk->sizes[along->y];
    }
}

/* y[m, n] += scale x[m, k] z[k, n]. The last three dimensions of the space are m, n and k. x has no stride along n, z
 * none along m, and y none along k. */
static void multiply_item(const struct walk *walk, int dimension, struct visited at)
{
    const struct plan_dimension *along = &walk->space->dimensions[dimension];
    int last = walk->space->rank - dimension; /* 3 for dimension m, 2 for n, 1 for k */
    if (last == 0) {
        double z = operand_at(walk, walk->step->z, walk->step->z_weight, 0, at.z);
        item_at(walk, walk->step->y)[at.y] +=
            (double)walk->step->multiply.scale * item_at(walk, walk->step->x)[at.x] * z;
        return;
    }
    for (int64_t i = 0; i < walk->sizes[along->count]; i++) {
        multiply_item(walk, dimension + 1, at);
        at.x += last == 2 ? 0 : walk->sizes[along->x];
        at.z += last == 3 ? 0 : walk->sizes[along->z];
        at.y += last == 1 ? 0 : walk->sizes[along->y];
    }
}

static void visit_space(const struct walk *walk, struct visited first)
{
    if (walk->step->operation == OP_REDUCE || walk->step->operation == OP_SOFTMAX)
        reduce_dimension(walk, 0, first);
    else if (walk->step->operation == OP_MULTIPLY)
        multiply_item(walk, 0, first);
    else
        visit_dimension(walk, 0, first);
}

void scalar_run_over_space(const struct scalar *scalar, const struct plan_step *step)
{
    for (int64_t item = 0; item < scalar->batch->n_items; item++) {
        const int64_t *sizes = scalar->batch->sizes + item * scalar->plan->n_sizes;
        const struct plan_space *space = &scalar->plan->spaces[step->space];
        struct walk walk = {scalar, step, space, sizes, item};
        visit_space(&walk, (struct visited){sizes[space->x_first], sizes[space->z_first], sizes[space->keys_first],
                                            sizes[space->y_first]});
    }
}
