/* top_k: two algorithms for the largest `count` values of a row. choice.h explains ranks.
 *
 * If `count` is at most WARP, one pass suffices. Each warp keeps its largest values so far, one in each thread. At the
 * end, the block merges the values of its warps.
 *
 * If `count` is larger, the block first finds the rank of the smallest of the largest values, eight bits in each pass.
 * It then gathers the values with at least this rank, and sorts them. This needs at most four passes if the values
 * differ, and up to eight passes if many values are equal.
 *
 * The limit between both algorithms is a guess. It was never measured on a device. */
#include "engine/cuda/choice.h"
#include "engine/cuda/top_k.h"

#ifndef TOP_K_WARPS
#define TOP_K_WARPS 16
#endif
#define WARPS TOP_K_WARPS
#define THREADS (WARPS * WARP)
#define FEW WARP     /* number of values that a warp keeps, one in each thread */
#define AT_ONCE 4    /* number of values that a thread loads at once */
#define DIGIT_BITS 8 /* number of bits of a rank that a pass finds */
#define DIGITS (1 << DIGIT_BITS)

/* ---- Softmax ---- */

struct softmax {
    float maximum, sum;
};

/* block_sum and block_maximum return the sum and the maximum over the block to every thread. `shares` has room for one
 * float of each warp. */
static __device__ __forceinline__ float block_sum(float x, float *shares)
{
    float sum = 0;
    x = warp_sum(x);
    if (warp_thread() == 0)
        shares[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int i = 0; i < WARPS; i++)
        sum += shares[i];
    __syncthreads();
    return sum;
}

static __device__ __forceinline__ float block_maximum(float x, float *shares)
{
    x = warp_maximum(x);
    if (warp_thread() == 0)
        shares[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int i = 0; i < WARPS; i++)
        x = fmaxf(x, shares[i]);
    __syncthreads();
    return x;
}

static __device__ struct softmax softmax_of(const float *x, int64_t columns, float *shares)
{
    float maximum = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x; c < columns; c += THREADS)
        maximum = fmaxf(maximum, x[c]);
    maximum = block_maximum(maximum, shares);
    for (int64_t c = threadIdx.x; c < columns; c += THREADS)
        sum += expf(x[c] - maximum);
    struct softmax softmax = {maximum, block_sum(sum, shares)};
    return softmax;
}

static __device__ __forceinline__ float probability(struct softmax softmax, float x)
{
    return expf(x - softmax.maximum) / softmax.sum;
}

static __global__ void __launch_bounds__(THREADS) log_probabilities(struct output_rows output, float *to)
{
    __shared__ float shares[WARPS];
    const float *x = output.x + blockIdx.x * output.columns;
    int32_t target = output.wanted[blockIdx.x].target;
    struct softmax softmax = softmax_of(x, output.columns, shares);
    if (threadIdx.x == 0)
        to[blockIdx.x] = target < 0 ? 0 : x[target] - softmax.maximum - logf(softmax.sum);
}

void cuda_log_probabilities(struct cuda_run *run, const struct output_rows *output, float *to)
{
    launch(run, log_probabilities, output->rows, 1, THREADS, *output, to);
}

static __global__ void __launch_bounds__(THREADS)
    softmax_rows(struct output_rows output, const struct device_item *items)
{
    __shared__ float shares[WARPS];
    const struct device_item *item = &items[output.wanted[blockIdx.x].item];
    float *x = output.x + blockIdx.x * output.columns;
    if (!item->softmax || (item->top_k > 0 && item->top_k <= FEW))
        return;
    struct softmax softmax = softmax_of(x, output.columns, shares);
    for (int64_t c = threadIdx.x; c < output.columns; c += THREADS)
        x[c] = probability(softmax, x[c]);
}

void cuda_softmax_output(struct cuda_run *run, const struct output_rows *output)
{
    launch(run, softmax_rows, output->rows, 1, THREADS, *output, run->items);
}

/* ---- At most WARP values ---- */

