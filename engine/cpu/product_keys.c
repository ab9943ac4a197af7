/* Each head has a query of two halves, and n keys for each half. For each half, the BEST keys with the largest scores
 * are kept. A pair (i, j) of kept keys selects value i * n + j of the memory. The pair's score is the sum of the scores
 * of its keys. The values of the BEST pairs are summed up, weighted by the softmax of the pairs' scores. */
#include "engine/cpu/product_keys.h"
#include "engine/cpu/top_k.h"

#include <string.h>

#define BEST PLAN_BEST_KEYS

/* Computes scores (rows, n) of one half and head for a block of rows: x (rows, d) K (n, d)ᵀ. The stored x is (rows, 2,
 * h, d), where the half is an outer dimension. The stored K is (h, n, 2, d), where the half is an inner dimension. */
static void score(const struct cpu_run *run, const struct plan_step *step, const struct row_block *block, int64_t head,
                  int64_t half, float *scores)
{
    const struct plan_weight *keys = &run->plan->weights[step->key_table];
    int64_t columns = columns_of(run, step->x), d = keys->columns, n = keys->rows / step->retrieve.heads / 2;
    const float *x = floats_of(run, step->x);
    products_multiply(run->products, &(struct product){
                                         .m = block->rows,
                                         .n = n,
                                         .k = d,
                                         .a = x + block->first * columns + (half * step->retrieve.heads + head) * d,
                                         .a_stride = columns,
                                         .b = keys->data + (head * n * 2 + half) * d,
                                         .b_stride = 2 * d,
                                         .transpose_b = true,
                                         .c = scores,
                                         .c_stride = n,
                                     });
}

/* Adds the result of one head to a row y (columns). This result is the sum of the best pairs' values, weighted by the
 * softmax of the pairs' scores. `first` (n) and `second` (n) are the scores of the two halves. */
static void add_best(const struct cpu_run *run, const struct plan_weight *values, int64_t n, const float *first,
                     const float *second, float *y)
{
    int32_t first_keys[BEST], second_keys[BEST], pairs[BEST];
    float first_scores[BEST], second_scores[BEST], sums[BEST * BEST], weights[BEST];
    top_k(n, first, BEST, first_keys, first_scores);
    top_k(n, second, BEST, second_keys, second_scores);
    for (int64_t i = 0; i < BEST; i++)
        for (int64_t j = 0; j < BEST; j++)
            sums[i * BEST + j] = first_scores[i] + second_scores[j];
    top_k(BEST * BEST, sums, BEST, pairs, weights);
    run->vector->softmax(BEST, 1.0f, weights);
    for (int64_t p = 0; p < BEST; p++) {
        const float *value =
            values->data + (first_keys[pairs[p] / BEST] * n + second_keys[pairs[p] % BEST]) * values->columns;
        for (int64_t c = 0; c < values->columns; c++)
            y[c] += weights[p] * value[c];
    }
}

void cpu_retrieve(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    const struct plan_weight *values = &run->plan->weights[step->value_table],
                             *keys = &run->plan->weights[step->key_table];
    int64_t n = keys->rows / step->retrieve.heads / 2, columns = values->columns;
    float *y = floats_of(run, step->y);
#pragma omp parallel for num_threads(threads_for(run, layout->n_blocks)) schedule(dynamic)
    for (int64_t b = 0; b < layout->n_blocks; b++) {
        const struct row_block *block = &layout->blocks[b];
        float *first = scratch_of(run), *second = first + block->rows * n;
        memset(y + block->first * columns, 0, (size_t)(block->rows * columns) * sizeof *y);
        for (int64_t head = 0; head < step->retrieve.heads; head++) {
            score(run, step, block, head, 0, first);
            score(run, step, block, head, 1, second);
            for (int64_t r = 0; r < block->rows; r++)
                add_best(run, values, n, first + r * n, second + r * n, y + (block->first + r) * columns);
        }
    }
}

int64_t cpu_retrieve_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return 2 * PADDER_BLOCK_ROWS * (run->plan->weights[step->key_table].rows / step->retrieve.heads / 2);
}
