/* Linear attention: softmaxes of query rows first, then a sequence's context (d, e), sums over its rows. All at once
 * where it is not causal; else a block walks along the sequence with the context so far. A sequence is every fold-th
 * row of an item. */
#include "engine/cuda/linear_attend.h"

#define THREADS 128
#ifndef CONTEXTS_BYTES
#define CONTEXTS_BYTES ((int64_t)64 << 20) /* that are there at a time */
#endif

template <typename T> struct linear_attention {
    const T *keys, *values;
    const int32_t *mask; /* NULL: none */
    const int64_t *query_starts, *key_starts;
    int64_t key_columns, value_columns, heads, first_head, d, e, fold, bucket; /* e: of values */
    const float *queries; /* (rows, heads * d): their softmaxes, scaled */
    float *contexts;      /* by sequence and head: (d, e + 1), the last column being sums */
    T *out;               /* (rows, heads * e) */
};

/* A sequence's rows: `first`, and `count` that are fold rows apart. */
struct fold_rows {
    int64_t first, count;
};

static __device__ struct fold_rows fold_rows_of(const int64_t *starts, int64_t fold, int64_t sequence)
{
    int64_t item = sequence / fold;
    struct fold_rows rows = {starts[item] + sequence % fold, (starts[item + 1] - starts[item]) / fold};
    return rows;
}

/* A warp for each row and head. */
template <typename T>
static __global__ void soften_queries(int64_t rows, int64_t columns, const T *queries, int64_t heads,
                                      int64_t first_head, int64_t d, bool raw, float scale, float *out)
{
    int64_t row = warp_of_grid() / heads, head = warp_of_grid() % heads;
    if (row >= rows)
        return;
    const T *x = queries + row * columns + (first_head + head) * d;
    float *y = out + (row * heads + head) * d, maximum = -INFINITY, sum = 0;
    for (int64_t i = lane(); i < d; i += WARP)
        maximum = fmaxf(maximum, to_float(x[i]));
    maximum = warp_maximum(maximum);
    for (int64_t i = lane(); i < d; i += WARP)
        sum += expf(to_float(x[i]) - maximum);
    float factor = scale / warp_sum(sum);
    for (int64_t i = lane(); i < d; i += WARP)
        y[i] = raw ? to_float(x[i]) * scale : expf(to_float(x[i]) - maximum) * factor;
}

/* Row i of a head's context: softmax_rows(K[:, i])ᵀ V. Block x: sequence and head; y: i. Every thread sums exponentials
 * for itself, and products of its own features. */
template <typename T> static __global__ void sum_context(struct linear_attention<T> a, int64_t first_sequence)
{
    int64_t sequence = blockIdx.x / a.heads, head = blockIdx.x % a.heads, i = blockIdx.y;
    struct fold_rows rows = fold_rows_of(a.key_starts, a.fold, first_sequence + sequence);
    const T *keys = a.keys + (a.first_head + head) * a.d + i, *values = a.values + (a.first_head + head) * a.e;
    float *context = a.contexts + ((sequence * a.heads + head) * a.d + i) * (a.e + 1), maximum = -INFINITY;
    for (int64_t r = rows.first; r < rows.first + rows.count * a.fold; r += a.fold)
        if (!a.mask || a.mask[r])
            maximum = fmaxf(maximum, to_float(keys[r * a.key_columns]));
    for (int64_t f = threadIdx.x; f < a.e; f += blockDim.x) {
        float sum = 0, product = 0;
        for (int64_t r = rows.first; r < rows.first + rows.count * a.fold; r += a.fold) {
            if (a.mask && !a.mask[r])
                continue;
            float power = expf(to_float(keys[r * a.key_columns]) - maximum);
            sum += power;
            product += power * to_float(values[r * a.value_columns + f]);
        }
        context[f] = sum > 0 ? product / sum : 0; /* 0: every row is masked */
    }
}

/* y[r, h] = q[r, h] context. Block x: a row, which need not be one of the sequences'; y: the head. */
template <typename T>
static __global__ void read_context(struct linear_attention<T> a, int64_t n_items, int64_t first_sequence,
                                    int64_t n_sequences)
{
    int64_t row = blockIdx.x, head = blockIdx.y;
    if (row >= a.query_starts[n_items])
        return;
    int64_t item = item_of(a.query_starts, n_items, row);
    int64_t sequence = item * a.fold + (row - a.query_starts[item]) % a.fold - first_sequence;
    if (sequence < 0 || sequence >= n_sequences)
        return;
    const float *query = a.queries + (row * a.heads + head) * a.d;
    const float *context = a.contexts + (sequence * a.heads + head) * a.d * (a.e + 1);
    for (int64_t f = threadIdx.x; f < a.e; f += blockDim.x) {
        float sum = 0;
        for (int64_t i = 0; i < a.d; i++)
            sum += query[i] * context[i * (a.e + 1) + f];
        a.out[(row * a.heads + head) * a.e + f] = of_float<T>(sum);
    }
}

/* Adds rows [begin, end) of a sequence to its context; a thread adds to columns of its own, the last to the sums. */
template <typename T>
static __device__ void add_rows(const struct linear_attention<T> *a, const struct fold_rows *rows, int64_t head,
                                int64_t begin, int64_t end, float *context)
{
    for (int64_t p = begin; p < end; p++) {
        int64_t r = rows->first + p * a->fold;
        if (a->mask && !a->mask[r])
            continue;
        const T *key = a->keys + r * a->key_columns + (a->first_head + head) * a->d;
        const T *value = a->values + r * a->value_columns + (a->first_head + head) * a->e;
        for (int64_t f = threadIdx.x; f <= a->e; f += blockDim.x)
            for (int64_t i = 0; i < a->d; i++)
                context[i * (a->e + 1) + f] += expf(to_float(key[i])) * (f < a->e ? to_float(value[f]) : 1);
    }
}