/* Merges one more `rank` of each thread into *kept. A rank of 0 is ignored. *kept contains the highest ranks of the
 * warp so far, in descending order, one in each thread. It is 0 in threads beyond the number of ranks so far. */
static __device__ __forceinline__ void keep_best(unsigned long long *kept, unsigned long long rank, int count)
{
    unsigned long long worst = __shfl_sync(WHOLE_WARP, *kept, count - 1);
    while (__any_sync(WHOLE_WARP, rank > worst)) {
        unsigned long long best = best_of_warp(rank),
                           above = __shfl_sync(WHOLE_WARP, *kept, warp_thread() > 0 ? warp_thread() - 1 : 0);
        if (*kept < best)
            *kept = warp_thread() > 0 && above < best ? above : best;
        if (rank == best)
            rank = 0;
        worst = __shfl_sync(WHOLE_WARP, *kept, count - 1);
    }
}

/* The highest ranks in the warp's share of a row, one in each thread. value(column) returns a value of the row. */
template <typename Value> static __device__ unsigned long long best_of_share(int64_t columns, Value value, int count)
{
    unsigned long long kept = 0;
    for (int64_t first = threadIdx.x - warp_thread(); first < columns; first += AT_ONCE * THREADS) {
        unsigned long long ranks[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            int64_t column = first + i * THREADS + warp_thread();
            ranks[i] = column < columns ? rank_of(value(column), column) : 0;
        }
        for (int i = 0; i < AT_ONCE; i++)
            keep_best(&kept, ranks[i], count);
    }
    return kept;
}

/* Merges the ranks of all warps. The place of a value in the result is the number of larger values. */
template <typename Value>
static __device__ void choose_few(int64_t columns, Value value, int count, unsigned long long *ranks, float *top_values,
                                  int32_t *top_columns)
{
    unsigned long long rank = best_of_share(columns, value, count);
    int better = 0;
    ranks[threadIdx.x] = rank;
    __syncthreads();
    if (warp_thread() >= count || rank == 0)
        return;
    for (int warp = 0; warp < WARPS; warp++)
        for (int i = 0; i < count && ranks[warp * WARP + i] > rank; i++)
            better++;
    if (better < count) {
        top_values[better] = value(column_of(rank));
        top_columns[better] = (int32_t)column_of(rank);
    }
}

/* ---- More than WARP values ---- */

/* The shared memory of a block while it searches the rank of the smallest of the largest values. */
struct selection {
    int counts[DIGITS]; /* by next digit: number of ranks that begin with the digits found so far and this digit */
    int digit, left;    /* the next digit, and how many ranks with this digit are among the highest ranks */
    bool all;           /* all ranks with this digit are among the highest ranks */
    int gathered;
};

/* Calls work(rank, value) for the thread's values of a row. Loads AT_ONCE values at once. */
template <typename Work> static __device__ __forceinline__ void each_rank(int64_t columns, const float *x, Work work)
{
    for (int64_t first = threadIdx.x; first < columns; first += AT_ONCE * THREADS) {
        float values[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            values[i] = first + i * THREADS < columns ? x[first + i * THREADS] : 0;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i * THREADS < columns)
                work(rank_of(values[i], first + i * THREADS), values[i]);
    }
}

/* Finds the next digit of the searched rank from the counts. All threads of the first warp must call it. Thread 0 has
 * the highest digits. */
static __device__ void find_digit(struct selection *s, int wanted)
{
    const int each = DIGITS / WARP;
    int first = DIGITS - 1 - warp_thread() * each, own = 0, before = 0;
    for (int i = 0; i < each; i++)
        own += s->counts[first - i];
    for (int other = 0; other < WARP; other++) {
        int count = __shfl_sync(WHOLE_WARP, own, other);
        before += other < warp_thread() ? count : 0;
    }
    if (before >= wanted || before + own < wanted)
        return;
    while (before + s->counts[first] < wanted)
        before += s->counts[first--];
    s->digit = first;
    s->left = wanted - before;
    s->all = s->left == s->counts[first];
}

