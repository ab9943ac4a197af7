/* Softmax attention. For one head of a block of n query rows, with k keys, a task computes
 *
 *     scores (n, k) = scale * queries (n, d) keys (k, d)ᵀ + mask (n, k)
 *     y (n, e)      = softmax of each row of scores, times values (k, e)
 *
 * A task first packs the keys and values of the head: it copies them in the order in which products read them. Then
 * vector_attend.c computes the block. It also writes the softmax, if the item requests it. */
#include "engine/cpu/attend.h"

#include <string.h>

/* The part of the item's mask (masks, n, k) for queries from `position` on. Only calls may have several masks, and
 * `number` selects one of them. A mask of one row is used for all positions. */
static struct vector_mask mask_of(const struct engine_item *item, const struct plan_step *step, int64_t k,
                                  int64_t number, int64_t position)
{
    struct vector_mask mask = {.stride = k, .byte = step->attend.masked_byte, .score = step->attend.masked_score};
    if (step->attend.mask == PLAN_NONE || !item->inputs[step->attend.mask].data)
        return mask;
    const struct engine_input *given = &item->inputs[step->attend.mask];
    int64_t row = (given->n_masks ? number * given->length : 0) + (given->length == 1 ? 0 : position);
    if (given->length == 1)
        mask.stride = 0;
    if (given->floats)
        mask.floats = (const float *)given->data + row * k;
    else
        mask.bytes = (const uint8_t *)given->data + row * k;
    return mask;
}

/* ---- OP_ATTEND: a sequence has k rows of keys ---- */

/* Packed keys and values, which a thread keeps from one task to the next. */
struct packed_head {
    /* Sequence and head of the packed keys and values. `sequence` is -1 if nothing is packed. */
    int64_t sequence, kv_head;
    float *packed;  /* vector_packed_keys floats */
    float *scratch; /* vector_attend_scratch floats, directly after `packed` */
};

/* Packs the keys and values of one head, unless the thread's previous task has packed the same keys and values. */
static void pack_head(const struct cpu_run *run, const struct plan_step *step, int64_t sequence, int64_t kv_head,
                      struct packed_head *head)
{
    if (head->sequence == sequence && head->kv_head == kv_head)
        return;
    /* First row of the keys, and the row after the last. */
    const int64_t *starts = layout_of(run, step->keys)->starts + sequence;
    int64_t d = columns_of(run, step->x) / step->attend.heads, e = columns_of(run, step->y) / step->attend.heads;
    int64_t key_columns = columns_of(run, step->keys), value_columns = columns_of(run, step->values);
    int64_t k = starts[1] - starts[0];
    head->sequence = sequence;
    head->kv_head = kv_head;
    head->scratch = head->packed + vector_packed_keys(k, d, e);
    run->vector->pack_keys(
        &(struct vector_keys){
            .k = k,
            .dim_head = d,
            .dim_value = e,
            .keys = elements_of(run, step->keys, starts[0] * key_columns + kv_head * d),
            .key_stride = key_columns,
            .key_element = run->elements[step->keys],
            .values = elements_of(run, step->values, starts[0] * value_columns + kv_head * e),
            .value_stride = value_columns,
            .value_element = run->elements[step->values],
        },
        head->packed);
}

/* The number of rows from `row` on, before `end`, that one call of the vector kernel can compute. The kernel needs
 * positions for causal scores, for masks, and for a requested softmax. It counts positions from the first row. So the
 * rows of one call must have consecutive positions. */
static int64_t rows_at_once(const struct cpu_run *run, const struct plan_step *step, bool softmax, int64_t row,
                            int64_t end)
{
    const int32_t *positions = layout_of(run, step->x)->positions;
    int64_t rows = 1;
    if (!positions || (!step->attend.causal && step->attend.mask == PLAN_NONE && !softmax))
        return end - row;
    while (row + rows < end && positions[row + rows] == positions[row] + rows)
        rows++;
    return rows;
}

