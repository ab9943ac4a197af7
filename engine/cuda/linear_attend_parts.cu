/* Causal linear attention of sequences whose rows come in several batches (linear_attention.h). For each fold and head,
 * a slot keeps the context of a sequence's earlier rows. It consists of sums (d, e) of powers times values, followed by
 * sums (d) of the powers. If a bucket has several rows, the same sums over the rows of the incomplete bucket follow. No
 * row reads the sums of a bucket before the bucket is complete.
 *
 *     walk_part    several rows: a block processes them like walk_sequence, beginning with the kept context
 *     keep_sums    copies the sums of the powers to the slot, after all blocks of walk_part have read the old sums
 *     step_row     one row: a block reads the context once, adds the row to it, and writes it back
 *
 * Only the number of the item's rows decides which kernels run. So the same part of a sequence has results with the
 * same bits in any batch. */
#include "engine/cuda/linear_attention.h"

#define STEP_THREADS 256

/* One head of one sequence with rows in this batch. */
struct head_part {
    struct fold_rows rows;
    int64_t item_rows; /* number of the item's rows in this batch, in all folds */
    int64_t earlier;   /* number of rows of this sequence in earlier batches */
    float *complete;   /* sums over complete buckets. NULL if the item is a whole sequence */
    float *pending;    /* sums over the incomplete bucket. They are undefined if this bucket has no rows */
};

template <typename T>
static __device__ struct head_part part_of(const struct linear_attention<T> *a, int64_t item, int64_t fold,
                                           int64_t head)
{
    struct head_part part = {};
    float *state = state_of(a->states, item);
    if (!state)
        return part;
    int64_t earlier = a->states.items[item].earlier, offset = (fold + a->fold - earlier % a->fold) % a->fold;
    int64_t floats = a->d * a->e + a->d, rows = a->query_starts[item + 1] - a->query_starts[item];
    part.item_rows = rows;
    part.rows.first = a->query_starts[item] + offset;
    part.rows.count = rows > offset ? (rows - offset + a->fold - 1) / a->fold : 0;
    part.earlier = (earlier + offset) / a->fold;
    part.complete = state + (fold * a->heads + head) * floats * (a->bucket > 1 ? 2 : 1);
    part.pending = part.complete + floats;
    return part;
}

/* ---- Several rows ---- */

template <typename T> static __device__ void clear_context(const struct linear_attention<T> *a, const struct path *p)
{
    float *context = (float *)p->context;
    __syncthreads(); /* all threads have read the context */
    for (int64_t i = threadIdx.x; i < a->walk_floats; i += THREADS)
        context[i] = 0;
}

/* Adds sums of the slot to the context. */
template <typename T>
static __device__ void add_kept(const struct linear_attention<T> *a, const struct path *p, const float *kept)
{
    __syncthreads(); /* all threads have written and read the context */
    for (int64_t i = threadIdx.x; i < a->d * TILE; i += THREADS)
        if (p->column + i % TILE < a->e)
            p->context[i / TILE][i % TILE] += kept[i / TILE * a->e + p->column + i % TILE];
    for (int64_t i = threadIdx.x; i < a->d; i += THREADS)
        p->context[i][TILE] += kept[a->d * a->e + i];
}

/* Writes the context to a slot. Its sums of powers are written to scratch, for keep_sums. */
template <typename T>
static __device__ void keep_context(const struct linear_attention<T> *a, const struct path *p, float *kept, float *sums)
{
    __syncthreads(); /* all threads have written the context */
    for (int64_t i = threadIdx.x; i < a->d * TILE; i += THREADS)
        if (p->column + i % TILE < a->e)
            kept[i / TILE * a->e + p->column + i % TILE] = p->context[i / TILE][i % TILE];
    for (int64_t i = threadIdx.x; p->column == 0 && i < a->d; i += THREADS)
        sums[i] = p->context[i][TILE];
}

template <typename T>
static __device__ void read_rows(const struct linear_attention<T> *a, const struct path *p, struct walk *shared,
                                 int64_t begin, int64_t end, bool inner)
{
    for (int64_t chunk = chunk_rows(a); begin < end; begin += chunk)
        read_chunk(a, p, shared, begin, begin + chunk < end ? begin + chunk : end, inner);
}

template <typename T>
static __device__ void add_rows(const struct linear_attention<T> *a, const struct path *p, struct walk *shared,
                                int64_t begin, int64_t end)
{
    for (int64_t chunk = chunk_rows(a); begin < end; begin += chunk)
        add_chunk(a, p, shared, begin, begin + chunk < end ? begin + chunk : end);
}

/* Continues the bucket that an earlier batch left incomplete. Computes the rows of this batch that belong to this
 * bucket, and adds them to the bucket's sums. If the bucket is complete afterwards, adds these sums to the context.
 * Returns the number of computed rows. */