/* q[r, h] times a column of the context. */
template <typename T>
static __device__ float read_column(const struct linear_attention<T> *a, const float *query, const float *context,
                                    int64_t f)
{
    float sum = 0;
    for (int64_t i = 0; i < a->d; i++)
        sum += query[i] * context[i * (a->e + 1) + f];
    return sum;
}

/* y[r, h] from the context so far. All threads of the block take part. */
template <typename T>
static __device__ void read_row(const struct linear_attention<T> *a, int64_t row, int64_t head, const float *context,
                                float *denominator)
{
    const float *query = a->queries + (row * a->heads + head) * a->d;
    T *out = a->out + (row * a->heads + head) * a->e;
    if (threadIdx.x == a->e % blockDim.x) /* whose column it is */
        *denominator = fmaxf(read_column(a, query, context, a->e), PLAN_CAUSAL_EPSILON);
    __syncthreads();
    for (int64_t f = threadIdx.x; f < a->e; f += blockDim.x)
        out[f] = of_float<T>(read_column(a, query, context, f) / *denominator);
    __syncthreads(); /* it is written again for the next row */
}

/* Block x: sequence and head. Rows of earlier buckets only, or with buckets of one row the row itself, too. */
template <typename T> static __global__ void scan_sequence(struct linear_attention<T> a, int64_t first_sequence)
{
    float *denominator = (float *)dynamic_shared_memory;
    int64_t sequence = first_sequence + blockIdx.x / a.heads, head = blockIdx.x % a.heads;
    struct fold_rows queries = fold_rows_of(a.query_starts, a.fold, sequence);
    struct fold_rows keys = fold_rows_of(a.key_starts, a.fold, sequence);
    float *context = a.contexts + blockIdx.x * a.d * (a.e + 1);
    for (int64_t f = threadIdx.x; f <= a.e; f += blockDim.x)
        for (int64_t i = 0; i < a.d; i++)
            context[i * (a.e + 1) + f] = 0;
    for (int64_t begin = 0; begin < queries.count; begin += a.bucket) {
        int64_t end = begin + a.bucket < queries.count ? begin + a.bucket : queries.count;
        int64_t known = end < keys.count ? end : keys.count;
        if (a.bucket == 1)
            add_rows(&a, &keys, head, begin, known, context);
        for (int64_t p = begin; p < end; p++)
            read_row(&a, queries.first + p * a.fold, head, context, denominator);
        if (a.bucket > 1)
            add_rows(&a, &keys, head, begin, known, context);
    }
}

static int64_t query_floats(const struct plan *plan, const struct plan_step *step)
{
    return plan->max_rows * step->heads * step->dim_head;
}

static int64_t context_floats(const struct plan_step *step)
{
    return step->heads * step->dim_head * (step->dim_value + 1);
}

/* Sequences whose contexts are there at a time; at least one. */
static int64_t sequences_at_once(const struct plan *plan, const struct plan_step *step)
{
    int64_t fit = CONTEXTS_BYTES / (int64_t)sizeof(float) / context_floats(step);
    return most(1, least(fit, plan->max_items * step->fold));
}

int64_t cuda_linear_attend_scratch(const struct plan *plan, const struct plan_step *step)
{
    return query_floats(plan, step) + sequences_at_once(plan, step) * context_floats(step);
}

template <typename T> void cuda_linear_attend(struct cuda_run *run, const struct plan_step *step)
{
    int64_t rows = rows_of(run, step->x), sequences = items_of(run) * step->fold;
    int64_t at_once = sequences_at_once(run->plan, step);
    struct linear_attention<T> a = {
    };
    a.keys = elements_of<T>(run, step->keys);
    a.values = elements_of<T>(run, step->values);
    a.mask = step->z == PLAN_NONE ? NULL : ids_of(run, step->z);
    a.query_starts = device_starts_of(run, step->x);
    a.key_starts = device_starts_of(run, step->keys);
    a.key_columns = columns_of(run, step->keys);
    a.value_columns = columns_of(run, step->values);
    a.heads = step->heads;
    a.first_head = step->first_head;
    a.d = step->dim_head;
    a.e = step->dim_value;
    a.fold = step->fold;
    a.bucket = step->bucket;
    a.queries = run->scratch;
    a.contexts = run->scratch + query_floats(run->plan, step);
    a.out = elements_of<T>(run, step->y);
    launch(run, soften_queries<T>, parts_of(rows * a.heads, THREADS / WARP), 1, THREADS, rows, columns_of(run, step->x),
           elements_of<T>(run, step->x), a.heads, a.first_head, a.d, step->raw_queries, step->scale, run->scratch);
    for (int64_t first = 0; first < sequences; first += at_once) {
        int64_t count = least(at_once, sequences - first);
        if (step->causal) {
            launch_shared(run, scan_sequence<T>, count * a.heads, 1, threads_for(a.e + 1), sizeof(float), a, first);
            continue;
        }
        launch(run, sum_context<T>, count * a.heads, dim3((unsigned)a.d), threads_for(a.e), a, first);
        launch(run, read_context<T>, rows, dim3((unsigned)a.heads), threads_for(a.e), a, items_of(run), first, count);
    }
}

FOR_ELEMENTS(cuda_linear_attend)