/* Computes one head of a block of query rows. */
static void attend_block(const struct cpu_run *run, const struct plan_step *step, const struct row_block *block,
                         int64_t head, struct packed_head *packed)
{
    /* On an AXIS_SIZED, an item may have several sequences. In this case, attend.index is PLAN_NONE, and the step has
     * neither masks nor a requested softmax. */
    const struct engine_item *item = step->attend.index == PLAN_NONE ? NULL : &run->batch->items[block->sequence];
    int64_t owner = padder_owner(layout_of(run, step->keys), block->sequence);
    const int64_t *keys = layout_of(run, step->keys)->starts + owner;
    int64_t query_columns = columns_of(run, step->x), out_columns = columns_of(run, step->y);
    int64_t d = query_columns / step->attend.heads, e = out_columns / step->attend.heads, k = keys[1] - keys[0];
    int64_t zero_keys = most(step->attend.key_room - k, 0), end = block->first + block->rows;
    float *softmax = padder_softmax(run->plan, item, step); /* (h, n, k + zero_keys). n does not count padding */
    int64_t n = softmax ? padder_own_rows(run->plan, item, run->plan->values[step->x].axis) : 0;
    pack_head(run, step, owner, head * step->attend.kv_heads / step->attend.heads, packed);
    for (int64_t row = block->first, rows; row < end; row += rows) {
        int64_t position = padder_position(layout_of(run, step->x), block->sequence, row);
        rows = rows_at_once(run, step, softmax != NULL, row, end);
        int64_t softmax_rows = least(rows, n - position);
        run->vector->attend(&(struct vector_attend){
            .rows = rows,
            .k = k,
            .dim_head = d,
            .dim_value = e,
            .queries = elements_of(run, step->x, row * query_columns + head * d),
            .query_stride = query_columns,
            .query_element = run->elements[step->x],
            .packed = packed->packed,
            .scale = step->attend.scale,
            .mask = mask_of(item, step, k, 0, position),
            .causal = step->attend.causal,
            .first_position = position,
            .zero_keys = zero_keys,
            .out = elements_of(run, step->y, row * out_columns + head * e),
            .out_stride = out_columns,
            .out_element = run->elements[step->y],
            .softmax = softmax_rows > 0 ? softmax + (head * n + position) * (k + zero_keys) : NULL,
            .softmax_rows = softmax_rows,
            .scratch = packed->scratch,
        });
    }
}

/* Finds the block and the head of a task. The tasks of a sequence are consecutive. Among them, the blocks of one head
 * are consecutive, so a thread can reuse packed keys. */
static const struct row_block *block_of_task(const struct layout *layout, int64_t heads, int64_t task, int64_t *head)
{
    /* Block task / heads belongs to the sequence of the task, but need not be the task's own block. */
    const struct row_block *block = &layout->blocks[task / heads];
    int64_t start = layout->starts[block->sequence], rows = layout->starts[block->sequence + 1] - start;
    int64_t before = (block->first - start) / PADDER_BLOCK_ROWS; /* number of earlier blocks of the sequence */
    int64_t first = task / heads - before, blocks = parts_of(rows, PADDER_BLOCK_ROWS);
    int64_t in_sequence = task - first * heads;
    *head = in_sequence / blocks;
    return &layout->blocks[first + in_sequence % blocks];
}

/* Returns a pointer to the rows of one sequence in a value. Sets *bytes to the size of these rows. */
static void *rows_of_sequence(const struct cpu_run *run, int value, int64_t sequence, size_t *bytes)
{
    const int64_t *starts = layout_of(run, value)->starts + sequence;
    int64_t columns = columns_of(run, value);
    *bytes = (size_t)((starts[1] - starts[0]) * columns * element_bytes(run->elements[value]));
    return elements_of(run, value, starts[0] * columns);
}

/* Copies keys and values of a context into slots, or from slots. A context comes only with the first part of a
 * sequence, whose slot then keeps the context's keys and values. For a later part, they are copied from the slot. In a
 * plan with slots each item is one sequence. */
static void keep_keys(const struct cpu_run *run, const struct plan_step *step)
{
    for (int64_t i = 0; run->plan->n_slots > 0 && i < run->batch->n_items; i++) {
        char *state = (char *)state_of(run, i);
        for (int read = 0; state && read < 2; read++) {
            size_t bytes;
            void *rows = rows_of_sequence(run, read == 0 ? step->keys : step->values, i, &bytes);
            if (padder_earlier_rows(run->plan, run->batch, i) == 0)
                memcpy(state, rows, bytes);
            else
                memcpy(rows, state, bytes);
            state += bytes;
        }
    }
}

void cpu_attend(const struct cpu_run *run, const struct plan_step *step)
{
    keep_keys(run, step);
    const struct layout *layout = layout_of(run, step->x);
    int64_t tasks = layout->n_blocks * step->attend.heads;
#pragma omp parallel num_threads(threads_for(run, tasks))
    {
        struct packed_head packed = {.sequence = -1, .packed = scratch_of(run)};
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < tasks; t++) {
            int64_t head;
            const struct row_block *block = block_of_task(layout, step->attend.heads, t, &head);
            attend_block(run, step, block, head, &packed);
        }
    }
}

int64_t cpu_attend_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    int64_t d = plan->values[step->x].columns / step->attend.heads,
            e = plan->values[step->y].columns / step->attend.heads;
    return vector_packed_keys(plan_most_sequence_rows(plan, step->keys), d, e) + vector_attend_scratch(d, e);
}

