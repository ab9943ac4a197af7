#include "engine/cpu/rows.h"

#include <math.h>
#include <string.h>

#define ROWS_PER_TASK PLAN_ROW_BLOCK
#define ELEMENTS_A_COPY (INT64_C(1) << 16)
#define CHUNK 256 /* number of ids that are converted at a time */

/* ---- Operations on single rows ---- */

/* y[r] = table[ids[r]]. Checks each id, because ids may be computed from floats of a request. The row of an unknown id
 * is NaN. */
void cpu_embed(const struct cpu_run *run, const struct plan_step *step)
{
    const int32_t *ids = ids_of(run, step->x);        /* (rows, 1) */
    const float *table = weight_of(run, step->table); /* (vocabulary, columns) */
    float *y = floats_of(run, step->y);               /* (rows, columns) */
    int64_t columns = columns_of(run, step->y), rows = rows_of(run, step->x);
    int64_t vocabulary = run->plan->weights[step->table].rows;
#pragma omp parallel for num_threads(threads_for(run, parts_of(rows, ROWS_PER_TASK)))
    for (int64_t r = 0; r < rows; r++) {
        bool known = ids[r] >= 0 && ids[r] < vocabulary;
        if (known)
            memcpy(y + r * columns, table + ids[r] * columns, (size_t)columns * sizeof *y);
        for (int64_t i = 0; !known && i < columns; i++)
            y[r * columns + i] = NAN;
    }
}

static void add_row(int64_t columns, const float *x, const float *table, float *y)
{
    for (int64_t i = 0; i < columns; i++)
        y[i] = x[i] + table[i];
}

/* y = x + (major + minor). The library adds the two tables first, so the kernel does, too. */
static void add_two_rows(int64_t columns, const float *x, const float *major, const float *minor, float *y)
{
    for (int64_t i = 0; i < columns; i++)
        y[i] = x[i] + (major[i] + minor[i]);
}

void cpu_add_positions(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    const float *x = floats_of(run, step->x);               /* (rows, columns) */
    const float *major = weight_of(run, step->table);       /* (positions / period, columns) */
    const float *minor = weight_of(run, step->minor_table); /* (period, columns). NULL if there is only one table */
    float *y = floats_of(run, step->y);                     /* (rows, columns) */
    int64_t columns = columns_of(run, step->x), period = step->add_positions.period;
#pragma omp parallel for num_threads(threads_for(run, layout->n_blocks))
    for (int64_t t = 0; t < layout->n_blocks; t++) {
        const struct row_block *block = &layout->blocks[t];
        for (int64_t r = block->first; r < block->first + block->rows; r++) {
            int64_t p = whole_position_of(run, layout, block->sequence, r);
            if (minor)
                add_two_rows(columns, x + r * columns, major + p / period * columns, minor + p % period * columns,
                             y + r * columns);
            else
                add_row(columns, x + r * columns, major + p * columns, y + r * columns);
        }
    }
}

/* Each group of `columns` columns is normalised separately, so it counts as a row in this function. */
void cpu_layer_norm(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x);
    enum element element = run->elements[step->y];
    int64_t columns = run->plan->weights[step->weight].columns;
    int64_t rows = rows_of(run, step->x) * (columns_of(run, step->x) / columns), tasks = parts_of(rows, ROWS_PER_TASK);
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++) {
        int64_t first = t * ROWS_PER_TASK;
        run->vector->layer_norm(least(ROWS_PER_TASK, rows - first), columns, x + first * columns,
                                weight_of(run, step->weight), weight_of(run, step->bias), step->layer_norm.epsilon,
                                element, elements_of(run, step->y, first * columns));
    }
}

/* Returns elements [first, first + count) of a value. Ids are converted to floats in `room`. */
static const float *read_floats(const struct cpu_run *run, int value, int64_t first, int64_t count, float *room)
{
    if (!run->plan->values[value].ids)
        return floats_of(run, value) + first;
    const int32_t *ids = ids_of(run, value) + first;
    for (int64_t i = 0; i < count; i++)
        room[i] = (float)ids[i];
    return room;
}

/* Sets ids to the integer parts of x. An id is INT32_MIN for a NaN, and for a number outside of int32_t, such as
 * 2^31. */
