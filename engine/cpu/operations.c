/* Kernels on rows and on sequences. Work is cut into tasks that threads take; each task writes rows or columns of its
 * own and computes them in one fixed order, so neither threads nor batch mates change a bit. give.c has the kernels
 * that write results. */
#include "engine/cpu/operations.h"
#include "engine/cpu/calls.h"
#include "engine/cpu/feed_forward.h"
#include "engine/cpu/give.h"
#include "engine/cpu/images.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/linear_attention.h"
#include "engine/cpu/local_attention.h"
#include "engine/cpu/product_keys.h"
#include "engine/cpu/sequences.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define ROWS_PER_TASK PLAN_ROW_BLOCK

static float *floats_of(const struct cpu_run *run, int value)
{
    return (float *)(run->arena + run->plan->values[value].offset);
}

/* The value's elements from the `first`-th on, whatever they are. */
static void *elements_of(const struct cpu_run *run, int value, int64_t first)
{
    return run->arena + run->plan->values[value].offset + first * element_bytes(run->elements[value]);
}

static const struct layout *layout_of(const struct cpu_run *run, int value)
{
    return &run->batch->layouts[run->plan->values[value].axis];
}

static int64_t columns_of(const struct cpu_run *run, int value)
{
    return run->plan->values[value].columns;
}

static const float *weight_of(const struct cpu_run *run, int weight)
{
    return weight == PLAN_NONE ? NULL : run->plan->weights[weight].data;
}

static int64_t rows_of(const struct cpu_run *run, int value)
{
    return layout_of(run, value)->starts[run->batch->n_items];
}

static int64_t tasks_for(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* All threads or the caller alone: libgomp ends and starts threads when a team's size changes. */
static int threads_for(const struct cpu_run *run, int64_t tasks)
{
    return tasks > 1 ? run->threads : 1;
}

bool cpu_selects(const struct cpu_run *run, const struct plan_step *step, int64_t item)
{
    if (step->only.axis == PLAN_NONE)
        return true;
    const int64_t *starts = run->batch->layouts[step->only.axis].starts + item;
    int64_t rows = starts[1] - starts[0];
    return step->only.least <= rows && rows <= step->only.most;
}

bool cpu_selects_rows(const struct cpu_run *run, const struct plan_step *step, int64_t first, int64_t rows)
{
    if (step->only.axis == PLAN_NONE)
        return true;
    const int64_t *starts = layout_of(run, step->x)->starts;
    int64_t item = 0, behind = run->batch->n_items;
    while (behind - item > 1) { /* the last item that begins at `first` or before */
        int64_t middle = (item + behind) / 2;
        if (starts[middle] <= first)
            item = middle;
        else
            behind = middle;
    }
    for (; item < run->batch->n_items && starts[item] < first + rows; item++)
        if (cpu_selects(run, step, item))
            return true;
    return false;
}

/* ---- On rows ---- */

static void embed(const struct cpu_run *run, const struct plan_step *step)
{
    const int32_t *ids = (const int32_t *)(run->arena + run->plan->values[step->x].offset);
    const float *table = weight_of(run, step->weight);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->y), rows = rows_of(run, step->x);
#pragma omp parallel for num_threads(threads_for(run, tasks_for(rows, ROWS_PER_TASK)))
    for (int64_t r = 0; r < rows; r++)
        memcpy(y + r * columns, table + ids[r] * columns, (size_t)columns * sizeof *y);
}

/* y = x + (major + minor): the library sums the tables before it adds them to x. */
static void add_position_row(int64_t columns, const float *x, const float *major, const float *minor, float *y)
{
    for (int64_t i = 0; i < columns; i++)
        y[i] = x[i] + (minor ? major[i] + minor[i] : major[i]);
}

static void add_positions(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    const float *x = floats_of(run, step->x), *major = weight_of(run, step->weight),
                *minor = weight_of(run, step->bias);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x), period = step->period;
