/* linear_attention: the parameters of a step of linear attention, with pointers to device memory, and its products of
 * tiles. The kernels of linear_attend.cu compute whole sequences. The kernels of linear_attend_parts.cu compute
 * sequences whose rows come in several batches. Words used here:
 *
 *     item      a sequence of the axis
 *     sequence  every fold-th row of an item. Item i has the sequences i * fold + f, with the rows f, f + fold, …
 *     powers    exp(K), or exp(K - maxima)
 *     context   (d, e): the sum of powers times values over the rows. If not causal, divided by the sums of the powers
 *     bucket    neighbouring rows of a sequence. Causal: a row reads only the buckets before its own
 *     chunk     at most TILE rows that a block reads together, and then adds to a causal context
 *     part      neighbouring rows of a sequence that is not causal, at most part_rows
 *
 * Products are computed tile by tile. The tiles (TILE, TILE) are in shared memory, as floats. A block computes TILE of
 * the e columns. */
#ifndef ENGINE_CUDA_LINEAR_ATTENTION_H
#define ENGINE_CUDA_LINEAR_ATTENTION_H

#include "engine/cuda/run.h"

#define TILE 32
/* Number of floats of a tile's row in memory. Unused floats put rows into different banks, and rows begin at multiples
 * of 16 bytes. */
#define TILE_STRIDE (TILE + 4)
#define COLUMNS_A_THREAD 4 /* number of columns of a product that a thread computes, in each of two rows */
#define HALF (TILE / 2)    /* distance between the two rows of a thread */
#define SIDE (TILE / COLUMNS_A_THREAD)
#define THREADS (HALF * SIDE)
#define SHARE (THREADS / TILE) /* number of threads that add up one row of a tile */
#ifndef SHARED_FEATURES
#define SHARED_FEATURES 256 /* largest d for which the context of a causal sequence is in shared memory */
#endif

typedef float tile_row[TILE_STRIDE];

template <typename T> struct linear_attention {
    const T *keys;       /* (rows of keys, key_columns) */
    const T *values;     /* (rows of keys, value_columns) */
    const int32_t *mask; /* (rows of keys), 0 for a masked row. NULL if there is no mask */
    /* By item: index of its first row of queries, and of its first row of keys. */
    const int64_t *query_starts, *key_starts;
    int64_t n_items;
    int64_t key_columns, value_columns, heads, first_head, d, e, fold, bucket;
    /* The sequences of this launch. Their contexts are in `contexts`, or in shared memory if they are causal and d <=
     * SHARED_FEATURES. */
    int64_t first_sequence, n_sequences;
    /* Number of rows of a part, if the attention is not causal. The last part of a sequence may have fewer rows. */
    int64_t part_rows;
    /* Number of floats of the context of one block. See struct walk. */
    int64_t walk_floats;
    const float *queries; /* (rows, heads * d): the scaled softmax of each query, or the scaled query itself */
    /* The contexts of sequences: (sequences, heads, d, e). If the attention is causal, they are (sequences, heads,
     * column tiles, d rounded up to TILE, TILE_STRIDE), and are only used if d > SHARED_FEATURES. See struct walk. */
    float *contexts;
    /* (parts, heads), for the sequences with several parts. Each element has maxima (d), sums (d) and a context (d,
     * e). */
    float *parts;
    float *sums; /* (sequences, heads, 2, d): see linear_attend_parts.cu */
    struct states states;
    T *out; /* (rows, heads * e) */
};

/* Rows of a sequence: `count` rows, beginning with row `first`. Two neighbours are `fold` rows of the item apart. */
struct fold_rows {
    int64_t first, count;
};

/* ---- Tiles ---- */

static __device__ __forceinline__ int own_row()
{
    return (int)threadIdx.x / SIDE;
}

static __device__ __forceinline__ int own_column()
{
    return (int)threadIdx.x % SIDE * COLUMNS_A_THREAD;
}

/* sums += a b, for tiles a and b. The thread computes rows own_row() + HALF i and columns own_column() + j. */
static __device__ __forceinline__ void add_product(const tile_row *a, const tile_row *b,
                                                   float (&sums)[2][COLUMNS_A_THREAD])
{
#pragma unroll 2
    for (int l = 0; l < TILE; l += COLUMNS_A_THREAD) {
        float rows[2][COLUMNS_A_THREAD], columns[COLUMNS_A_THREAD];
        load(rows[0], &a[own_row()][l]);
        load(rows[1], &a[own_row() + HALF][l]);
#pragma unroll
        for (int m = 0; m < COLUMNS_A_THREAD; m++) {
            load(columns, &b[l + m][own_column()]);
#pragma unroll
            for (int j = 0; j < COLUMNS_A_THREAD; j++) {
                sums[0][j] += rows[0][m] * columns[j];
                sums[1][j] += rows[1][m] * columns[j];
            }
        }
    }
}