static void ids_of_floats(int64_t count, const float *x, int32_t *ids)
{
    for (int64_t i = 0; i < count; i++)
        ids[i] = fabsf(x[i]) < 2147483648.0f ? (int32_t)x[i] : INT32_MIN;
}

/* Computes elements [first, first + count). If x or y contains ids, count is at most CHUNK. */
static void activate_elements(const struct cpu_run *run, const struct plan_step *step, int64_t first, int64_t count)
{
    float x_room[CHUNK], y_room[CHUNK];
    const float *x = read_floats(run, step->x, first, count, x_room);
    bool to_ids = run->plan->values[step->y].ids;
    run->vector->activate(count, step->activate.activation, x, to_ids ? y_room : floats_of(run, step->y) + first);
    if (to_ids)
        ids_of_floats(count, y_room, (int32_t *)ids_of(run, step->y) + first);
}

void cpu_activate(const struct cpu_run *run, const struct plan_step *step)
{
    bool ids = run->plan->values[step->x].ids || run->plan->values[step->y].ids;
    int64_t columns = columns_of(run, step->x), elements = rows_of(run, step->x) * columns;
    int64_t each = ids ? CHUNK : ROWS_PER_TASK * columns, tasks = elements == 0 ? 0 : parts_of(elements, each);
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++)
        activate_elements(run, step, t * each, least(each, elements - t * each));
}

void cpu_add(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x), *z = floats_of(run, step->z); /* (rows, columns) each, like y */
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x), rows = rows_of(run, step->x), tasks = parts_of(rows, ROWS_PER_TASK);
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++) {
        int64_t first = t * ROWS_PER_TASK * columns;
        int64_t count = least(ROWS_PER_TASK, rows - t * ROWS_PER_TASK) * columns;
        run->vector->add(count, x + first, z + first, step->add.scale, y + first);
    }
}

/* The plan may place x and y in the same memory. In this case, rows that the mask keeps need no work. */
void cpu_mask_rows(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x);   /* (rows, columns), like y */
    const int32_t *mask = ids_of(run, step->z); /* (rows, 1) */
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x), rows = rows_of(run, step->x), tasks = parts_of(rows, ROWS_PER_TASK);
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++) {
        for (int64_t r = t * ROWS_PER_TASK; r < least(rows, (t + 1) * ROWS_PER_TASK); r++) {
            if (!mask[r])
                memset(y + r * columns, 0, (size_t)columns * sizeof *y);
            else if (x != y)
                memcpy(y + r * columns, x + r * columns, (size_t)columns * sizeof *y);
        }
    }
}

/* Angles are products in float, as in the library. With exact products, the sines would differ. For example, if the
 * position is a million and the frequency near 1, the angle has only 4 bits after the binary point. */
void cpu_add_sinusoids(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    const float *x = floats_of(run, step->x);                /* (rows, columns), like y */
    const float *frequencies = weight_of(run, step->weight); /* (columns / 2) */
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x);
#pragma omp parallel for num_threads(threads_for(run, layout->n_blocks))
    for (int64_t t = 0; t < layout->n_blocks; t++) {
        const struct row_block *block = &layout->blocks[t];
        for (int64_t r = block->first; r < block->first + block->rows; r++) {
            float position = (float)whole_position_of(run, layout, block->sequence, r);
            run->vector->add_sinusoids(columns / 2, position, frequencies, x + r * columns, y + r * columns);
        }
    }
}

void cpu_concatenate(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x); /* (rows, left) */
    const float *z = floats_of(run, step->z); /* (rows, right) */
    float *y = floats_of(run, step->y);       /* (rows, left + right) */
    int64_t left = columns_of(run, step->x), right = columns_of(run, step->z), rows = rows_of(run, step->x);
#pragma omp parallel for num_threads(threads_for(run, parts_of(rows, ROWS_PER_TASK)))
    for (int64_t r = 0; r < rows; r++) {
        memcpy(y + r * (left + right), x + r * left, (size_t)left * sizeof *y);
        memcpy(y + r * (left + right) + left, z + r * right, (size_t)right * sizeof *y);
    }
}