#pragma omp parallel for num_threads(threads_for(run, layout->n_blocks))
    for (int64_t b = 0; b < layout->n_blocks; b++) {
        const struct row_block *block = &layout->blocks[b];
        for (int64_t r = block->first; r < block->first + block->rows; r++) {
            int64_t position = padder_position(layout, block->item, r);
            add_position_row(columns, x + r * columns, major + position / period * columns,
                             minor ? minor + position % period * columns : NULL, y + r * columns);
        }
    }
}

static void mask_rows(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x);
    const int32_t *mask = (const int32_t *)(run->arena + run->plan->values[step->z].offset);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x), rows = rows_of(run, step->x);
    int64_t tasks = tasks_for(rows, ROWS_PER_TASK);
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++) {
        for (int64_t r = t * ROWS_PER_TASK; r < least(rows, (t + 1) * ROWS_PER_TASK); r++) {
            if (!mask[r])
                memset(y + r * columns, 0, (size_t)columns * sizeof *y);
            else if (x != y) /* where the plan put them into one place, a mask of ones costs nothing */
                memcpy(y + r * columns, x + r * columns, (size_t)columns * sizeof *y);
        }
    }
}

/* Angles are products in float, as the library has them; a position of a million times a frequency near 1 leaves them
 * 4 bits of fraction, and sines of other roundings would be other numbers. */
static void add_sinusoids(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    const float *x = floats_of(run, step->x), *frequencies = weight_of(run, step->weight);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x);
#pragma omp parallel for num_threads(threads_for(run, layout->n_blocks))
    for (int64_t b = 0; b < layout->n_blocks; b++) {
        const struct row_block *block = &layout->blocks[b];
        for (int64_t r = block->first; r < block->first + block->rows; r++) {
            float position = (float)padder_position(layout, block->item, r);
            run->vector->add_sinusoids(columns / 2, position, frequencies, x + r * columns, y + r * columns);
        }
    }
}

static void layer_norm(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x);
    enum element element = run->elements[step->y];
    int64_t columns = run->plan->weights[step->weight].columns; /* a group counts as a row */
    int64_t rows = rows_of(run, step->x) * (columns_of(run, step->x) / columns), tasks = tasks_for(rows, ROWS_PER_TASK);
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++) {
        int64_t first = t * ROWS_PER_TASK;
        run->vector->layer_norm(least(ROWS_PER_TASK, rows - first), columns, x + first * columns,
                                weight_of(run, step->weight), weight_of(run, step->bias), step->epsilon, element,
                                elements_of(run, step->y, first * columns));
    }
}

static void activate(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x), rows = rows_of(run, step->x), tasks = tasks_for(rows, ROWS_PER_TASK);
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++) {
        int64_t first = t * ROWS_PER_TASK;
        run->vector->activate(least(ROWS_PER_TASK, rows - first) * columns, step->activation, x + first * columns,
                              y + first * columns);
    }
}

static void add(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x), *z = floats_of(run, step->z);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x), rows = rows_of(run, step->x), tasks = tasks_for(rows, ROWS_PER_TASK);
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++) {
        int64_t first = t * ROWS_PER_TASK * columns;
        int64_t count = least(ROWS_PER_TASK, rows - t * ROWS_PER_TASK) * columns;
        run->vector->add(count, x + first, z + first, step->scale, y + first);
    }
}

static void concatenate(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x), *z = floats_of(run, step->z);
    float *y = floats_of(run, step->y);
    int64_t left = columns_of(run, step->x), right = columns_of(run, step->z), rows = rows_of(run, step->x);
#pragma omp parallel for num_threads(threads_for(run, tasks_for(rows, ROWS_PER_TASK)))
    for (int64_t r = 0; r < rows; r++) {
        memcpy(y + r * (left + right), x + r * left, (size_t)left * sizeof *y);
        memcpy(y + r * (left + right) + left, z + r * right, (size_t)right * sizeof *y);
    }
}

