/* Each element of y depends on one element of each operand. So the dimensions of the space can be visited in any order,
 * and the space of an item can be divided into parts at any place. */
#include "engine/cpu/space.h"
#include "engine/plan/space.h"

#include <stdlib.h>
#include <string.h>

#define ELEMENTS_ALONE 16384 /* limit in elements. One thread computes a step with fewer elements */
#define TASKS_A_THREAD 4
#define SHORT_RUN 16 /* a dimension with fewer elements is too short for the inner loop */
#define SQUARE 16    /* number of rows, and of columns, of a square whose cache lines stay in the cache */
#define CHUNK 256    /* number of elements that are gathered for each call of a vector function */

/* The elements of an operand for one item. Each element has 4 bytes. */
struct item_operand {
    const float *elements;
    bool ids; /* the elements are int32_t */
};

/* One part of a step for one item, computed by one thread. */
struct space_task {
    const struct cpu_run *run;
    const struct plan_step *step;
    struct evaluated_space space; /* a part of the item's space */
    struct item_operand x, z, condition;
    float *y;
    float x_number, z_number; /* memory for operands that consist of one number */
};

/* ---- The order of the dimensions ---- */

static void bring_last(struct space_dimension *dimensions, int rank, int from)
{
    struct space_dimension moved = dimensions[from];
    memmove(&dimensions[from], &dimensions[from + 1], (size_t)(rank - 1 - from) * sizeof *dimensions);
    dimensions[rank - 1] = moved;
}

/* Chooses the dimension for the inner loop. It is the dimension that is contiguous in y. If no dimension is contiguous
 * in y, or if it is too short, the longest dimension is chosen. */
static int inner_of(const struct evaluated_space *space)
{
    int longest = 0;
    for (int d = 0; d < space->rank; d++) {
        if (space->dimensions[d].stride.y == 1 && space->dimensions[d].count >= SHORT_RUN)
            return d;
        if (space->dimensions[d].count >= space->dimensions[longest].count)
            longest = d;
    }
    return longest;
}

/* Adds dimensions of one element until the space has `rank` dimensions. */
static void add_dimensions(struct evaluated_space *space, int rank)
{
    while (space->rank < rank) {
        memmove(&space->dimensions[1], &space->dimensions[0], (size_t)space->rank * sizeof *space->dimensions);
        space->dimensions[0] = (struct space_dimension){.count = 1};
        space->rank++;
    }
}

/* ---- Tasks ---- */

/* Divides the longest dimension of the space into `count` parts, and keeps one of them. */
static void take_part(struct evaluated_space *space, int64_t part, int64_t count)
{
    struct space_dimension *longest = &space->dimensions[0];
    for (int d = 1; d < space->rank; d++)
        if (space->dimensions[d].count > longest->count)
            longest = &space->dimensions[d];
    int64_t first = longest->count * part / count, end = longest->count * (part + 1) / count;
    space_move(&space->first, &longest->stride, first);
    longest->count = end - first;
}

static int64_t first_element(const struct cpu_run *run, int value, int64_t item)
{
    return layout_of(run, value)->item_starts[item] * columns_of(run, value);
}

/* `number` is used if the operand is neither a value nor a weight. The strides of such an operand are 0. */
static struct item_operand operand_of(const struct cpu_run *run, int value, int weight, const float *number,
                                      int64_t item)
{
    if (value == PLAN_NONE)
        return (struct item_operand){weight == PLAN_NONE ? number : weight_of(run, weight), false};
    bool ids = run->plan->values[value].ids;
    const float *elements = ids ? (const float *)ids_of(run, value) : floats_of(run, value);
    return (struct item_operand){elements + first_element(run, value, item), ids};
}

/* The number in the element type of y. If `ids`, it is an int32_t in the bits of a float. */
static float number_for(bool ids, float number)
{
    int32_t id = (int32_t)number;
    if (ids)
        memcpy(&number, &id, sizeof number);
    return number;
}

static void set_numbers(struct space_task *task)
{
    const struct plan_step *step = task->step;
    bool ids = task->run->plan->values[step->y].ids;
    if (step->operation == OP_ARRANGE)
        task->x_number = number_for(ids, step->arrange.x);
    if (step->operation == OP_COMBINE)
        task->z_number = step->combine.z;
    if (step->operation == OP_SELECT) {
        task->x_number = number_for(ids, step->select.x);
        task->z_number = number_for(ids, step->select.z);
    }
}

