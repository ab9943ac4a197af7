/* Linear attention. A sequence is every fold-th row of an item. Its context is a sum over its keys and values
 * (linear_attention.h). The kernels are:
 *
 *     soften_queries   queries become scale * softmax, in scratch. Raw queries become scale * query
 *     sum_context      not causal: each block sums up a part of the context of a sequence
 *     join_parts       not causal: the parts of one context are combined in a fixed order
 *     read_context     not causal: y = queries context
 *     walk_sequence    causal: a block processes a sequence chunk by chunk, with the context of the rows so far. Within
 *                      a chunk, it multiplies queries and keys
 *
 * If the rows of a causal sequence come in several batches, kernels of linear_attend_parts.cu replace walk_sequence.
 *
 * Which rows are added up together depends only on the sequence. linear_attention.h describes the tiles. */
#include "engine/cuda/linear_attend.h"
#include "engine/cuda/linear_attention.h"

#ifndef PART_KEYS
#define PART_KEYS 256 /* minimum of part_rows, the number of rows of every part but the last. See part_rows_of */
#endif
#ifndef CONTEXTS_BYTES
#define CONTEXTS_BYTES ((int64_t)64 << 20) /* maximum size in bytes of the contexts in scratch at a time */
#endif

/* ---- Sequences and their pieces ---- */

static __device__ struct fold_rows fold_rows_of(const int64_t *starts, int64_t fold, int64_t sequence)
{
    int64_t item = sequence / fold;
    struct fold_rows rows = {starts[item] + sequence % fold, (starts[item + 1] - starts[item]) / fold};
    return rows;
}

/* A piece is rows [begin, end) of a sequence. The pieces of all sequences share one numbering, which is computed from
 * the first rows of the items. Some numbers belong to no piece. A piece of keys is a part. */
struct fold_piece {
    int64_t sequence, number, begin, end;
    int64_t count; /* number of pieces of the sequence, at least 1. 0 if no piece has this number */
    struct fold_rows rows;
};

static __device__ struct fold_piece find_piece(const int64_t *starts, int64_t n_items, int64_t fold, int64_t piece_rows,
                                               int64_t index)
{
    int64_t item = 0, behind = n_items;
    while (behind - item > 1) {
        int64_t middle = (item + behind) / 2;
        if (starts[middle] / piece_rows + middle * fold <= index)
            item = middle;
        else
            behind = middle;
    }
    index -= starts[item] / piece_rows + item * fold;
    int64_t rows = (starts[item + 1] - starts[item]) / fold, pieces = (rows + piece_rows - 1) / piece_rows;
    pieces = pieces < 1 ? 1 : pieces;
    struct fold_piece piece = {};
    if (index >= fold * pieces)
        return piece;
    piece.sequence = item * fold + index / pieces;
    piece.number = index % pieces;
    piece.begin = piece.number * piece_rows;
    piece.end = rows - piece.begin < piece_rows ? rows : piece.begin + piece_rows;
    piece.count = pieces;
    piece.rows = fold_rows_of(starts, fold, piece.sequence);
    return piece;
}

static inline int64_t pieces_at_most(int64_t rows, int64_t n_sequences, int64_t piece_rows)
{
    return rows / piece_rows + n_sequences;
}

template <typename T> static __device__ bool has_context(const struct linear_attention<T> *a, int64_t sequence)
{
    return sequence >= a->first_sequence && sequence < a->first_sequence + a->n_sequences;
}

/* Keys of another input come only in the first batch of a sequence. Their context (heads, d, e) stays in the
 * sequence's slot. A step that is not causal keeps nothing else in the slot. */
template <typename T>
static __device__ float *context_of(const struct linear_attention<T> *a, int64_t sequence, int64_t head)
{
    float *state = state_of(a->states, sequence / a->fold);
    return state ? state + head * a->d * a->e
                 : a->contexts + ((sequence - a->first_sequence) * a->heads + head) * a->d * a->e;
}

/* Whether the sequence's slot contains the context, because an earlier batch computed it. */
template <typename T> static __device__ bool slot_has_context(const struct linear_attention<T> *a, int64_t sequence)
{
    return state_of(a->states, sequence / a->fold) && a->states.items[sequence / a->fold].earlier > 0;
}