static void gate(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->y), rows = rows_of(run, step->x), tasks = tasks_for(rows, ROWS_PER_TASK);
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++) {
        for (int64_t r = t * ROWS_PER_TASK; r < least((t + 1) * ROWS_PER_TASK, rows); r++) {
            const float *gates = x + r * 2 * columns + columns;
            run->vector->activate(columns, step->activation, x + r * 2 * columns, y + r * columns);
            for (int64_t i = 0; i < columns; i++)
                y[r * columns + i] *= gates[i];
        }
    }
}

/* ---- On sequences ---- */

float *cpu_wanted_attention(const struct engine_item *item, const struct plan_step *step)
{
    for (int i = 0; i < item->n_extras; i++)
        if (item->extras[i].output == 1 + step->attention)
            return item->extras[i].data;
    return NULL;
}

struct vector_mask cpu_attention_mask(const struct engine_item *item, const struct plan_step *step, int64_t k,
                                      int64_t which, int64_t first)
{
    struct vector_mask mask = {.stride = k, .byte = step->masked_byte, .score = step->masked_score};
    if (step->mask == PLAN_NONE || !item->inputs[step->mask].data)
        return mask;
    int64_t length = item->inputs[step->mask].length;
    int64_t row = (item->inputs[step->mask].n_masks ? which * length : 0) + (length == 1 ? 0 : first);
    if (length == 1)
        mask.stride = 0; /* of one row or of one for all */
    if (item->inputs[step->mask].floats)
        mask.floats = (const float *)item->inputs[step->mask].data + row * k;
    else
        mask.bytes = (const uint8_t *)item->inputs[step->mask].data + row * k;
    return mask;
}

/* Where the block's own rows of the head's softmax go. */
static void place_attention(const struct cpu_run *run, const struct plan_step *step, const struct row_block *block,
                            int64_t head, struct vector_attend *attend)
{
    const struct engine_item *item = &run->batch->items[block->item];
    float *all = cpu_wanted_attention(item, step);
    if (!all)
        return;
    const struct plan_axis *axis = &run->plan->axes[run->plan->values[step->x].axis];
    int64_t own = padder_length(run->plan, item, axis->input), first = attend->first_position;
    attend->weights_rows = least(attend->rows, own - first);
    if (attend->weights_rows > 0)
        attend->weights = all + (head * own + first) * (attend->k + attend->zero_keys);
}

/* Rows of the block from `row` on that attend takes at once: where it must know their positions, these follow one
 * another. */
static int64_t attended_rows(const struct cpu_run *run, const struct plan_step *step, const struct row_block *block,
                             int64_t row)
{
    const int32_t *positions = layout_of(run, step->x)->positions;
    int64_t end = block->first + block->rows, rows = 1;
    bool all = !step->causal && step->mask == PLAN_NONE && !cpu_wanted_attention(&run->batch->items[block->item], step);
    if (!positions || all)
        return end - row;
    while (row + rows < end && positions[row + rows] == positions[row] + rows)
        rows++;
    return rows;
}

/* Which task is the `task`-th: heads that read the same keys, of blocks of the same item, follow each other. */
static const struct row_block *attend_task(const struct layout *layout, int64_t heads, int64_t task, int64_t *head)
{
    const struct row_block *block = &layout->blocks[task / heads];
    int64_t start = layout->starts[block->item], rows = layout->starts[block->item + 1] - start;
    int64_t before = (block->first - start) / PADDER_BLOCK_ROWS; /* blocks of the item */
    int64_t first = task / heads - before, blocks = tasks_for(rows, PADDER_BLOCK_ROWS);
    int64_t in_item = task - first * heads;
    *head = in_item / blocks;
    return &layout->blocks[first + in_item % blocks];
}

/* An attention step with its pointers, and one thread's scratch. */
struct attention {
    const struct cpu_run *run;
    const struct plan_step *step;
    const struct layout *layout, *keys_layout;
    int64_t dim_head, dim_value;
    float *packed; /* keys and values of packed_item's head packed_head; -1: of none */
    int64_t packed_item, packed_head;
};