static void set_task(struct space_task *task, int64_t item, int64_t part, int64_t parts)
{
    const struct cpu_run *run = task->run;
    const struct plan_step *step = task->step;
    struct evaluated_space *space = &task->space;
    *space = space_evaluate(&run->plan->spaces[step->space], space_operands_of(step),
                            run->batch->sizes + item * run->plan->n_sizes);
    space->rank = space_simplify(space->dimensions, space->rank);
    add_dimensions(space, 2);
    take_part(space, part, parts);
    bring_last(space->dimensions, space->rank, inner_of(space));
    set_numbers(task);
    task->x = operand_of(run, step->x, step->x_weight, &task->x_number, item);
    task->z = operand_of(run, step->z, step->z_weight, &task->z_number, item);
    task->condition = operand_of(run, step->keys, PLAN_NONE, NULL, item);
    task->y = (run->plan->values[step->y].ids ? (float *)ids_of(run, step->y) : floats_of(run, step->y)) +
              first_element(run, step->y, item);
}

/* Divides the step into tasks, and computes each task that has elements. */
static void compute(const struct cpu_run *run, const struct plan_step *step,
                    void (*compute_task)(struct space_task *task))
{
    int64_t items = run->batch->n_items, elements = rows_of(run, step->y) * columns_of(run, step->y);
    bool alone = elements < ELEMENTS_ALONE;
    int64_t parts = alone ? 1 : parts_of(run->threads * TASKS_A_THREAD, items);
#pragma omp parallel for num_threads(alone ? 1 : threads_for(run, items *parts)) schedule(dynamic)
    for (int64_t t = 0; t < items * parts; t++) {
        struct space_task task = {.run = run, .step = step};
        set_task(&task, t / parts, t % parts, parts);
        if (space_count(task.space.dimensions, task.space.rank) > 0)
            compute_task(&task);
    }
}

/* ---- Copies ---- */

/* y (rows, columns) = x, copied in squares. The strides of x and y are those of the two dimensions. */
static void copy_squares(const struct space_dimension *rows, const struct space_dimension *columns, const float *x,
                         float *y)
{
    for (int64_t row = 0; row < rows->count; row += SQUARE)
        for (int64_t column = 0; column < columns->count; column += SQUARE)
            for (int64_t r = row; r < least(rows->count, row + SQUARE); r++)
                for (int64_t c = column; c < least(columns->count, column + SQUARE); c++)
                    y[r * rows->stride.y + c * columns->stride.y] = x[r * rows->stride.x + c * columns->stride.x];
}

/* y[c, r] = x[r, c], where y is (columns, rows) without gaps. Used for few rows, such as the channels of an image. If
 * the number of rows is a constant, the compiler generates a loop over vectors. */
static inline void interleave(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *restrict y)
{
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++)
            y[c * rows + r] = x[r * x_stride + c];
}

static bool is_interleaving(const struct space_dimension *rows, const struct space_dimension *columns)
{
    return columns->stride.x == 1 && rows->stride.y == 1 && columns->stride.y == rows->count && rows->count <= 4;
}

static void copy(const struct space_dimension *rows, const struct space_dimension *columns, const float *x, float *y)
{
    if (is_interleaving(rows, columns)) {
        if (rows->count == 3)
            interleave(3, columns->count, x, rows->stride.x, y);
        else
            interleave(rows->count, columns->count, x, rows->stride.x, y);
        return;
    }
    if (columns->stride.x != 1 || columns->stride.y != 1) {
        copy_squares(rows, columns, x, y);
        return;
    }
    for (int64_t r = 0; r < rows->count; r++)
        memcpy(y + r * rows->stride.y, x + r * rows->stride.x, (size_t)columns->count * sizeof *y);
}

/* Moves the dimension that is contiguous in x next to the inner dimension, unless it is the inner dimension. */
static void order_for_squares(struct evaluated_space *space)
{
    int outer = space->rank - 1;
    for (int d = 0; d < outer; d++)
        if (space->dimensions[d].stride.x == 1 && space->dimensions[d].count > 1) {
            bring_last(space->dimensions, outer, d);
            return;
        }
}

/* Orders the dimensions so that x is read from its start to its end, as far as possible. */
static void order_for_reading(struct space_dimension *dimensions, int rank)
{
    for (int d = 1; d < rank; d++)
        for (int i = d; i > 0 && llabs(dimensions[i].stride.x) > llabs(dimensions[i - 1].stride.x); i--) {
            struct space_dimension moved = dimensions[i];
            dimensions[i] = dimensions[i - 1];
            dimensions[i - 1] = moved;
        }
}