/* Replaces queries by scale * softmax, or by scale * query if they are raw. A warp computes a row of one head. */
template <typename T>
static __global__ void soften_queries(int64_t rows, int64_t columns, const T *queries, int64_t heads,
                                      int64_t first_head, int64_t d, bool raw, float scale, float *out)
{
    int64_t row = warp_of_grid() / heads, head = warp_of_grid() % heads;
    if (row >= rows)
        return;
    const T *x = queries + row * columns + (first_head + head) * d;
    float *y = out + (row * heads + head) * d, maximum = -INFINITY, sum = 0;
    for (int64_t i = warp_thread(); i < d; i += WARP)
        maximum = fmaxf(maximum, to_float(x[i]));
    maximum = warp_maximum(maximum);
    for (int64_t i = warp_thread(); i < d; i += WARP)
        sum += expf(to_float(x[i]) - maximum);
    float factor = scale / warp_sum(sum);
    for (int64_t i = warp_thread(); i < d; i += WARP)
        y[i] = raw ? to_float(x[i]) * scale : expf(to_float(x[i]) - maximum) * factor;
}

/* ---- Not causal ---- */

/* A block's shared memory. */
struct summation {
    float powers[TILE][TILE_STRIDE], values[TILE][TILE_STRIDE];
    float maxima[SHARE][TILE], sums[TILE];
};

/* The index in `parts` of the first part of a sequence with several parts. The sequence's other parts follow. Such a
 * sequence is long, so its parts end before the parts of the next sequence begin. */
template <typename T> static __device__ int64_t first_place(const struct linear_attention<T> *a, int64_t sequence)
{
    int64_t count = fold_rows_of(a->key_starts, a->fold, sequence).count;
    return 2 * a->key_starts[sequence / a->fold] / a->part_rows +
           sequence % a->fold * ((count + a->part_rows - 1) / a->part_rows);
}

template <typename T> static __device__ float *part_of(const struct linear_attention<T> *a, int64_t place, int64_t head)
{
    return a->parts + (place * a->heads + head) * a->d * (a->e + 2);
}

/* Writes the maximum of the keys in each feature to maxima[0]. All threads of the block must call it. */
template <typename T>
static __device__ void find_maxima(const struct linear_attention<T> *a, const struct fold_piece *part, int64_t head,
                                   int64_t feature, struct summation *shared)
{
    int f = (int)threadIdx.x % TILE, first = (int)threadIdx.x / TILE;
    const T *keys = a->keys + (a->first_head + head) * a->d + feature + f;
    float maximum = -INFINITY;
    for (int64_t r = part->begin + first; feature + f < a->d && r < part->end; r += SHARE) {
        int64_t row = part->rows.first + r * a->fold;
        if (is_seen(a, row))
            maximum = fmaxf(maximum, to_float(keys[row * a->key_columns]));
    }
    shared->maxima[first][f] = maximum;
    __syncthreads();
    for (int i = 1; first == 0 && i < SHARE; i++)
        shared->maxima[0][f] = fmaxf(shared->maxima[0][f], shared->maxima[i][f]);
    __syncthreads();
}

/* Writes a tile of a part to `parts`. If the sequence has one part, writes a tile of the context itself. If all rows
 * are masked, the sums are 0. */
template <typename T>
static __device__ void write_part(const struct linear_attention<T> *a, const struct fold_piece *part, int64_t head,
                                  int64_t feature, int64_t column, const struct summation *shared,
                                  const float (&products)[2][COLUMNS_A_THREAD])
{
    bool whole = part->count == 1;
    float *to =
        whole ? context_of(a, part->sequence, head) : part_of(a, first_place(a, part->sequence) + part->number, head);
    float *context = whole ? to : to + 2 * a->d;
    for (int i = 0; i < 2; i++) {
        int f = own_row() + i * HALF;
        float sum = shared->sums[f], factor = !whole ? 1 : sum == 0 ? 0 : 1 / sum;
        for (int j = 0; feature + f < a->d && j < COLUMNS_A_THREAD; j++)
            if (column + own_column() + j < a->e)
                context[(feature + f) * a->e + column + own_column() + j] = products[i][j] * factor;
    }
    if (whole || column > 0 || threadIdx.x >= TILE || feature + threadIdx.x >= a->d)
        return;
    to[feature + threadIdx.x] = shared->maxima[0][threadIdx.x];
    to[a->d + feature + threadIdx.x] = shared->sums[threadIdx.x];
}

