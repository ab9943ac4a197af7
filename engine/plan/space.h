/* space: the elements that a step visits in one item, as offsets and strides. A struct plan_space (plan.h) gives
 * offsets and strides as sizes, whose numbers depend on the item. The functions here compute the numbers for one item.
 *
 * A kernel evaluates the space once for each item, and simplifies it. Then it divides the elements into tasks. Each
 * task walks along the outer dimensions, and its inner loop runs along the last dimension.
 *
 * The functions are inline because the kernels of engine/cuda use them on the device. */
#ifndef ENGINE_PLAN_SPACE_H
#define ENGINE_PLAN_SPACE_H

#include "engine/plan/plan.h"

#ifdef __CUDACC__
#define SPACE_FUNCTION static __host__ __device__ __forceinline__
#else
#define SPACE_FUNCTION static inline
#endif

/* An offset into each operand, or a distance between two offsets. Counted in elements. */
struct space_offsets {
    int64_t x, z, keys, y;
};

struct space_dimension {
    int64_t count;
    struct space_offsets stride; /* 0 for an operand that the step lacks */
};

struct evaluated_space {
    int rank; /* number of dimensions. 0 for a space of one element */
    struct space_dimension dimensions[PLAN_SPACE_RANK];
    struct space_offsets first; /* the first element, within the item's rows */
};

/* The current place of a walk over some dimensions. */
struct space_place {
    int64_t index[PLAN_SPACE_RANK];
    struct space_offsets at; /* offsets of the current element */
};

/* The operands that a step reads through its space. Offsets and strides of the other operands are not read. */
struct space_operands {
    bool x, z, keys;
};

SPACE_FUNCTION struct space_operands space_operands_of(const struct plan_step *step)
{
    struct space_operands operands;
    operands.x = step->x != PLAN_NONE || step->x_weight != PLAN_NONE;
    operands.z = step->z != PLAN_NONE || step->z_weight != PLAN_NONE;
    operands.keys = step->keys != PLAN_NONE;
    return operands;
}

/* Evaluates the space for one item. `sizes` is the item's row of batch->sizes (padder.h). */
SPACE_FUNCTION struct evaluated_space space_evaluate(const struct plan_space *space, struct space_operands operands,
                                                     const int64_t *sizes)
{
    struct evaluated_space evaluated;
    evaluated.rank = space->rank;
    for (int d = 0; d < space->rank; d++) {
        const struct plan_dimension *from = &space->dimensions[d];
        struct space_dimension *to = &evaluated.dimensions[d];
        to->count = sizes[from->count];
        to->stride.x = operands.x ? sizes[from->x] : 0;
        to->stride.z = operands.z ? sizes[from->z] : 0;
        to->stride.keys = operands.keys ? sizes[from->keys] : 0;
        to->stride.y = sizes[from->y];
    }
    evaluated.first.x = operands.x ? sizes[space->x_first] : 0;
    evaluated.first.z = operands.z ? sizes[space->z_first] : 0;
    evaluated.first.keys = operands.keys ? sizes[space->keys_first] : 0;
    evaluated.first.y = sizes[space->y_first];
    return evaluated;
}

/* Whether, in every operand, one step along the outer dimension is as long as the whole inner dimension. */
SPACE_FUNCTION bool space_follows(const struct space_dimension *outer, const struct space_dimension *inner)
{
    return outer->stride.x == inner->stride.x * inner->count && outer->stride.z == inner->stride.z * inner->count &&
           outer->stride.keys == inner->stride.keys * inner->count && outer->stride.y == inner->stride.y * inner->count;
}

/* Drops dimensions of count 1, and merges neighbouring dimensions that can be visited as a single dimension. The
 * elements and their order stay the same. Returns the new number of dimensions. A kernel that treats its last
 * dimensions separately calls this for the other dimensions only. */
SPACE_FUNCTION int space_simplify(struct space_dimension *dimensions, int rank)
{
    int kept = 0;
    for (int d = 0; d < rank; d++) {
        struct space_dimension dimension = dimensions[d];
        if (dimension.count == 1)
            continue;
        if (kept > 0 && space_follows(&dimensions[kept - 1], &dimension)) {
            dimension.count *= dimensions[kept - 1].count;
            kept--;
        }
        dimensions[kept++] = dimension;
    }
    return kept;
}

/* The number of elements in these dimensions. */
SPACE_FUNCTION int64_t space_count(const struct space_dimension *dimensions, int rank)
{
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= dimensions[d].count;
    return count;
}

SPACE_FUNCTION void space_move(struct space_offsets *at, const struct space_offsets *stride, int64_t steps)
{
    at->x += steps * stride->x;
    at->z += steps * stride->z;
    at->keys += steps * stride->keys;
    at->y += steps * stride->y;
}

/* The place of element `index` of these dimensions, in row-major order. `first` is the offset of element 0. */
SPACE_FUNCTION struct space_place space_at(const struct space_dimension *dimensions, int rank,
                                           struct space_offsets first, int64_t index)
{
    struct space_place place;
    place.at = first;
    for (int d = rank - 1; d >= 0; d--) {
        place.index[d] = index % dimensions[d].count;
        index /= dimensions[d].count;
        space_move(&place.at, &dimensions[d].stride, place.index[d]);
    }
    return place;
}

/* Moves on to the next element. After the last element, the place is the first element again. */
SPACE_FUNCTION void space_next(const struct space_dimension *dimensions, int rank, struct space_place *place)
{
    for (int d = rank - 1; d >= 0; d--) {
        space_move(&place->at, &dimensions[d].stride, 1);
        if (++place->index[d] < dimensions[d].count)
            return;
        space_move(&place->at, &dimensions[d].stride, -dimensions[d].count);
        place->index[d] = 0;
    }
}

#endif