template <typename T>
static __device__ int64_t walk_pending(const struct linear_attention<T> *a, const struct path *p,
                                       const struct head_part *part, struct walk *shared, float *sums)
{
    int64_t done = part->earlier % a->bucket, left = a->bucket - done, count = part->rows.count;
    if (done == 0)
        return 0;
    read_rows(a, p, shared, 0, count < left ? count : left, false);
    if (count < left) {
        keep_context(a, p, part->complete, sums);
        clear_context(a, p);
    }
    add_kept(a, p, part->pending);
    add_rows(a, p, shared, 0, count < left ? count : left);
    if (count < left)
        keep_context(a, p, part->pending, sums + a->d);
    return count < left ? count : left;
}

/* Computes all rows from row `start` on. A bucket begins with row `start`. */
template <typename T>
static __device__ void walk_buckets(const struct linear_attention<T> *a, const struct path *p,
                                    const struct head_part *part, struct walk *shared, int64_t start, float *sums)
{
    int64_t count = part->rows.count, complete = count - (count - start) % a->bucket;
    int64_t step = a->bucket < TILE ? chunk_rows(a) : a->bucket;
    for (int64_t end; start < count; start = end) {
        end = start + step < count ? start + step : count;
        read_rows(a, p, shared, start, end, a->bucket < TILE);
        add_rows(a, p, shared, start, end < complete ? end : complete);
    }
    keep_context(a, p, part->complete, sums);
    if (complete == count)
        return;
    clear_context(a, p);
    add_rows(a, p, shared, complete, count);
    keep_context(a, p, part->pending, sums + a->d);
}

/* Grid: x is a sequence and a head, y selects the tile of columns. */
template <typename T> static __global__ void __launch_bounds__(THREADS, 3) walk_part(struct linear_attention<T> a)
{
    struct walk *shared = (struct walk *)dynamic_shared_memory;
    int64_t sequence = a.first_sequence + blockIdx.x / a.heads;
    struct path path = {};
    path.head = blockIdx.x % a.heads;
    path.column = (int64_t)blockIdx.y * TILE;
    struct head_part part = part_of(&a, sequence / a.fold, sequence % a.fold, path.head);
    if (part.item_rows < 2 || part.rows.count == 0)
        return;
    float *context = (float *)(shared + 1), *sums = a.sums + (int64_t)blockIdx.x * 2 * a.d;
    if (a.d > SHARED_FEATURES)
        context = a.contexts + ((int64_t)blockIdx.x * ((a.e + TILE - 1) / TILE) + blockIdx.y) * a.walk_floats;
    path.queries = path.keys = part.rows;
    path.context = (tile_row *)context;
    clear_context(&a, &path);
    if (part.earlier > 0)
        add_kept(&a, &path, part.complete);
    int64_t start = walk_pending(&a, &path, &part, shared, sums);
    if (start == 0 || (part.earlier + start) % a.bucket == 0)
        walk_buckets(&a, &path, &part, shared, start, sums);
}

/* Grid: x is a sequence and a head. The sums of an incomplete bucket are also copied if the bucket has no rows, but
 * nothing reads them. */
template <typename T> static __global__ void keep_sums(struct linear_attention<T> a)
{
    int64_t sequence = a.first_sequence + blockIdx.x / a.heads, head = blockIdx.x % a.heads;
    struct head_part part = part_of(&a, sequence / a.fold, sequence % a.fold, head);
    const float *sums = a.sums + (int64_t)blockIdx.x * 2 * a.d;
    if (part.item_rows < 2 || part.rows.count == 0)
        return;
    for (int64_t i = threadIdx.x; i < a.d; i += blockDim.x) {
        part.complete[a.d * a.e + i] = sums[i];
        if (a.bucket > 1)
            part.pending[a.d * a.e + i] = sums[a.d + i];
    }
}

template <typename T> void linear_attend_parts(struct cuda_run *run, const struct linear_attention<T> *a)
{
    launch_shared(run, walk_part<T>, a->n_sequences * a->heads, dim3((unsigned)parts_of(a->e, TILE)), THREADS,
                  walk_bytes(a), *a);
    launch(run, keep_sums<T>, a->n_sequences * a->heads, 1, threads_for_columns(a->d), *a);
}

/* ---- One row ---- */

/* The place of the row in its sequence. */
struct row_place {
    bool is_first;     /* the sequence has no earlier rows, and its sums are undefined */
    bool opens_bucket; /* the row is the first row of its bucket, and the sums of an incomplete bucket are undefined */
    bool fills_bucket; /* the row is the last row of its bucket */
    bool reads_itself; /* a bucket is one row, so the row reads itself */
};

/* Adds a row's products to N sums of the slot. Sets `seen` to the sums that the row reads. */
template <int N>
static __device__ __forceinline__ void add_to_kept(struct row_place own, float *complete, float *pending,
                                                   const float (&added)[N], float (&seen)[N])
{
    float sums[N] = {}, bucket[N] = {};
    if (!own.is_first)
        load(sums, complete);
    if (!own.opens_bucket)
        load(bucket, pending);
    for (int i = 0; i < N; i++) {
        bucket[i] += added[i];
        seen[i] = own.reads_itself ? sums[i] + bucket[i] : sums[i];
        sums[i] += own.fills_bucket ? bucket[i] : 0;
    }
    if (own.fills_bucket || own.is_first)
        store(complete, sums);
    if (!own.fills_bucket)
        store(pending, bucket);
}