/* Grid: x is a part of the keys of a sequence, y is the head, z selects the tile of features and the tile of columns of
 * the context. */
template <typename T> static __global__ void __launch_bounds__(THREADS, 4) sum_context(struct linear_attention<T> a)
{
    struct summation *shared = (struct summation *)dynamic_shared_memory;
    struct fold_piece part = find_piece(a.key_starts, a.n_items, a.fold, a.part_rows, blockIdx.x);
    unsigned column_tiles = (unsigned)((a.e + TILE - 1) / TILE);
    int64_t head = blockIdx.y, feature = blockIdx.z / column_tiles * TILE, column = blockIdx.z % column_tiles * TILE;
    float products[2][COLUMNS_A_THREAD] = {}, share = 0;
    if (part.count == 0 || !has_context(&a, part.sequence) || slot_has_context(&a, part.sequence))
        return;
    find_maxima(&a, &part, head, feature, shared);
    for (int64_t begin = part.begin; begin < part.end; begin += TILE) {
        load_powers(&a, &part.rows, head, begin, part.end, feature, shared->maxima[0], shared->powers);
        load_values(&a, &part.rows, head, begin, part.end, column, shared->values);
        __syncthreads();
        add_product(shared->powers, shared->values, products);
        share += share_of_row(shared->powers);
        __syncthreads(); /* the next tiles overwrite these tiles */
    }
    share = sum_of_shares(share);
    if (threadIdx.x % SHARE == 0)
        shared->sums[threadIdx.x / SHARE] = share;
    __syncthreads();
    write_part(&a, &part, head, feature, column, shared, products);
}

/* Combines the parts of one row of a context, for sequences with several parts. Grid: x is a sequence and a head, y is
 * the row. */
template <typename T> static __global__ void join_parts(struct linear_attention<T> a)
{
    int64_t sequence = a.first_sequence + blockIdx.x / a.heads, head = blockIdx.x % a.heads, i = blockIdx.y;
    int64_t count = fold_rows_of(a.key_starts, a.fold, sequence).count, next = a.heads * a.d * (a.e + 2);
    if (count <= a.part_rows)
        return;
    const float *parts = part_of(&a, first_place(&a, sequence), head) + i, *behind = parts;
    float *context = context_of(&a, sequence, head) + i * a.e, maximum = -INFINITY;
    for (int64_t rows = 0; rows < count; rows += a.part_rows, behind += next)
        maximum = fmaxf(maximum, *behind);
    for (int64_t c = threadIdx.x; c < a.e; c += blockDim.x) {
        float sum = 0, product = 0;
        for (const float *part = parts; part < behind; part += next) {
            /* The factor is 0 for a part whose rows are all masked. */
            float factor = part[0] == -INFINITY ? 0 : expf(part[0] - maximum);
            sum += factor * part[a.d];
            product += factor * part[2 * a.d - i + i * a.e + c];
        }
        context[c] = sum == 0 ? 0 : product / sum;
    }
}

struct context_tiles {
    float queries[TILE][TILE_STRIDE], context[TILE][TILE_STRIDE];
};

/* y[r, h] = queries[r, h] context. Grid: x is a group of TILE rows of a sequence, y is the head, z selects the tile of
 * columns. */
template <typename T> static __global__ void __launch_bounds__(THREADS) read_context(struct linear_attention<T> a)
{
    struct context_tiles *shared = (struct context_tiles *)dynamic_shared_memory;
    struct fold_piece piece = find_piece(a.query_starts, a.n_items, a.fold, TILE, blockIdx.x);
    int64_t head = blockIdx.y, column = (int64_t)blockIdx.z * TILE;
    float sums[2][COLUMNS_A_THREAD] = {};
    if (piece.count == 0 || !has_context(&a, piece.sequence))
        return;
    const float *context = context_of(&a, piece.sequence, head) + column;
    for (int64_t feature = 0; feature < a.d; feature += TILE) {
        load_queries(&a, &piece.rows, head, piece.begin, piece.end, feature, shared->queries);
        for (int i = (int)threadIdx.x; i < TILE * TILE; i += THREADS) {
            int f = i / TILE, c = i % TILE;
            bool inside = feature + f < a.d && column + c < a.e;
            shared->context[f][c] = inside ? context[(feature + f) * a.e + c] : 0;
        }
        __syncthreads();
        add_product(shared->queries, shared->context, sums);
        __syncthreads(); /* the next tiles overwrite these tiles */
    }
    write_rows(&a, &piece.rows, head, piece.begin, piece.end, column, sums, NULL);
}

