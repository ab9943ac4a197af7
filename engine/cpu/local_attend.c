/* Attention within windows of a sequence. A row reads the keys of its own window and of the two windows beside it. If
 * attention is causal, the row reads only keys up to its own position, in its own window and the window before it. Rows
 * of one window and one head are computed together.
 *
 * The rows of a sequence may come in several batches (engine_item.slot). In this case, the sequence's slot keeps the
 * keys and values of two windows: the last row's window, and the window before it. Rows read the keys of earlier
 * batches in the slot. */
#include "engine/cpu/local_attend.h"

#include <math.h>
#include <string.h>

/* The rows of one window and one head, with the keys that they read. */
struct window_rows {
    const struct cpu_run *run;
    const struct plan_step *step;
    const float *queries;       /* (rows, d) */
    const float *keys, *values; /* (k, d) each. Rows are key_stride apart */
    const int32_t *mask;        /* (k), 0 for a masked key. NULL if there is no mask */
    float *out;                 /* (rows, d) */
    float *scratch;
    int64_t query_stride, key_stride, out_stride; /* key_stride is also the stride of the values */
    int64_t rows, k;
    int64_t first_seen; /* number of keys up to the key of the first row, including this key */
    /* Number of positions of the windows that the rows read. (positions - k) of these are outside of the sequence. */
    int64_t positions;
};

/* For a row that reads no key, sets out (d) to the mean of all values of its windows. Values outside the sequence count
 * as -1. The library sets the scores of hidden keys to one number. So if all keys of a row are hidden, all positions of
 * its windows have the same weight. */
static void mean_of_positions(const struct window_rows *p, float *out)
{
    int64_t d = p->step->local_attend.dim_head;
    memset(out, 0, (size_t)d * sizeof *out);
    p->run->vector->sum_rows(p->k, d, p->values, p->key_stride, out);
    for (int64_t i = 0; i < d; i++)
        out[i] = (out[i] - (float)(p->positions - p->k)) / (float)p->positions;
}

/* Converts the mask to bytes. Returns the first key that is not masked, or k if all keys are masked. */
static int64_t load_mask(const struct window_rows *p, uint8_t *bytes)
{
    int64_t first = p->k;
    for (int64_t j = p->k - 1; j >= 0; j--) {
        bytes[j] = p->mask[j] != 0;
        first = bytes[j] ? j : first;
    }
    return first;
}

static void attend_window(const struct window_rows *p)
{
    int64_t d = p->step->local_attend.dim_head, first_visible = 0;
    float *scratch = p->scratch + vector_packed_keys(p->k, d, d);
    uint8_t *bytes = (uint8_t *)(scratch + vector_attend_scratch(d, d));
    struct vector_attend attend = {
        .rows = p->rows,
        .k = p->k,
        .dim_head = d,
        .dim_value = d,
        .queries = p->queries,
        .query_stride = p->query_stride,
        .packed = p->scratch,
        .scale = (float)pow((double)d, -0.5),
        .causal = p->step->local_attend.causal,
        .first_position = p->first_seen - 1,
        .out = p->out,
        .out_stride = p->out_stride,
        .scratch = scratch,
    };
    if (p->mask) {
        first_visible = load_mask(p, bytes);
        attend.mask = (struct vector_mask){.bytes = bytes, .stride = 0, .byte = false, .score = -INFINITY};
    }
    p->run->vector->pack_keys(
        &(struct vector_keys){
            .k = p->k,
            .dim_head = d,
            .dim_value = d,
            .keys = p->keys,
            .key_stride = p->key_stride,
            .values = p->values,
            .value_stride = p->key_stride,
        },
        p->scratch);
    p->run->vector->attend(&attend);
    for (int64_t r = 0; r < p->rows; r++)
        if (first_visible >= (p->step->local_attend.causal ? p->first_seen + r : p->k))
            mean_of_positions(p, p->out + r * p->out_stride);
}

/* Describes rows of x: from `position` to the end of their window, or to `end` if it comes first. Positions count from
 * the first row of the sequence in this batch. `earlier` is the position of this first row in the whole sequence. Only
 * keys of this batch are described. */