/* The thread's share of the sum of row threadIdx.x / SHARE of a tile. */
static __device__ __forceinline__ float share_of_row(const tile_row *tile)
{
    float share = 0;
    for (int c = (int)threadIdx.x % SHARE; c < TILE; c += SHARE)
        share += tile[threadIdx.x / SHARE][c];
    return share;
}

/* The thread's share of the product of a row of queries and the sums of powers. These sums are in column TILE of the
 * context. */
static __device__ __forceinline__ float share_of_sums(const tile_row *queries, const tile_row *context)
{
    float share = 0;
    for (int c = (int)threadIdx.x % SHARE; c < TILE; c += SHARE)
        share += queries[threadIdx.x / SHARE][c] * context[c][TILE];
    return share;
}

/* The sum of the shares of a row. Each thread that shares the row receives it. */
static __device__ __forceinline__ float sum_of_shares(float share)
{
    for (int apart = SHARE / 2; apart > 0; apart /= 2)
        share += __shfl_xor_sync(WHOLE_WARP, share, apart);
    return share;
}

/* Loads a tile of queries: rows [begin, end), and TILE features from number `feature` on. Elements beyond the end
 * become 0. This also holds for the functions below. */
template <typename T>
static __device__ void load_queries(const struct linear_attention<T> *a, const struct fold_rows *rows, int64_t head,
                                    int64_t begin, int64_t end, int64_t feature, tile_row *tile)
{
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < TILE * TILE; i += THREADS) {
        int r = i / TILE, f = i % TILE;
        bool inside = begin + r < end && feature + f < a->d;
        int64_t row = rows->first + (begin + r) * a->fold;
        tile[r][f] = inside ? a->queries[(row * a->heads + head) * a->d + feature + f] : 0;
    }
}

template <typename T> static __device__ __forceinline__ bool is_seen(const struct linear_attention<T> *a, int64_t row)
{
    return !a->mask || a->mask[row];
}

/* Loads a tile of exp(K - maxima), transposed to (features, rows). If `maxima` is NULL, loads exp(K). */
template <typename T>
static __device__ void load_powers(const struct linear_attention<T> *a, const struct fold_rows *rows, int64_t head,
                                   int64_t begin, int64_t end, int64_t feature, const float *maxima, tile_row *tile)
{
    const T *keys = a->keys + (a->first_head + head) * a->d + feature;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < TILE * TILE; i += THREADS) {
        int r = i / TILE, f = i % TILE;
        int64_t row = rows->first + (begin + r) * a->fold;
        bool inside = begin + r < end && feature + f < a->d && is_seen(a, row);
        tile[f][r] = inside ? expf(to_float(keys[row * a->key_columns + f]) - (maxima ? maxima[f] : 0)) : 0;
    }
}

/* Loads a tile of values: rows, and TILE columns from number `column` on. */
template <typename T>
static __device__ void load_values(const struct linear_attention<T> *a, const struct fold_rows *rows, int64_t head,
                                   int64_t begin, int64_t end, int64_t column, tile_row *tile)
{
    const T *values = a->values + (a->first_head + head) * a->e + column;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < TILE * TILE; i += THREADS) {
        int r = i / TILE, c = i % TILE;
        int64_t row = rows->first + (begin + r) * a->fold;
        bool inside = begin + r < end && column + c < a->e && is_seen(a, row);
        tile[r][c] = inside ? to_float(values[row * a->value_columns + c]) : 0;
    }
}

/* Writes the thread's part of rows [begin, end) of y. Divides it by `divisors`, unless `divisors` is NULL. */
template <typename T>
static __device__ void write_rows(const struct linear_attention<T> *a, const struct fold_rows *rows, int64_t head,
                                  int64_t begin, int64_t end, int64_t column, const float (&sums)[2][COLUMNS_A_THREAD],
                                  const float *divisors)
{
    for (int i = 0; i < 2; i++) {
        int r = own_row() + i * HALF;
        T *out = a->out + ((rows->first + (begin + r) * a->fold) * a->heads + head) * a->e;
        for (int j = 0; j < COLUMNS_A_THREAD; j++)
            if (begin + r < end && column + own_column() + j < a->e)
                out[column + own_column() + j] = of_float<T>(divisors ? sums[i][j] / divisors[r] : sums[i][j]);
    }
}

/* ---- The walk of a causal sequence ---- */

/* A block's shared memory. The context (d rounded up to TILE, TILE_STRIDE) follows the struct in shared memory, or is
 * in a->contexts. Columns 0 to TILE - 1 of the context are sums of powers times values. Column TILE contains the sums
 * of the powers. */
struct walk {
    float queries[TILE][TILE_STRIDE], powers[TILE][TILE_STRIDE], values[TILE][TILE_STRIDE], scores[TILE][TILE_STRIDE];
    float divisors[TILE];
};