static void arrange(struct space_task *task)
{
    struct evaluated_space *space = &task->space;
    order_for_squares(space);
    int outer = space->rank - 2;
    order_for_reading(space->dimensions, outer);
    int64_t count = space_count(space->dimensions, outer);
    struct space_place place = space_at(space->dimensions, outer, space->first, 0);
    for (int64_t i = 0; i < count; i++) {
        copy(&space->dimensions[outer], &space->dimensions[outer + 1], task->x.elements + place.at.x,
             task->y + place.at.y);
        space_next(space->dimensions, outer, &place);
    }
}

void cpu_arrange(const struct cpu_run *run, const struct plan_step *step)
{
    compute(run, step, arrange);
}

/* ---- Functions of several operands ---- */

/* Returns `count` elements, beginning at `from`, as contiguous floats. If necessary, the elements are copied to `room`.
 * If `as_ids`, ids are not converted. */
static const float *contiguous_elements(struct item_operand operand, const float *from, int64_t stride, int64_t count,
                                        bool as_ids, float *room)
{
    bool converts = operand.ids && !as_ids;
    if (stride == 1 && !converts)
        return from;
    for (int64_t i = 0; i < count; i++) {
        int32_t id;
        memcpy(&id, &from[i * stride], sizeof id);
        room[i] = converts ? (float)id : from[i * stride];
    }
    return room;
}

/* A function of contiguous operands. It uses z and the condition only if the step has them. */
typedef void dense_function(const struct space_task *task, int64_t count, const float *x, const float *z,
                            const float *condition, float *y);

/* Computes one run along the inner dimension, in chunks. */
static void compute_run(const struct space_task *task, struct space_offsets at, dense_function *function)
{
    const struct space_dimension *inner = &task->space.dimensions[task->space.rank - 1];
    const struct space_offsets *stride = &inner->stride;
    bool as_ids = task->run->plan->values[task->step->y].ids;
    float x_room[CHUNK], z_room[CHUNK], condition_room[CHUNK], y_room[CHUNK];
    for (int64_t done = 0; done < inner->count; done += CHUNK) {
        int64_t count = least(CHUNK, inner->count - done);
        const float *x = contiguous_elements(task->x, task->x.elements + at.x, stride->x, count, as_ids, x_room);
        const float *z = contiguous_elements(task->z, task->z.elements + at.z, stride->z, count, as_ids, z_room);
        const float *condition = NULL;
        if (task->condition.elements)
            condition = contiguous_elements(task->condition, task->condition.elements + at.keys, stride->keys, count,
                                            false, condition_room);
        float *y = task->y + at.y;
        function(task, count, x, z, condition, stride->y == 1 ? y : y_room);
        for (int64_t i = 0; stride->y != 1 && i < count; i++)
            y[i * stride->y] = y_room[i];
        space_move(&at, stride, CHUNK);
    }
}

static void compute_runs(const struct space_task *task, dense_function *function)
{
    int outer = task->space.rank - 1;
    int64_t count = space_count(task->space.dimensions, outer);
    struct space_place place = space_at(task->space.dimensions, outer, task->space.first, 0);
    for (int64_t i = 0; i < count; i++) {
        compute_run(task, place.at, function);
        space_next(task->space.dimensions, outer, &place);
    }
}

static void combine_dense(const struct space_task *task, int64_t count, const float *x, const float *z,
                          const float *condition, float *y)
{
    (void)condition;
    bool swaps = task->step->combine.z_first;
    task->run->vector->combine(count, task->step->combine.function, swaps ? z : x, swaps ? x : z, y);
}

static void combine(struct space_task *task)
{
    compute_runs(task, combine_dense);
}

void cpu_combine(const struct cpu_run *run, const struct plan_step *step)
{
    compute(run, step, combine);
}

static void select_dense(const struct space_task *task, int64_t count, const float *x, const float *z,
                         const float *condition, float *y)
{
    task->run->vector->select(count, condition, x, z, y);
}

static void select_elements(struct space_task *task)
{
    compute_runs(task, select_dense);
}

void cpu_select(const struct cpu_run *run, const struct plan_step *step)
{
    compute(run, step, select_elements);
}