/* Finds the rank of the smallest of the `count` largest values of x. The result may be smaller than this rank, but is
 * larger than the next lower rank. */
static __device__ unsigned long long least_of_best(int64_t columns, const float *x, int count, struct selection *s)
{
    unsigned long long found = 0; /* digits found so far */
    for (int shift = 64 - DIGIT_BITS;; shift -= DIGIT_BITS) {
        for (int i = threadIdx.x; i < DIGITS; i += THREADS)
            s->counts[i] = 0;
        __syncthreads();
        each_rank(columns, x, [=](unsigned long long rank, float) {
            if (rank >> shift >> DIGIT_BITS == found)
                atomicAdd(&s->counts[(rank >> shift) % DIGITS], 1);
        });
        __syncthreads();
        if (threadIdx.x < WARP)
            find_digit(s, count);
        __syncthreads();
        found = found << DIGIT_BITS | (unsigned)s->digit;
        count = s->left;
        if (s->all) /* `all` is true at the last digit at the latest, because no two ranks are equal */
            return found << shift;
    }
}

static __device__ __forceinline__ void put_in_order(float *values, int32_t *columns, int i, int j)
{
    float value = values[i];
    int32_t column = columns[i];
    if (rank_of(value, column) > rank_of(values[j], columns[j]))
        return;
    values[i] = values[j];
    columns[i] = columns[j];
    values[j] = value;
    columns[j] = column;
}

/* A bitonic sort in descending order. Every comparison puts the larger value first. So values that fill the array up to
 * a power of two would stay at the end. They are therefore omitted. */
static __device__ void sort(int count, float *values, int32_t *columns)
{
    for (int size = 2; size < 2 * count; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            for (int pair = threadIdx.x; pair < count; pair += THREADS) {
                int i = pair / stride * 2 * stride + pair % stride;
                int j = stride == size / 2 ? i / size * size + size - 1 - i % size : i + stride;
                if (j < count)
                    put_in_order(values, columns, i, j);
            }
            __syncthreads();
        }
}

static __device__ void choose_many(int64_t columns, const float *x, int count, struct selection *s, float *top_values,
                                   int32_t *top_columns)
{
    if (threadIdx.x == 0)
        s->gathered = 0;
    unsigned long long least = least_of_best(columns, x, count, s);
    each_rank(columns, x, [=](unsigned long long rank, float value) {
        if (rank < least)
            return;
        int place = atomicAdd(&s->gathered, 1);
        top_values[place] = value;
        top_columns[place] = (int32_t)column_of(rank);
    });
    __syncthreads();
    sort(count, top_values, top_columns);
}

/* ---- Any number of values ---- */

static __global__ void __launch_bounds__(THREADS) choose(struct output_rows output, const struct device_item *items,
                                                         int64_t room, float *top_values, int32_t *top_columns)
{
    __shared__ unsigned long long ranks[THREADS];
    __shared__ float shares[WARPS];
    __shared__ struct selection selection;
    const struct device_item *item = &items[output.wanted[blockIdx.x].item];
    const float *x = output.x + blockIdx.x * output.columns;
    int count = (int)item->top_k;
    top_values += blockIdx.x * room;
    top_columns += blockIdx.x * room;
    if (count > FEW) {
        choose_many(output.columns, x, count, &selection, top_values, top_columns);
    } else if (count > 0 && item->softmax) {
        struct softmax softmax = softmax_of(x, output.columns, shares);
        choose_few(
            output.columns, [=](int64_t c) { return probability(softmax, x[c]); }, count, ranks, top_values,
            top_columns);
    } else if (count > 0) {
        choose_few(
            output.columns, [=](int64_t c) { return x[c]; }, count, ranks, top_values, top_columns);
    }
}

void cuda_top_k(struct cuda_run *run, const struct output_rows *output, int64_t room, float *values, int32_t *columns)
{
    launch(run, choose, output->rows, 1, THREADS, *output, run->items, room, values, columns);
}