static void pack_keys(struct attention *a, int64_t item, int64_t head)
{
    int64_t key_columns = columns_of(a->run, a->step->keys), value_columns = columns_of(a->run, a->step->values);
    int64_t first = a->keys_layout->starts[item];
    if (a->packed_item == item && a->packed_head == head)
        return;
    a->packed_item = item;
    a->packed_head = head;
    a->run->vector->pack_keys(
        &(struct vector_keys){
            .k = a->keys_layout->starts[item + 1] - first,
            .dim_head = a->dim_head,
            .dim_value = a->dim_value,
            .keys = elements_of(a->run, a->step->keys, first * key_columns + head * a->dim_head),
            .key_stride = key_columns,
            .key_element = a->run->elements[a->step->keys],
            .values = elements_of(a->run, a->step->values, first * value_columns + head * a->dim_value),
            .value_stride = value_columns,
            .value_element = a->run->elements[a->step->values],
        },
        a->packed);
}

static void attend_rows(struct attention *a, const struct row_block *block, int64_t head)
{
    const struct plan_step *step = a->step;
    int64_t k = a->keys_layout->starts[block->item + 1] - a->keys_layout->starts[block->item];
    int64_t position = padder_position(a->layout, block->item, block->first);
    int64_t query_columns = columns_of(a->run, step->x), out_columns = columns_of(a->run, step->y);
    pack_keys(a, block->item, head * step->kv_heads / step->heads);
    struct vector_attend attend = {
        .rows = block->rows,
        .k = k,
        .dim_head = a->dim_head,
        .dim_value = a->dim_value,
        .queries = elements_of(a->run, step->x, block->first * query_columns + head * a->dim_head),
        .query_stride = query_columns,
        .query_element = a->run->elements[step->x],
        .packed = a->packed,
        .scale = step->scale,
        .mask = cpu_attention_mask(&a->run->batch->items[block->item], step, k, 0, position),
        .causal = step->causal,
        .first_position = position,
        .zero_keys = step->key_room > k ? step->key_room - k : 0,
        .out = elements_of(a->run, step->y, block->first * out_columns + head * a->dim_value),
        .out_stride = out_columns,
        .out_element = a->run->elements[step->y],
        .scratch = a->packed + vector_packed_keys(k, a->dim_head, a->dim_value),
    };
    place_attention(a->run, step, block, head, &attend);
    a->run->vector->attend(&attend);
}

static void attend_block(struct attention *a, const struct row_block *block, int64_t head)
{
    int64_t end = block->first + block->rows;
    for (struct row_block rows = *block; rows.first < end; rows.first += rows.rows) {
        rows.rows = attended_rows(a->run, a->step, block, rows.first);
        attend_rows(a, &rows, head);
    }
}

static void attend(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    int64_t tasks = layout->n_blocks * step->heads;
#pragma omp parallel num_threads(threads_for(run, tasks))
    {
        struct attention attention = {
            .run = run,
            .step = step,
            .layout = layout,
            .keys_layout = layout_of(run, step->keys),
            .dim_head = columns_of(run, step->x) / step->heads,
            .dim_value = columns_of(run, step->y) / step->heads,
            .packed = run->scratch + omp_get_thread_num() * run->scratch_floats,
            .packed_item = -1,
        };
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < tasks; t++) {
            int64_t head;
            const struct row_block *block = attend_task(layout, step->heads, t, &head);
            attend_block(&attention, block, head);
        }
    }
}

/* The row at `position` of the item, its segments taken from the neighbours; x's axis has these, too. */
static void shift_row(const struct plan_step *step, int64_t columns, int64_t position, int64_t length, const float *x,
                      float *y)
{
    int64_t segment = columns / step->n_shifts;
    memcpy(y, x, (size_t)columns * sizeof *y);
    for (int64_t s = 0; s < step->n_shifts; s++) {
        int64_t shift = step->shifts[s], from = position - shift;
        if (from < 0 || from >= length)
            memset(y + s * segment, 0, (size_t)segment * sizeof *y);
        else
            memcpy(y + s * segment, x - shift * columns + s * segment, (size_t)segment * sizeof *y);
    }
}