void cpu_gate(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x); /* (rows, 2 * columns): values, followed by gates */
    float *y = floats_of(run, step->y);       /* (rows, columns) */
    int64_t columns = columns_of(run, step->y), rows = rows_of(run, step->x), tasks = parts_of(rows, ROWS_PER_TASK);
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++) {
        for (int64_t r = t * ROWS_PER_TASK; r < least((t + 1) * ROWS_PER_TASK, rows); r++) {
            const float *gates = x + r * 2 * columns + columns;
            run->vector->activate(columns, step->gate.activation, x + r * 2 * columns, y + r * columns);
            for (int64_t i = 0; i < columns; i++)
                y[r * columns + i] *= gates[i];
        }
    }
}

/* ---- Operations on rows and their neighbours ---- */

/* Computes the row y at `position` of a sequence with `length` rows. x is the same row before the shift. Each segment
 * is copied from x or a neighbour of x. The neighbours are the rows before and after x in memory. `before` is the first
 * segment of the sequence's last row in an earlier batch, or NULL if there is no such row. */
static void shift_row(const struct plan_step *step, int64_t columns, int64_t position, int64_t length, const float *x,
                      const float *before, float *y)
{
    int64_t segment = columns / step->shift_tokens.count;
    memcpy(y, x, (size_t)columns * sizeof *y);
    for (int64_t s = 0; s < step->shift_tokens.count; s++) {
        int64_t shift = step->shift_tokens.by[s], from = position - shift;
        if (from < 0 && before)
            memcpy(y, before, (size_t)segment * sizeof *y);
        else if (from < 0 || from >= length)
            memset(y + s * segment, 0, (size_t)segment * sizeof *y);
        else
            memcpy(y + s * segment, x - shift * columns + s * segment, (size_t)segment * sizeof *y);
    }
}

/* Keeps the first segment of each sequence's last row for the next batch. Call it after all shifts of the step. */
static void keep_last_rows(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *from = layout_of(run, step->x);
    int64_t columns = columns_of(run, step->x), segment = columns / step->shift_tokens.count;
    for (int64_t i = 0; run->plan->n_slots > 0 && i < run->batch->n_items; i++)
        if (state_of(run, i))
            memcpy(state_of(run, i), floats_of(run, step->x) + (from->starts[i + 1] - 1) * columns,
                   (size_t)segment * sizeof(float));
}

/* The axis of y may contain fewer rows than the axis of x: only the rows that the item requests. */
void cpu_shift_tokens(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *from = layout_of(run, step->x), *to = layout_of(run, step->y);
    const float *x = floats_of(run, step->x);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x);
    int axis = run->plan->values[step->x].axis;
#pragma omp parallel for num_threads(threads_for(run, to->n_blocks))
    for (int64_t t = 0; t < to->n_blocks; t++) {
        const struct row_block *block = &to->blocks[t];
        int64_t length = from->starts[block->sequence + 1] - from->starts[block->sequence];
        if (from->positions) /* in this case an item is one sequence, and x contains some of its rows */
            length = padder_axis_rows(run->plan, &run->batch->items[block->sequence], axis);
        const float *before =
            padder_earlier_rows(run->plan, run->batch, block->sequence) > 0 ? state_of(run, block->sequence) : NULL;
        for (int64_t r = block->first; r < block->first + block->rows; r++) {
            int64_t p = padder_position(to, block->sequence, r);
            shift_row(step, columns, p, length, x + padder_row(from, block->sequence, p) * columns, before,
                      y + r * columns);
        }
    }
    keep_last_rows(run, step);
}

/* Turns each pair of neighbouring features by its angle. `angles` consists of d / 2 sines, followed by d / 2 cosines.
 * All heads share these angles. */
static void rotate_row(int64_t columns, int64_t d, const float *x, const float *angles, float *y)
{
    const float *sines = angles, *cosines = angles + d / 2;
    for (int64_t c = 0; c < columns; c += 2) {
        int64_t i = c % d / 2;
        y[c] = x[c] * cosines[i] - x[c + 1] * sines[i];
        y[c + 1] = x[c + 1] * cosines[i] + x[c] * sines[i];
    }
}

void cpu_rotate(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    const float *x = floats_of(run, step->x);         /* (rows, h * d), like y */
    const float *table = weight_of(run, step->table); /* (positions, d) */
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x), d = run->plan->weights[step->table].columns;
#pragma omp parallel for num_threads(threads_for(run, layout->n_blocks))
    for (int64_t t = 0; t < layout->n_blocks; t++) {
        const struct row_block *block = &layout->blocks[t];
        for (int64_t r = block->first; r < block->first + block->rows; r++)
            rotate_row(columns, d, x + r * columns, table + whole_position_of(run, layout, block->sequence, r) * d,
                       y + r * columns);
    }
}