/* The sequence that a block processes, with the head and the first of its TILE columns. */
struct path {
    struct fold_rows queries, keys;
    int64_t head, column;
    tile_row *context;
};

/* Keeps the scores of the keys that a row of the chunk reads. Sets all other scores to 0. */
static __device__ __forceinline__ void keep_scores(struct walk *shared, int64_t bucket,
                                                   const float (&scores)[2][COLUMNS_A_THREAD])
{
    for (int i = 0; i < 2; i++) {
        int r = own_row() + i * HALF, seen = bucket == 1 ? r + 1 : r / (int)bucket * (int)bucket;
        for (int j = 0; j < COLUMNS_A_THREAD; j++)
            shared->scores[r][own_column() + j] = own_column() + j < seen ? scores[i][j] : 0;
    }
}

/* Computes rows [begin, end) of y, at most TILE rows, from the context of earlier chunks. If `inner`, the chunk may
 * consist of several buckets. A row then also reads the buckets of the chunk before its own. If a bucket is one row,
 * the row also reads itself. All threads of the block must call it. */
template <typename T>
static __device__ void read_chunk(const struct linear_attention<T> *a, const struct path *p, struct walk *shared,
                                  int64_t begin, int64_t end, bool inner)
{
    int64_t known = end < p->keys.count ? end : p->keys.count;
    float sums[2][COLUMNS_A_THREAD] = {}, scores[2][COLUMNS_A_THREAD] = {}, share = 0;
    for (int64_t feature = 0; feature < a->d; feature += TILE) {
        __syncthreads(); /* all threads have read the previous tiles, and written the context */
        load_queries(a, &p->queries, p->head, begin, end, feature, shared->queries);
        if (inner)
            load_powers(a, &p->keys, p->head, begin, known, feature, NULL, shared->powers);
        __syncthreads();
        add_product(shared->queries, p->context + feature, sums);
        share += share_of_sums(shared->queries, p->context + feature);
        if (inner)
            add_product(shared->queries, shared->powers, scores);
    }
    if (inner) {
        keep_scores(shared, a->bucket, scores);
        load_values(a, &p->keys, p->head, begin, known, p->column, shared->values);
        __syncthreads();
        add_product(shared->scores, shared->values, sums);
        share += share_of_row(shared->scores);
    }
    share = sum_of_shares(share);
    if (threadIdx.x % SHARE == 0) /* a NaN stays a NaN */
        shared->divisors[threadIdx.x / SHARE] = share < PLAN_CAUSAL_EPSILON ? PLAN_CAUSAL_EPSILON : share;
    __syncthreads();
    write_rows(a, &p->queries, p->head, begin, end, p->column, sums, shared->divisors);
}

/* Adds rows [begin, end) of keys and values, at most TILE rows, to the context. */
template <typename T>
static __device__ void add_chunk(const struct linear_attention<T> *a, const struct path *p, struct walk *shared,
                                 int64_t begin, int64_t end)
{
    for (int64_t feature = 0; feature < a->d; feature += TILE) {
        tile_row *context = p->context + feature;
        float sums[2][COLUMNS_A_THREAD] = {};
        __syncthreads(); /* all threads have read the tiles and the context */
        load_powers(a, &p->keys, p->head, begin, end, feature, NULL, shared->powers);
        if (feature == 0)
            load_values(a, &p->keys, p->head, begin, end, p->column, shared->values);
        __syncthreads();
        add_product(shared->powers, shared->values, sums);
        float sum = sum_of_shares(share_of_row(shared->powers));
        if (threadIdx.x % SHARE == 0)
            context[threadIdx.x / SHARE][TILE] += sum;
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < COLUMNS_A_THREAD; j++)
                context[own_row() + i * HALF][own_column() + j] += sums[i][j];
    }
}

/* The number of rows of a chunk: the whole buckets that fit into TILE rows, or TILE rows of a longer bucket. */
template <typename T> static __device__ __forceinline__ int64_t chunk_rows(const struct linear_attention<T> *a)
{
    return a->bucket < TILE ? TILE / a->bucket * a->bucket : TILE;
}

/* Size in bytes of the shared memory of a block that walks along a causal sequence. */
template <typename T> static inline size_t walk_bytes(const struct linear_attention<T> *a)
{
    return sizeof(struct walk) + (a->d > SHARED_FEATURES ? 0 : (size_t)a->walk_floats * sizeof(float));
}

/* Causal attention of the sequences first_sequence to first_sequence + n_sequences - 1. Omits sequences of items
 * without a slot, and of items with only one row in this batch. */
template <typename T> void linear_attend_parts(struct cuda_run *run, const struct linear_attention<T> *a);

/* Causal attention of all items that have a slot, and one row in this batch. */
template <typename T> void linear_attend_steps(struct cuda_run *run, const struct linear_attention<T> *a);

#endif