static void shift_tokens(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *from = layout_of(run, step->x), *layout = layout_of(run, step->y);
    const float *x = floats_of(run, step->x);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x);
    int axis = run->plan->values[step->x].axis;
#pragma omp parallel for num_threads(threads_for(run, layout->n_blocks))
    for (int64_t b = 0; b < layout->n_blocks; b++) {
        const struct row_block *block = &layout->blocks[b];
        int64_t length = padder_axis_rows(run->plan, &run->batch->items[block->item], axis);
        for (int64_t r = block->first; r < block->first + block->rows; r++) {
            int64_t position = padder_position(layout, block->item, r);
            shift_row(step, columns, position, length, x + padder_row(from, block->item, position) * columns,
                      y + r * columns);
        }
    }
}

/* Pairs of neighbouring features, turned by the position's angles. */
static void rotate_row(int64_t columns, int64_t dim_head, const float *x, const float *angles, float *y)
{
    const float *sines = angles, *cosines = angles + dim_head / 2;
    for (int64_t c = 0; c < columns; c += 2) {
        int64_t i = c % dim_head / 2;
        y[c] = x[c] * cosines[i] - x[c + 1] * sines[i];
        y[c + 1] = x[c + 1] * cosines[i] + x[c] * sines[i];
    }
}

static void rotate(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    const float *x = floats_of(run, step->x), *table = weight_of(run, step->weight);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x), dim_head = run->plan->weights[step->weight].columns;
#pragma omp parallel for num_threads(threads_for(run, layout->n_blocks))
    for (int64_t b = 0; b < layout->n_blocks; b++) {
        const struct row_block *block = &layout->blocks[b];
        for (int64_t r = block->first; r < block->first + block->rows; r++)
            rotate_row(columns, dim_head, x + r * columns, table + padder_position(layout, block->item, r) * dim_head,
                       y + r * columns);
    }
}

/* Four bytes an element, ids (masks) too. y may lie where x does: rows only move down, the lowest first. */
static void gather_rows(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *from = layout_of(run, step->x), *to = layout_of(run, step->y);
    const float *x = floats_of(run, step->x);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x);
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        for (int64_t r = to->starts[b], end; r < to->starts[b + 1]; r = end) {
            int64_t row = padder_row(from, b, to->positions[r]);
            for (end = r + 1; end < to->starts[b + 1] && to->positions[end] - to->positions[r] == end - r;)
                end++;
            if (y + r * columns != x + row * columns)
                memmove(y + r * columns, x + row * columns, (size_t)((end - r) * columns) * sizeof *y);
        }
    }
}

/* Four bytes an element, ids (masks) too. */
static void cut_padding(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *from = layout_of(run, step->x), *to = layout_of(run, step->y);
    const float *x = floats_of(run, step->x);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x);
    for (int64_t b = 0; b < run->batch->n_items; b++)
        memcpy(y + to->starts[b] * columns, x + from->starts[b] * columns,
               (size_t)((to->starts[b + 1] - to->starts[b]) * columns) * sizeof *y);
}

static void append_rows(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *first = layout_of(run, step->x), *second = layout_of(run, step->z);
    const float *x = floats_of(run, step->x), *z = floats_of(run, step->z);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x);
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        int64_t upper = (first->starts[b + 1] - first->starts[b]) * columns;
        int64_t lower = (second->starts[b + 1] - second->starts[b]) * columns;
        float *out = y + layout_of(run, step->y)->starts[b] * columns;
        memcpy(out, x + first->starts[b] * columns, (size_t)upper * sizeof *y);
        memcpy(out + upper, z + second->starts[b] * columns, (size_t)lower * sizeof *y);
    }
}