/* The value may also contain ids or masks. Elements of ids and masks also have 4 bytes. */
void cpu_cut_padding(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *from = layout_of(run, step->x), *to = layout_of(run, step->y);
    const float *x = floats_of(run, step->x);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x);
    for (int64_t b = 0; b < to->n_sequences; b++)
        memcpy(y + to->starts[b] * columns, x + from->starts[b] * columns,
               (size_t)((to->starts[b + 1] - to->starts[b]) * columns) * sizeof *y);
}

/* Items follow one another without gaps in both x and y, so the elements of a batch keep their places. As in
 * cpu_cut_padding, elements have 4 bytes. The plan may place x and y in the same memory. */
void cpu_reshape(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x);
    float *y = floats_of(run, step->y);
    int64_t elements = rows_of(run, step->y) * columns_of(run, step->y), tasks = parts_of(elements, ELEMENTS_A_COPY);
    if (x == y)
        return;
#pragma omp parallel for num_threads(threads_for(run, tasks))
    for (int64_t t = 0; t < tasks; t++) {
        int64_t first = t * ELEMENTS_A_COPY;
        memcpy(y + first, x + first, (size_t)least(ELEMENTS_A_COPY, elements - first) * sizeof *y);
    }
}

static void fill_words(int32_t *words, int64_t count, int32_t fill)
{
    for (int64_t i = 0; i < count; i++)
        words[i] = fill;
}

/* As in cpu_cut_padding, elements have 4 bytes. A fill other than 0 is used only for masks. */
void cpu_pad_rows(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *from = layout_of(run, step->x), *to = layout_of(run, step->y);
    const int32_t *x = (const int32_t *)floats_of(run, step->x);
    int32_t *y = (int32_t *)floats_of(run, step->y);
    int64_t columns = columns_of(run, step->y);
    for (int64_t b = 0; b < to->n_sequences; b++) {
        int64_t own = (from->starts[b + 1] - from->starts[b]) * columns;
        int64_t all = (to->starts[b + 1] - to->starts[b]) * columns;
        int32_t *out = y + to->starts[b] * columns;
        if (step->pad_rows.ones)
            fill_words(out, own, 1);
        else
            memcpy(out, x + from->starts[b] * columns, (size_t)own * sizeof *out);
        fill_words(out + own, all - own, step->pad_rows.fill);
    }
}

void cpu_append_rows(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *first = layout_of(run, step->x), *second = layout_of(run, step->z);
    const float *x = floats_of(run, step->x), *z = floats_of(run, step->z);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x);
    for (int64_t b = 0; b < first->n_sequences; b++) {
        int64_t upper = (first->starts[b + 1] - first->starts[b]) * columns;
        int64_t lower = (second->starts[b + 1] - second->starts[b]) * columns;
        float *out = y + layout_of(run, step->y)->starts[b] * columns;
        memcpy(out, x + first->starts[b] * columns, (size_t)upper * sizeof *y);
        memcpy(out + upper, z + second->starts[b] * columns, (size_t)lower * sizeof *y);
    }
}

/* As in cpu_cut_padding, elements have 4 bytes. The plan may place x and y in the same memory. Rows move only to lower
 * addresses. So one thread copies them in ascending order. Consecutive rows are copied together. */
void cpu_gather_rows(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *from = layout_of(run, step->x), *to = layout_of(run, step->y);
    const float *x = floats_of(run, step->x);
    float *y = floats_of(run, step->y);
    int64_t columns = columns_of(run, step->x);
    for (int64_t b = 0; b < to->n_sequences; b++) {
        for (int64_t r = to->starts[b], end; r < to->starts[b + 1]; r = end) {
            int64_t row = padder_row(from, b, to->positions[r]);
            for (end = r + 1; end < to->starts[b + 1] && to->positions[end] - to->positions[r] == end - r;)
                end++;
            if (y + r * columns != x + row * columns)
                memmove(y + r * columns, x + row * columns, (size_t)((end - r) * columns) * sizeof *y);
        }
    }
}