/* ---- Causal ---- */

/* Processes causal sequences. A row reads earlier buckets. If buckets are single rows, a row also reads itself. Grid: x
 * is a sequence and a head, y selects the tile of columns. */
template <typename T> static __global__ void __launch_bounds__(THREADS, 3) walk_sequence(struct linear_attention<T> a)
{
    struct walk *shared = (struct walk *)dynamic_shared_memory;
    int64_t sequence = a.first_sequence + blockIdx.x / a.heads;
    float *context = (float *)(shared + 1);
    if (state_of(a.states, sequence / a.fold))
        return;
    if (a.d > SHARED_FEATURES)
        context = a.contexts + ((int64_t)blockIdx.x * ((a.e + TILE - 1) / TILE) + blockIdx.y) * a.walk_floats;
    struct path path = {};
    path.queries = fold_rows_of(a.query_starts, a.fold, sequence);
    path.keys = fold_rows_of(a.key_starts, a.fold, sequence);
    path.head = blockIdx.x % a.heads;
    path.column = (int64_t)blockIdx.y * TILE;
    path.context = (tile_row *)context;
    for (int64_t i = threadIdx.x; i < a.walk_floats; i += THREADS)
        context[i] = 0;
    int64_t chunk = chunk_rows(&a), step = a.bucket < TILE ? chunk : a.bucket;
    for (int64_t start = 0, end; start < path.queries.count; start = end) {
        end = start + step < path.queries.count ? start + step : path.queries.count;
        for (int64_t begin = start; begin < end; begin += chunk)
            read_chunk(&a, &path, shared, begin, begin + chunk < end ? begin + chunk : end, a.bucket < TILE);
        int64_t known = end < path.keys.count ? end : path.keys.count;
        for (int64_t begin = start; end < path.queries.count && begin < known; begin += chunk)
            add_chunk(&a, &path, shared, begin, begin + chunk < known ? begin + chunk : known);
    }
}

/* ---- On the host ---- */

/* Number of floats of the queries in scratch. It is rounded up to whole packs, so that the contexts after the queries
 * begin at multiples of 16 bytes. */
static int64_t query_floats(const struct plan *plan, const struct plan_step *step)
{
    return parts_of(plan->max_rows * step->linear_attend.heads * step->linear_attend.dim_head, PACK<float>) *
           PACK<float>;
}

static int64_t walk_floats(int64_t d)
{
    return parts_of(d, TILE) * TILE * TILE_STRIDE;
}

/* Number of floats of the contexts of one sequence in scratch. */
static int64_t context_floats(const struct plan_step *step)
{
    if (!step->linear_attend.causal)
        return step->linear_attend.heads * step->linear_attend.dim_head * step->linear_attend.dim_value;
    return step->linear_attend.dim_head > SHARED_FEATURES
               ? step->linear_attend.heads * parts_of(step->linear_attend.dim_value, TILE) *
                     walk_floats(step->linear_attend.dim_head)
               : 0;
}

/* Number of floats of the sums of one sequence in scratch. */
static int64_t sums_floats(const struct plan *plan, const struct plan_step *step)
{
    bool kept = plan->n_slots > 0 && step->state != PLAN_NONE && step->linear_attend.causal;
    return kept ? 2 * step->linear_attend.heads * step->linear_attend.dim_head : 0;
}

/* The number of sequences whose contexts and sums are in scratch at a time, at least one. */
static int64_t sequences_at_once(const struct plan *plan, const struct plan_step *step)
{
    int64_t all = plan_most_sequences(plan, plan->values[step->x].axis, plan->max_items) * step->linear_attend.fold,
            floats = context_floats(step) + sums_floats(plan, step);
    return floats == 0 ? all : most(1, least(CONTEXTS_BYTES / (int64_t)sizeof(float) / floats, all));
}

static int64_t part_rows_of(const struct plan_step *step)
{
    return most(PART_KEYS, 4 * step->linear_attend.dim_value);
}

