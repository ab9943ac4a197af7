/* A block, which is one warp, takes a row: for each head the best keys of both halves, the best of their sums, and the
 * values of these. */
#include "engine/cuda/choice.h"
#include "engine/cuda/product_keys.h"

#define BEST PLAN_BEST_KEYS
#define ROWS_AT_ONCE 4096 /* whose scores are in scratch */

struct retrieval {
    const float *x, *keys, *values;
    int64_t columns, heads, n, d, y_columns;
    float *scores; /* (rows, 2, n) */
    float *y;
};

/* The shared part of a block. */
struct found {
    float scores[2][BEST], weights[BEST];
    int32_t keys[2][BEST], pairs[BEST];
};

static_assert(BEST == WARP, "a lane has the weight of a pair");

/* Scores of the head's keys of both halves, then the best of each. */
static __device__ void find_keys(const struct retrieval *t, const float *x, int64_t head, float *scores,
                                 struct found *found)
{
    for (int64_t i = threadIdx.x; i < 2 * t->n; i += blockDim.x) {
        int64_t half = i / t->n;
        const float *key = t->keys + ((head * t->n + i % t->n) * 2 + half) * t->d;
        const float *query = x + (half * t->heads + head) * t->d;
        float score = 0;
        for (int64_t c = 0; c < t->d; c++)
            score += query[c] * key[c];
        scores[i] = score;
    }
    __syncthreads();
    for (int half = 0; half < 2; half++) {
        unsigned long long rank = BEST_OF_ALL;
        const float *of_half = scores + half * t->n;
        for (int best = 0; best < BEST; best++) {
            rank = next_best([=](int64_t i) { return of_half[i]; }, t->n, rank);
            if (lane() == 0) {
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

/* The best pairs and their softmax. */
static __device__ void find_pairs(struct found *found)
{
    unsigned long long rank = BEST_OF_ALL;
    for (int best = 0; best < BEST; best++) {
        rank = next_best([=](int64_t pair) { return pair_score(found, pair); }, BEST * BEST, rank);
        if (lane() == 0)
            found->pairs[best] = (int32_t)column_of(rank);
    }
    __syncthreads();
    float best = pair_score(found, found->pairs[0]), power = expf(pair_score(found, found->pairs[lane()]) - best);
    found->weights[lane()] = power / warp_sum(power);
    __syncthreads();
}

static __global__ void __launch_bounds__(WARP) retrieve(struct retrieval t, int64_t first)
{
    __shared__ struct found found;
    int64_t row = first + blockIdx.x;
    float *y = t.y + row * t.y_columns;
    for (int64_t head = 0; head < t.heads; head++) {
        find_keys(&t, t.x + row * t.columns, head, t.scores + blockIdx.x * 2 * t.n, &found);
        find_pairs(&found);
        for (int64_t c = threadIdx.x; c < t.y_columns; c += blockDim.x) {
            float sum = head == 0 ? 0 : y[c];
            for (int p = 0; p < BEST; p++)
                sum += found.weights[p] *
                       t.values[(found.keys[0][found.pairs[p] / BEST] * t.n + found.keys[1][found.pairs[p] % BEST]) *
                                    t.y_columns +
                                c];
            y[c] = sum;
        }
        __syncthreads(); /* what was found is replaced by the next head's */
    }
}

static int64_t keys_of(const struct plan *plan, const struct plan_step *step)
{
    return plan->weights[step->bias].rows / step->heads / 2;
}

int64_t cuda_retrieve_scratch(const struct plan *plan, const struct plan_step *step)
{
    return least(ROWS_AT_ONCE, plan->max_rows) * 2 * keys_of(plan, step);
}

void cuda_retrieve(struct cuda_run *run, const struct plan_step *step)
{
    int64_t rows = rows_of(run, step->x), at_once = least(ROWS_AT_ONCE, run->plan->max_rows);
    struct retrieval t = {};
    t.x = floats_of(run, step->x);
    t.keys = weight_of(run, step->bias);
    t.values = weight_of(run, step->weight);
    t.columns = columns_of(run, step->x);
    t.heads = step->heads;
    t.n = keys_of(run->plan, step);
    t.d = run->plan->weights[step->bias].columns;
    t.y_columns = columns_of(run, step->y);
    t.scores = run->scratch;
    t.y = floats_of(run, step->y);
    for (int64_t first = 0; first < rows; first += at_once)
        launch(run, retrieve, least(at_once, rows - first), 1, WARP, t, first);
}