/* A block's shared memory. */
template <int N> struct step_memory {
    float results[STEP_THREADS * N]; /* (groups, columns): each group's share of the results */
    float shares[STEP_THREADS / WARP];
};

/* Returns max(query · sums, epsilon), and adds the row's powers to the sums of powers. All threads of the block must
 * call it. */
template <typename T, int N>
static __device__ float step_divisor(const struct linear_attention<T> *a, const struct head_part *part,
                                     struct row_place own, const float *query, const T *key, bool seen,
                                     struct step_memory<N> *shared)
{
    float share = 0;
    for (int64_t i = threadIdx.x; i < a->d; i += STEP_THREADS) {
        float power[1] = {seen ? expf(to_float(key[i])) : 0}, sum[1];
        add_to_kept(own, part->complete + a->d * a->e + i, part->pending + a->d * a->e + i, power, sum);
        share += query[i] * sum[0];
    }
    share = warp_sum(share);
    if (warp_thread() == 0)
        shared->shares[threadIdx.x / WARP] = share;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < STEP_THREADS / WARP; i++)
        sum += shared->shares[i];
    return sum < PLAN_CAUSAL_EPSILON ? PLAN_CAUSAL_EPSILON : sum; /* a NaN stays a NaN */
}

/* Grid: x is an item and a head. Each group of `lanes` threads reads whole rows of the context. A thread reads N
 * columns at a time. */
template <typename T, int N>
static __global__ void __launch_bounds__(STEP_THREADS) step_row(struct linear_attention<T> a, int lanes)
{
    struct step_memory<N> *shared = (struct step_memory<N> *)dynamic_shared_memory;
    int64_t item = blockIdx.x / a.heads, head = blockIdx.x % a.heads;
    int64_t fold = state_of(a.states, item) ? a.states.items[item].earlier % a.fold : 0;
    struct head_part part = part_of(&a, item, fold, head);
    if (part.item_rows != 1)
        return;
    int64_t row = part.rows.first, place = part.earlier % a.bucket;
    struct row_place own = {part.earlier == 0, place == 0, place + 1 == a.bucket, a.bucket == 1};
    const float *query = a.queries + (row * a.heads + head) * a.d;
    const T *key = a.keys + row * a.key_columns + (a.first_head + head) * a.d;
    const T *value = a.values + row * a.value_columns + (a.first_head + head) * a.e;
    bool seen = is_seen(&a, row);
    float divisor = step_divisor(&a, &part, own, query, key, seen, shared);
    int groups = STEP_THREADS / lanes, group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;
    for (int64_t first = 0; first < a.e; first += lanes * N) {
        int64_t column = first + lane * N;
        float values[N] = {}, results[N] = {};
        if (column < a.e && seen)
            load(values, value + column);
        for (int64_t i = group; column < a.e && i < a.d; i += groups) {
            float power = seen ? expf(to_float(key[i])) : 0, added[N], sums[N];
            for (int j = 0; j < N; j++)
                added[j] = power * values[j];
            add_to_kept(own, part.complete + i * a.e + column, part.pending + i * a.e + column, added, sums);
            for (int j = 0; j < N; j++)
                results[j] += query[i] * sums[j];
        }
        for (int j = 0; j < N; j++)
            shared->results[threadIdx.x * N + j] = results[j];
        __syncthreads();
        for (int c = (int)threadIdx.x; c < lanes * N && first + c < a.e; c += STEP_THREADS) {
            float sum = 0;
            for (int g = 0; g < groups; g++)
                sum += shared->results[g * lanes * N + c];
            a.out[(row * a.heads + head) * a.e + first + c] = of_float<T>(sum / divisor);
        }
        __syncthreads(); /* the next columns overwrite these results */
    }
}

template <typename T> void linear_attend_steps(struct cuda_run *run, const struct linear_attention<T> *a)
{
    with_pack<float>(a->d | a->e | a->value_columns, [&](auto n) {
        int lanes = 1;
        while (lanes < WARP && lanes * n.value < a->e)
            lanes *= 2;
        launch_shared(run, step_row<T, n.value>, a->n_items * a->heads, 1, STEP_THREADS,
                      sizeof(struct step_memory<n.value>), *a, lanes);
    });
}

template void linear_attend_parts<float>(struct cuda_run *, const struct linear_attention<float> *);
template void linear_attend_parts<bf16>(struct cuda_run *, const struct linear_attention<bf16> *);
template void linear_attend_parts<f16>(struct cuda_run *, const struct linear_attention<f16> *);
template void linear_attend_steps<float>(struct cuda_run *, const struct linear_attention<float> *);
template void linear_attend_steps<bf16>(struct cuda_run *, const struct linear_attention<bf16> *);
template void linear_attend_steps<f16>(struct cuda_run *, const struct linear_attention<f16> *);