/* Number of floats of all parts in scratch (first_place). */
static int64_t parts_floats(const struct plan *plan, const struct plan_step *step)
{
    return step->linear_attend.causal ? 0
                                      : 2 * plan->max_rows / part_rows_of(step) * step->linear_attend.heads *
                                            step->linear_attend.dim_head * (step->linear_attend.dim_value + 2);
}

int64_t cuda_linear_attend_scratch(const struct plan *plan, const struct plan_step *step)
{
    return query_floats(plan, step) + sequences_at_once(plan, step) * (context_floats(step) + sums_floats(plan, step)) +
           parts_floats(plan, step);
}

template <typename T> static linear_attention<T> attention_of(struct cuda_run *run, const struct plan_step *step)
{
    linear_attention<T> a = {};
    a.keys = elements_of<T>(run, step->keys);
    a.values = elements_of<T>(run, step->values);
    a.mask = step->z == PLAN_NONE ? NULL : ids_of(run, step->z);
    a.query_starts = device_starts_of(run, step->x);
    a.key_starts = device_starts_of(run, step->keys);
    a.n_items = sequences_of(run, step->x);
    a.key_columns = columns_of(run, step->keys);
    a.value_columns = columns_of(run, step->values);
    a.heads = step->linear_attend.heads;
    a.first_head = step->linear_attend.first_head;
    a.d = step->linear_attend.dim_head;
    a.e = step->linear_attend.dim_value;
    a.fold = step->linear_attend.fold;
    a.bucket = step->linear_attend.bucket;
    a.part_rows = part_rows_of(step);
    a.walk_floats = walk_floats(a.d);
    a.queries = scratch_of(run);
    a.contexts = scratch_of(run) + query_floats(run->plan, step);
    a.sums = a.contexts + sequences_at_once(run->plan, step) * context_floats(step);
    a.parts = a.sums + sequences_at_once(run->plan, step) * sums_floats(run->plan, step);
    a.states = states_of(run);
    a.out = elements_of<T>(run, step->y);
    return a;
}

/* Computes a.n_sequences sequences, beginning with a.first_sequence. */
template <typename T>
static void attend_sequences(struct cuda_run *run, const struct plan_step *step, const struct linear_attention<T> &a)
{
    int64_t sequences = a.n_items * a.fold;
    unsigned heads = (unsigned)a.heads, column_tiles = (unsigned)parts_of(a.e, TILE);
    if (step->linear_attend.causal) {
        if (computes_whole_sequences(run))
            launch_shared(run, walk_sequence<T>, a.n_sequences * a.heads, dim3(column_tiles), THREADS, walk_bytes(&a),
                          a);
        if (computes_several_rows(run))
            linear_attend_parts(run, &a);
        return;
    }
    launch_shared(run, sum_context<T>, pieces_at_most(rows_of(run, step->keys), sequences, a.part_rows),
                  dim3(heads, (unsigned)parts_of(a.d, TILE) * column_tiles), THREADS, sizeof(struct summation), a);
    if (rows_of(run, step->keys) > a.part_rows)
        launch(run, join_parts<T>, a.n_sequences * a.heads, dim3((unsigned)a.d), threads_for_columns(a.e), a);
    launch_shared(run, read_context<T>, pieces_at_most(rows_of(run, step->x), sequences, TILE),
                  dim3(heads, column_tiles), THREADS, sizeof(struct context_tiles), a);
}

template <typename T> void cuda_linear_attend(struct cuda_run *run, const struct plan_step *step)
{
    struct linear_attention<T> a = attention_of<T>(run, step);
    int64_t rows = rows_of(run, step->x), sequences = a.n_items * a.fold;
    int64_t at_once = sequences_at_once(run->plan, step);
    launch(run, soften_queries<T>, parts_of(rows * a.heads, THREADS / WARP), 1, THREADS, rows, columns_of(run, step->x),
           elements_of<T>(run, step->x), a.heads, a.first_head, a.d, step->linear_attend.raw_queries,
           step->linear_attend.scale, scratch_of(run));
    for (; a.first_sequence < sequences; a.first_sequence += at_once) {
        a.n_sequences = least(at_once, sequences - a.first_sequence);
        attend_sequences(run, step, a);
    }
    if (step->linear_attend.causal && computes_single_rows(run))
        linear_attend_steps(run, &a);
}

FOR_ELEMENTS(cuda_linear_attend)
