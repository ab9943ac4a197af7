#include "engine/cpu/local_attention.h"

#include <float.h>
#include <math.h>
#include <omp.h>

#define PIECE_ROWS 64

/* Rows of one window and one head, with the keys that they look at. */
struct piece {
    const struct cpu_run *run;
    const struct plan_step *step;
    const float *queries, *keys, *values; /* first row of the piece, first key */
    const int32_t *mask;                  /* of the first key; NULL: none */
    float *out, *scores;                  /* scores (rows, n_keys) */
    int64_t query_stride, key_stride, out_stride;
    int64_t rows, n_keys;
    int64_t first_seen; /* keys up to the one of the piece's own first row */
    int64_t slots;      /* keys of the windows, those outside the item included */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Takes what the row may not see out of its scores. False: nothing is left. */
static bool hide_keys(const struct piece *p, int64_t row, float *scores)
{
    int64_t seen = p->step->causal ? p->first_seen + row : p->n_keys, visible = 0;
    for (int64_t j = 0; j < p->n_keys; j++) {
        if (j < seen && (!p->mask || p->mask[j]))
            visible++;
        else
            scores[j] = -FLT_MAX;
    }
    return visible > 0;
}

/* The library fills hidden scores with one number: where all are hidden, all count alike, also the -1 that it has for
 * keys and values outside the sequence. */
static void weigh(const struct piece *p, bool *blind)
{
    float scale = (float)pow((double)p->step->dim_head, -0.5);
    for (int64_t r = 0; r < p->rows; r++) {
        float *scores = p->scores + r * p->n_keys;
        blind[r] = !hide_keys(p, r, scores);
        if (!blind[r])
            p->run->vector->softmax(p->n_keys, scale, scores);
        for (int64_t j = 0; blind[r] && j < p->n_keys; j++)
            scores[j] = 1.0f / (float)p->slots;
    }
}

static void attend_piece(const struct piece *p)
{
    bool blind[PIECE_ROWS];
    products_multiply(p->run->products, &(struct product){
                                            .m = p->rows,
                                            .n = p->n_keys,
                                            .k = p->step->dim_head,
                                            .a = p->queries,
                                            .a_stride = p->query_stride,
                                            .b = p->keys,
                                            .b_stride = p->key_stride,
                                            .transpose_b = true,
                                            .c = p->scores,
                                            .c_stride = p->n_keys,
                                        });
    weigh(p, blind);
    products_multiply(p->run->products, &(struct product){
                                            .m = p->rows,
                                            .n = p->step->dim_head,
                                            .k = p->n_keys,
                                            .a = p->scores,
                                            .a_stride = p->n_keys,
                                            .b = p->values,
                                            .b_stride = p->key_stride,
                                            .c = p->out,
                                            .c_stride = p->out_stride,
                                        });
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t i = 0; blind[r] && i < p->step->dim_head; i++)
            p->out[r * p->out_stride + i] -= (float)(p->slots - p->n_keys) / (float)p->slots;
}

/* The piece of an item that begins at `position` and ends with the window, or before `end`. */
static struct piece piece_of(const struct cpu_run *run, const struct plan_step *step, int64_t item, int64_t position,
                             int64_t end, int64_t head)
{
    const struct plan_value *values = run->plan->values;
    const struct layout *layout = &run->batch->layouts[values[step->x].axis];
    int64_t start = layout->starts[item], length = layout->starts[item + 1] - start, window = step->window;
    int64_t own = position / window * window, around = step->causal ? 2 : 3;
    int64_t first_key = most(0, own - window), end_key = least(length, own + (around - 1) * window);
    int64_t query_stride = values[step->x].columns, key_stride = values[step->keys].columns;
    int64_t out_stride = values[step->y].columns, column = (step->first_head + head) * step->dim_head;
    int64_t query = start + position, key = (start + first_key) * key_stride + column;
    return (struct piece){
        .run = run,
        .step = step,
        .queries = (const float *)(run->arena + values[step->x].offset) + query * query_stride + column,
        .keys = (const float *)(run->arena + values[step->keys].offset) + key,
        .values = (const float *)(run->arena + values[step->values].offset) + key,
        .mask =
            step->z == PLAN_NONE ? NULL : (const int32_t *)(run->arena + values[step->z].offset) + start + first_key,
        .out = (float *)(run->arena + values[step->y].offset) + query * out_stride + head * step->dim_head,
        .scores = run->scratch + omp_get_thread_num() * run->scratch_floats,
        .query_stride = query_stride,
        .key_stride = key_stride,
        .out_stride = out_stride,
        .rows = least(least(PIECE_ROWS, own + window - position), end - position),
        .n_keys = end_key - first_key,
        .first_seen = position - first_key + 1,
        .slots = around * window,
    };
}

void cpu_local_attend(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = &run->batch->layouts[run->plan->values[step->x].axis];
    int64_t tasks = layout->n_blocks * step->heads;
#pragma omp parallel for num_threads(tasks > 1 ? run->threads : 1) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++) {
        const struct row_block *block = &layout->blocks[t / step->heads];
        int64_t first = block->first - layout->starts[block->item], end = first + block->rows;
        for (int64_t position = first; position < end;) {
            struct piece piece = piece_of(run, step, block->item, position, end, t % step->heads);
            attend_piece(&piece);
            position += piece.rows;
        }
    }
}

int64_t cpu_local_attend_scratch(const struct plan *plan, const struct plan_step *step)
{
    int64_t keys = step->window > plan->max_rows ? plan->max_rows : step->window * (step->causal ? 2 : 3);
    return PIECE_ROWS * least(keys, plan->max_rows);
}