static struct window_rows rows_of_window(const struct cpu_run *run, const struct plan_step *step, int64_t sequence,
                                         int64_t earlier, int64_t position, int64_t end, int64_t head)
{
    const int32_t *mask = ids_of(run, step->z);
    const struct layout *layout = layout_of(run, step->x);
    int64_t start = layout->starts[sequence], length = layout->starts[sequence + 1] - start,
            window = step->local_attend.window;
    int64_t own = (earlier + position) / window * window - earlier, around = step->local_attend.causal ? 2 : 3;
    int64_t first_key = most(0, own - window), end_key = least(length, own + (around - 1) * window);
    int64_t query_stride = columns_of(run, step->x), key_stride = columns_of(run, step->keys);
    int64_t out_stride = columns_of(run, step->y),
            column = (step->local_attend.first_head + head) * step->local_attend.dim_head;
    int64_t query = start + position, key = (start + first_key) * key_stride + column;
    return (struct window_rows){
        .run = run,
        .step = step,
        .queries = floats_of(run, step->x) + query * query_stride + column,
        .keys = floats_of(run, step->keys) + key,
        .values = floats_of(run, step->values) + key,
        .mask = mask ? mask + start + first_key : NULL,
        .out = floats_of(run, step->y) + query * out_stride + head * step->local_attend.dim_head,
        .scratch = scratch_of(run),
        .query_stride = query_stride,
        .key_stride = key_stride,
        .out_stride = out_stride,
        .rows = least(own + window, end) - position,
        .k = end_key - first_key,
        .first_seen = position - first_key + 1,
        .positions = around * window,
    };
}

/* ---- Sequences whose rows come in several batches ---- */

/* One head's keys or values in a slot: (2 * window, d). The rows of the previous window are followed by the rows of the
 * current window. */
struct kept_rows {
    float *rows;
    int64_t window, d;
};

/* Copies `count` rows, which begin at `from` and are `stride` apart, to the slot. They become rows `first`, first + 1,
 * … of the current window. If `first` is 0, a new window begins, and the current window becomes the previous window. */
static void keep_rows(struct kept_rows kept, const float *from, int64_t stride, int64_t first, int64_t count)
{
    float *current = kept.rows + kept.window * kept.d;
    if (first == 0)
        memcpy(kept.rows, current, (size_t)(kept.window * kept.d) * sizeof *current);
    for (int64_t r = 0; r < count; r++)
        memcpy(current + (first + r) * kept.d, from + r * stride, (size_t)kept.d * sizeof *current);
}

/* Computes one head of a part of a sequence, one window after another. */
static void attend_part(const struct cpu_run *run, const struct plan_step *step, int64_t sequence, int64_t head)
{
    const struct layout *layout = layout_of(run, step->x);
    int64_t earlier = padder_earlier_rows(run->plan, run->batch, sequence), window = step->local_attend.window;
    int64_t length = layout->starts[sequence + 1] - layout->starts[sequence], d = step->local_attend.dim_head;
    float *state = state_of(run, sequence) + head * 4 * window * d;
    struct kept_rows keys = {state, window, d}, values = {state + 2 * window * d, window, d};
    int64_t column = (step->local_attend.first_head + head) * d, stride = columns_of(run, step->keys);
    int64_t first_row = layout->starts[sequence] * stride + column;
    for (int64_t position = 0; position < length;) {
        int64_t in_window = (earlier + position) % window, own = position - in_window;
        struct window_rows rows = rows_of_window(run, step, sequence, earlier, position, length, head);
        keep_rows(keys, floats_of(run, step->keys) + first_row + position * stride, stride, in_window, rows.rows);
        keep_rows(values, floats_of(run, step->values) + first_row + position * stride, stride, in_window, rows.rows);
        if (own - window < 0) { /* some keys were in an earlier batch, or there is no previous window */
            bool before = earlier + own >= window;
            rows.keys = keys.rows + (before ? 0 : window * d);
            rows.values = values.rows + (before ? 0 : window * d);
            rows.key_stride = d;
            rows.mask = NULL;
            rows.first_seen = in_window + 1 + (before ? window : 0);
            rows.k = rows.first_seen - 1 + rows.rows;
        }
        attend_window(&rows);
        position += rows.rows;
    }
}

/* Computes the rows of one block and one head, window after window. */
static void attend_block(const struct cpu_run *run, const struct plan_step *step, const struct row_block *block,
                         int64_t head)
{
    int64_t first = block->first - layout_of(run, step->x)->starts[block->sequence], end = first + block->rows;
    for (int64_t position = first; position < end;) {
        struct window_rows rows = rows_of_window(run, step, block->sequence, 0, position, end, head);
        attend_window(&rows);
        position += rows.rows;
    }
}

void cpu_local_attend(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    int64_t tasks = layout->n_blocks * step->local_attend.heads;
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++) {
        const struct row_block *block = &layout->blocks[t / step->local_attend.heads];
        int64_t head = t % step->local_attend.heads;
        if (!state_of(run, block->sequence))
            attend_block(run, step, block, head);
        else if (block->first == layout->starts[block->sequence]) /* a sequence with a slot is one task per head */
            attend_part(run, step, block->sequence, head);
    }
}

int64_t cpu_local_attend_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    int64_t longest = run->plan->max_rows, d = step->local_attend.dim_head;
    int64_t keys = least(least(step->local_attend.window, longest) * (step->local_attend.causal ? 2 : 3), longest);
    if (run->plan->n_slots > 0) /* even a batch of few rows may read two windows */
        keys = 2 * step->local_attend.window;
    return vector_packed_keys(keys, d, d) + vector_attend_scratch(d, d) + keys / (int64_t)sizeof(float) + 1;
}