/* ---- OP_ATTEND_CALL: an item is w sequences ---- */

/* Row p * w + s of a value is position p of sequence s, so the rows of a sequence are w rows apart. Each sequence has
 * its own k keys. The division into tasks depends only on the item, so the results do not depend on the other items of
 * the batch. */

#define BLOCK_POSITIONS 64 /* maximum number of positions of a task */

/* Adds the softmax (count) of one head to the sum over the heads. After the last head, divides the sum by the number of
 * heads. */
static void add_softmax(int64_t head, int64_t heads, int64_t count, const float *softmax, float *mean)
{
    for (int64_t i = 0; i < count; i++)
        mean[i] = head == 0 ? softmax[i] : mean[i] + softmax[i];
    for (int64_t i = 0; head == heads - 1 && i < count; i++)
        mean[i] /= (float)heads;
}

/* A pointer to the first element of the item's rows of a value. */
static float *item_floats(const struct cpu_run *run, int value, int64_t item)
{
    return floats_of(run, value) + layout_of(run, value)->starts[item] * columns_of(run, value);
}

/* The number of positions of each sequence of the item on the value's axis. */
static int64_t positions_of(const struct cpu_run *run, int value, int64_t item)
{
    const int64_t *starts = layout_of(run, value)->starts + item;
    return (starts[1] - starts[0]) / width_of(run, value, item);
}

/* Computes positions [first, first + BLOCK_POSITIONS) of one sequence, one head after another, so that the softmaxes of
 * the heads are added in a fixed order. */
static void attend_sequence(const struct cpu_run *run, const struct plan_step *step, int64_t b, int64_t sequence,
                            int64_t first)
{
    const struct engine_item *item = &run->batch->items[b];
    int64_t columns = columns_of(run, step->x), d = columns / step->attend.heads;
    int64_t stride = width_of(run, step->x, b) * columns; /* distance between the rows of one sequence */
    int64_t n = positions_of(run, step->x, b), k = positions_of(run, step->keys, b);
    int64_t rows = least(BLOCK_POSITIONS, n - first), zero_keys = most(step->attend.key_room - k, 0),
            keys = k + zero_keys;
    float *mean = padder_softmax(run->plan, item, step); /* (w, n, keys): the mean over the heads */
    float *softmax = scratch_of(run);                    /* (BLOCK_POSITIONS, keys): the softmax of one head */
    float *packed = softmax + BLOCK_POSITIONS * keys;    /* vector_packed_keys floats */
    for (int64_t head = 0; head < step->attend.heads; head++) {
        int64_t column = sequence * columns + head * d;
        run->vector->pack_keys(
            &(struct vector_keys){
                .k = k,
                .dim_head = d,
                .dim_value = d,
                .keys = item_floats(run, step->keys, b) + column,
                .key_stride = stride,
                .values = item_floats(run, step->values, b) + column,
                .value_stride = stride,
            },
            packed);
        run->vector->attend(&(struct vector_attend){
            .rows = rows,
            .k = k,
            .dim_head = d,
            .dim_value = d,
            .queries = item_floats(run, step->x, b) + first * stride + column,
            .query_stride = stride,
            .packed = packed,
            .scale = step->attend.scale,
            .mask = mask_of(item, step, k, sequence * step->attend.heads + head, first),
            .zero_keys = zero_keys,
            .out = item_floats(run, step->y, b) + first * stride + column,
            .out_stride = stride,
            .softmax = mean ? softmax : NULL,
            .softmax_rows = rows,
            .scratch = packed + vector_packed_keys(k, d, d),
        });
        if (mean)
            add_softmax(head, step->attend.heads, rows * keys, softmax, mean + (sequence * n + first) * keys);
    }
}

void cpu_attend_call(const struct cpu_run *run, const struct plan_step *step)
{
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        /* Number of blocks of one sequence. */
        int64_t blocks = parts_of(positions_of(run, step->x, b), BLOCK_POSITIONS);
        int64_t tasks = width_of(run, step->x, b) * blocks;
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
        for (int64_t t = 0; t < tasks; t++)
            attend_sequence(run, step, b, t / blocks, t % blocks * BLOCK_POSITIONS);
    }
}

/* Scratch for the softmax of BLOCK_POSITIONS rows, for the packed keys and values, and for vector_attend. k is the
 * largest number of keys of a sequence. */
int64_t cpu_attend_call_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    int64_t k = plan_most_sequence_rows(plan, step->keys), d = plan->values[step->x].columns / step->attend.heads;
    return BLOCK_POSITIONS * most(k, step->attend.key_room) + vector_packed_keys(k, d, d) + vector_attend_scratch(d, d);
}
