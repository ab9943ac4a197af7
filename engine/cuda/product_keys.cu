/* product_keys: a row retrieves values by product keys. Each head has two halves of a query, and n keys for each half.
 * A pair of keys, one of each half, selects one of n * n values. A block is one warp, and computes one row. For each
 * head, it finds the keys of both halves with the largest scores. Among the pairs of these keys, it finds the pairs
 * with the largest sums of scores, and adds their values. */
#include "engine/cuda/choice.h"
#include "engine/cuda/product_keys.h"

#define BEST PLAN_BEST_KEYS
#ifndef ROWS_AT_ONCE
#define ROWS_AT_ONCE 4096 /* number of rows whose scores are in scratch at a time */
#endif

template <typename T> struct retrieval {
    const T *x, *keys, *values;
    int64_t columns, heads, n, d, y_columns;
    /* (rows, 2 n + y_columns): the scores (2, n) of one head of a row, and sums (y_columns) over heads. */
    float *scores;
    T *y;
};

/* A block's shared memory. */
struct found {
    float scores[2][BEST], weights[BEST];
    int32_t keys[2][BEST], pairs[BEST];
};

static_assert(BEST == WARP, "each thread holds the weight of one pair");

/* Computes the scores of the head's keys in both halves, and finds the keys with the largest scores in each half. */
template <typename T>
static __device__ void find_keys(const struct retrieval<T> *t, const T *x, int64_t head, float *scores,
                                 struct found *found)
{
    for (int64_t i = threadIdx.x; i < 2 * t->n; i += blockDim.x) {
        int64_t half = i / t->n;
        const T *key = t->keys + ((head * t->n + i % t->n) * 2 + half) * t->d;
        const T *query = x + (half * t->heads + head) * t->d;
        float score = 0;
        for (int64_t c = 0; c < t->d; c++)
            score += to_float(query[c]) * to_float(key[c]);
        scores[i] = score;
    }
    __syncthreads();
    for (int half = 0; half < 2; half++) {
        unsigned long long rank = BEST_OF_ALL;
        const float *of_half = scores + half * t->n;
        for (int best = 0; best < BEST; best++) {
            rank = next_best([=](int64_t i) { return of_half[i]; }, t->n, rank);
            if (warp_thread() == 0) {
                found->scores[half][best] = of_half[column_of(rank)];
                found->keys[half][best] = (int32_t)column_of(rank);
            }
        }
    }
    __syncthreads();
}

static __device__ __forceinline__ float pair_score(const struct found *found, int64_t pair)
{
    return found->scores[0][pair / BEST] + found->scores[1][pair % BEST];
}

/* Finds the pairs with the largest scores, and computes their softmax. */
static __device__ void find_pairs(struct found *found)
{
    unsigned long long rank = BEST_OF_ALL;
    for (int best = 0; best < BEST; best++) {
        rank = next_best([=](int64_t pair) { return pair_score(found, pair); }, BEST * BEST, rank);
        if (warp_thread() == 0)
            found->pairs[best] = (int32_t)column_of(rank);
    }
    __syncthreads();
    float best = pair_score(found, found->pairs[0]),
          power = expf(pair_score(found, found->pairs[warp_thread()]) - best);
    found->weights[warp_thread()] = power / warp_sum(power);
    __syncthreads();
}

/* The weighted sum of the values of a head's 32 pairs, for one column of y. */
template <typename T>
static __device__ float weigh_values(const struct retrieval<T> *t, const struct found *found, int64_t column)
{
    float sum = 0;
    for (int p = 0; p < BEST; p++) {
        int64_t row = found->keys[0][found->pairs[p] / BEST] * t->n + found->keys[1][found->pairs[p] % BEST];
        sum += found->weights[p] * to_float(t->values[row * t->y_columns + column]);
    }
    return sum;
}

/* Computes one row. Sums over the heads are in scratch, after the scores of the row. */
template <typename T> static __global__ void __launch_bounds__(WARP) retrieve(struct retrieval<T> t, int64_t first)
{
    struct found *found = (struct found *)dynamic_shared_memory;
    int64_t row = first + blockIdx.x;
    float *scores = t.scores + blockIdx.x * (2 * t.n + t.y_columns), *sums = scores + 2 * t.n;
    for (int64_t head = 0; head < t.heads; head++) {
        find_keys(&t, t.x + row * t.columns, head, scores, found);
        find_pairs(found);
        for (int64_t c = threadIdx.x; c < t.y_columns; c += blockDim.x)
            sums[c] = (head == 0 ? 0 : sums[c]) + weigh_values(&t, found, c);
        __syncthreads(); /* the next head will overwrite the keys that were found */
    }
    for (int64_t c = threadIdx.x; c < t.y_columns; c += blockDim.x)
        t.y[row * t.y_columns + c] = of_float<T>(sums[c]);
}

static int64_t keys_of(const struct plan *plan, const struct plan_step *step)
{
    return plan->weights[step->key_table].rows / step->retrieve.heads / 2;
}

int64_t cuda_retrieve_scratch(const struct plan *plan, const struct plan_step *step)
{
    return least(ROWS_AT_ONCE, plan->max_rows) * (2 * keys_of(plan, step) + plan->values[step->y].columns);
}

template <typename T> void cuda_retrieve(struct cuda_run *run, const struct plan_step *step)
{
    int64_t rows = rows_of(run, step->x), at_once = least(ROWS_AT_ONCE, run->plan->max_rows);
    retrieval<T> t = {};
    t.x = elements_of<T>(run, step->x);
    t.keys = weight_of<T>(run, step->key_table);
    t.values = weight_of<T>(run, step->value_table);
    t.columns = columns_of(run, step->x);
    t.heads = step->retrieve.heads;
    t.n = keys_of(run->plan, step);
    t.d = run->plan->weights[step->key_table].columns;
    t.y_columns = columns_of(run, step->y);
    t.scores = scratch_of(run);
    t.y = elements_of<T>(run, step->y);
    for (int64_t first = 0; first < rows; first += at_once)
        launch_shared(run, retrieve<T>, least(at_once, rows - first), 1, WARP, sizeof(struct found), t, first);
}

FOR_ELEMENTS(cuda_retrieve)