cpu_operation *const cpu_operations[OP_COUNT] = {
    [OP_EMBED] = embed,
    [OP_ADD_POSITIONS] = add_positions,
    [OP_LAYER_NORM] = layer_norm,
    [OP_LINEAR] = cpu_linear,
    [OP_FEED_FORWARD] = cpu_feed_forward,
    [OP_ACTIVATE] = activate,
    [OP_MASK_ROWS] = mask_rows,
    [OP_ADD_SINUSOIDS] = add_sinusoids,
    [OP_ADD] = add,
    [OP_PROJECT_SEQUENCE] = cpu_project_sequence,
    [OP_CONVOLVE_SEQUENCE] = cpu_convolve_sequence,
    [OP_PROJECT_CALL] = cpu_project_call,
    [OP_ATTEND] = attend,
    [OP_ATTEND_CALL] = cpu_attend_call,
    [OP_SHIFT_TOKENS] = shift_tokens,
    [OP_ROTATE] = rotate,
    [OP_LINEAR_ATTEND] = cpu_linear_attend,
    [OP_LOCAL_ATTEND] = cpu_local_attend,
    [OP_CONCATENATE] = concatenate,
    [OP_APPEND_ROWS] = append_rows,
    [OP_CONVOLVE_IMAGE] = cpu_convolve_image,
    [OP_GATE] = gate,
    [OP_GATHER_ROWS] = gather_rows,
    [OP_CUT_PADDING] = cut_padding,
    [OP_RETRIEVE] = cpu_retrieve,
    [OP_GIVE_HIDDEN] = cpu_give_hidden,
    [OP_GIVE_POOLED] = cpu_give_pooled,
    [OP_GIVE_OUTPUT] = cpu_give_output,
    [OP_GIVE_IMAGE] = cpu_give_image,
};

int64_t cpu_thread_scratch(const struct products *products, const struct plan *plan, const struct plan_step *step)
{
    if (step->operation == OP_LINEAR || (step->operation == OP_GIVE_OUTPUT && step->weight != PLAN_NONE))
        return cpu_linear_scratch(products, plan, step->weight);
    if (step->operation == OP_FEED_FORWARD)
        return cpu_feed_forward_scratch(products, plan, step);
    if (step->operation == OP_PROJECT_SEQUENCE)
        return cpu_project_thread_scratch(products, plan, step);
    if (step->operation == OP_CONVOLVE_SEQUENCE)
        return cpu_convolve_scratch(plan, step);
    if (step->operation == OP_CONVOLVE_IMAGE)
        return cpu_convolve_image_scratch(products, plan, step);
    if (step->operation == OP_LINEAR_ATTEND)
        return cpu_linear_attend_scratch(plan, step);
    if (step->operation == OP_RETRIEVE)
        return cpu_retrieve_scratch(plan, step);
    if (step->operation == OP_LOCAL_ATTEND)
        return cpu_local_attend_scratch(plan, step);
    if (step->operation == OP_ATTEND_CALL)
        return cpu_attend_call_scratch(plan, step);
    if (step->operation != OP_ATTEND)
        return 0;
    const struct plan_axis *keys = &plan->axes[plan->values[step->keys].axis];
    int64_t dim_head = plan->values[step->x].columns / step->heads;
    int64_t dim_value = plan->values[step->y].columns / step->heads;
    return vector_packed_keys(keys->input == PLAN_NONE ? keys->rows_per_item : plan->max_rows, dim_head, dim_value) +
           vector_attend_scratch(dim_head, dim_value);
}

int64_t cpu_shared_scratch(const struct plan *plan, const struct plan_step *step)
{
    if (step->operation == OP_PROJECT_SEQUENCE)
        return cpu_project_scratch(plan, step);
    if (step->operation == OP_GIVE_POOLED)
        return plan->values[step->x].columns;
    return step->operation == OP_GIVE_OUTPUT ? cpu_give_output_scratch(plan, step) : 0;
}
