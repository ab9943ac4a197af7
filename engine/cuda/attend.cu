/* Attention in float, for elements of every type. A block computes ROWS query rows of one head. It processes the keys
 * in tiles of TILE keys, so that the matrix of all scores is never in memory:
 *     1. score_tile:  scores (ROWS, TILE) = scale * queries keysᵀ + mask
 *     2. add_tile:    scores become weights exp(score - maximum), and out += weights * values
 * For each row, the block keeps the maximum of the scores so far, and the sum of the weights so far. When the maximum
 * grows, the block scales down the row's sum and output. attend_rows divides by the sum at the end. A thread computes 4
 * x 4 scores of a tile, and 4 x 4 results.
 *
 * For items that request the softmax itself, separate kernels write it (give_weights). */
#include "engine/cuda/attend.h"
#include "engine/cuda/attention.h"
#include "engine/cuda/results.h"

#define ROWS 64
#define TILE 64 /* number of keys of a tile */
/* Number of features of queries and keys in shared memory at a time. Also the number of features of values that a block
 * computes. */
#define FEATURES 64
#define EACH 4
/* A block has BLOCK_SIDE x BLOCK_SIDE threads. A thread computes EACH consecutive rows, and keys that are BLOCK_SIDE
 * apart. */
#define BLOCK_SIDE 16
#define THREADS (BLOCK_SIDE * BLOCK_SIDE)
#define PAD 4 /* unused floats after each row, so that float4 of neighbouring rows are in different banks */
#define PARTS (PADDER_BLOCK_ROWS / ROWS)

static_assert(ROWS == BLOCK_SIDE * EACH && TILE == BLOCK_SIDE * EACH && FEATURES == BLOCK_SIDE * EACH,
              "each thread computes 4 x 4 elements of a tile");

template <typename T> static attention<T> attention_of(const struct cuda_run *run, const struct plan_step *step)
{
    attention<T> a = {};
    a.queries = elements_of<T>(run, step->x);
    a.keys = elements_of<T>(run, step->keys);
    a.values = elements_of<T>(run, step->values);
    a.query_starts = device_starts_of(run, step->x);
    a.key_starts = device_starts_of(run, step->keys);
    a.positions = run->axes[run->plan->values[step->x].axis].positions;
    a.masks = step->attend.mask == PLAN_NONE ? NULL : run->masks[step->attend.mask];
    a.query_columns = columns_of(run, step->x);
    a.key_columns = columns_of(run, step->keys);
    a.value_columns = columns_of(run, step->values);
    a.out_columns = columns_of(run, step->y);
    a.heads = step->attend.heads;
    a.kv_heads = step->attend.kv_heads;
    a.dim_head = a.query_columns / a.heads;
    a.dim_value = a.out_columns / a.heads;
    a.key_room = step->attend.key_room;
    a.scale = step->attend.scale;
    a.masked_score = step->attend.masked_score;
    a.masked_byte = step->attend.masked_byte;
    a.causal = step->operation == OP_ATTEND && step->attend.causal;
    a.packed = (a.dim_head | a.dim_value | a.key_columns | a.value_columns) % PACK<T> == 0;
    a.out = elements_of<T>(run, step->y);
    return a;
}

/* A block's shared memory. Queries stay there if a head has at most FEATURES features. */
struct tile {
    float queries[ROWS][FEATURES + PAD], keys[TILE][FEATURES + PAD], values[TILE][FEATURES + PAD];
    float weights[ROWS][TILE + PAD];
};

/* The state of the softmax for the rows of a thread, and the thread's columns of the results. */
struct state {
    float maximum[EACH], sum[EACH], out[EACH][EACH];
};

/* Some rows of one head, which a block computes. */
struct head_rows {
    struct sequence s;
    int64_t index, rows; /* index of the first row in the sequence, and number of rows, at most ROWS */
    int64_t head, kv_head, first_value;
};

/* Copies `count` rows of FEATURES elements as floats. x is (there, columns). Elements outside of x become 0. All
 * threads of the block must call it. */
template <int N, typename T>
static __device__ void copy_rows(float (*to)[FEATURES + PAD], const T *x, int64_t stride, int64_t there,
                                 int64_t columns, int count)
{
    constexpr int packs = FEATURES / N;
    for (int i = (int)threadIdx.x; i < count * packs; i += THREADS) {
        int row = i / packs, c = i % packs * N;
        float elements[N] = {};
        if (row < there && c < columns)
            load(elements, x + row * stride + c);
        store(&to[row][c], elements);
    }
}

template <typename T>
static __device__ void copy_rows(const struct attention<T> *a, float (*to)[FEATURES + PAD], const T *x, int64_t stride,
                                 int64_t there, int64_t columns, int count)
{
    if (a->packed)
        copy_rows<PACK<T>>(to, x, stride, there, columns, count);
    else
        copy_rows<1>(to, x, stride, there, columns, count);
}

/* sums += queries keysᵀ over the features in shared memory, four features at a time. */
static __device__ __forceinline__ void add_scores(const struct tile *tile, int row, int key, float (&sums)[EACH][EACH])
{
#pragma unroll 2
    for (int f = 0; f < FEATURES; f += 4) {
        float queries[EACH][4], keys[EACH][4];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            load(queries[i], &tile->queries[row + i][f]);
            load(keys[i], &tile->keys[key + i * BLOCK_SIDE][f]);
        }
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++)
#pragma unroll
                for (int l = 0; l < 4; l++)
                    sums[i][j] += queries[i][l] * keys[j][l];
    }
}

/* Computes the scores of the thread's rows and keys of the tile. They are minus infinity for keys that a row does not
 * read. All threads of the block must call it. */
template <typename T>
static __device__ void score_tile(const struct attention<T> *a, const struct head_rows *p, struct tile *tile,
                                  int64_t first, float (&scores)[EACH][EACH])
{
    int row = (int)threadIdx.x / BLOCK_SIDE * EACH, own_key = (int)threadIdx.x % BLOCK_SIDE;
    int64_t query = p->s.query + p->index * p->s.width, key = p->s.key + first * p->s.width;
    for (int i = 0; i < EACH * EACH; i++)
        scores[i / EACH][i % EACH] = 0;
    for (int64_t begin = 0; begin < a->dim_head; begin += FEATURES) {
        __syncthreads(); /* all threads have read the previous tiles */
        if (first == 0 || a->dim_head > FEATURES)
            copy_rows(a, tile->queries, a->queries + query * a->query_columns + p->head * a->dim_head + begin,
                      p->s.width * a->query_columns, p->rows, a->dim_head - begin, ROWS);
        copy_rows(a, tile->keys, a->keys + key * a->key_columns + p->kv_head * a->dim_head + begin,
                  p->s.width * a->key_columns, p->s.keys - first, a->dim_head - begin, TILE);
        __syncthreads();
        add_scores(tile, row, own_key, scores);
    }
    for (int i = 0; i < EACH; i++) {
        int64_t position = row + i < p->rows ? position_of(a, &p->s, p->index + row + i) : 0;
        for (int j = 0; j < EACH; j++) {
            int64_t k = first + own_key + j * BLOCK_SIDE;
            bool seen = k < p->s.keys && row + i < p->rows && (!a->causal || k <= position);
            scores[i][j] = seen ? a->scale * scores[i][j] + mask_score(a, &p->s, p->head, position, k) : -INFINITY;
        }
    }
}

/* Raises the maximum of row i to at least `maximum`, and scales down the sum and output of the row. */
static __device__ __forceinline__ void raise(struct state *state, int i, float maximum)
{
    float raised = fmaxf(state->maximum[i], maximum), factor = power_of(state->maximum[i], raised);
    state->maximum[i] = raised;
    state->sum[i] *= factor;
    for (int v = 0; v < EACH; v++)
        state->out[i][v] *= factor;
}

/* side_maximum and side_sum return the maximum and the sum over the BLOCK_SIDE threads that share rows. */
static __device__ __forceinline__ float side_maximum(float x)
{
    for (int apart = BLOCK_SIDE / 2; apart > 0; apart /= 2)
        x = fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, apart));
    return x;
}

static __device__ __forceinline__ float side_sum(float x)
{
    for (int apart = BLOCK_SIDE / 2; apart > 0; apart /= 2)
        x += __shfl_xor_sync(WHOLE_WARP, x, apart);
    return x;
}

/* Replaces scores by weights, and adds the values of the tile times these weights. All threads of the block must call
 * it. */
template <typename T>
static __device__ void add_tile(const struct attention<T> *a, const struct head_rows *p, struct tile *tile,
                                int64_t first, const float (&scores)[EACH][EACH], struct state *state)
{
    int row = (int)threadIdx.x / BLOCK_SIDE * EACH, side = (int)threadIdx.x % BLOCK_SIDE;
    copy_rows(a, tile->values,
              a->values + (p->s.key + first * p->s.width) * a->value_columns + p->kv_head * a->dim_value +
                  p->first_value,
              p->s.width * a->value_columns, p->s.keys - first, a->dim_value - p->first_value, TILE);
    for (int i = 0; i < EACH; i++) {
        float sum = 0;
        raise(state, i, side_maximum(fmaxf(fmaxf(scores[i][0], scores[i][1]), fmaxf(scores[i][2], scores[i][3]))));
        for (int j = 0; j < EACH; j++) {
            float weight = power_of(scores[i][j], state->maximum[i]);
            tile->weights[row + i][side + j * BLOCK_SIDE] = weight;
            sum += weight;
        }
        state->sum[i] += side_sum(sum);
    }
    __syncthreads();
#pragma unroll 2
    for (int k = 0; k < TILE; k += 4) {
        float weights[EACH][4], values[4][EACH];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            load(weights[i], &tile->weights[row + i][k]);
            load(values[i], &tile->values[k + i][side * EACH]);
        }
#pragma unroll
        for (int l = 0; l < 4; l++)
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int v = 0; v < EACH; v++)
                    state->out[i][v] += weights[i][l] * values[l][v];
    }
}

template <typename T>
static __device__ void attend_rows(const struct attention<T> *a, const struct head_rows *p, struct tile *tile)
{
    struct state state = {};
    int row = (int)threadIdx.x / BLOCK_SIDE * EACH, side = (int)threadIdx.x % BLOCK_SIDE;
    int64_t last = position_of(a, &p->s, p->index + p->rows - 1);
    int64_t behind = a->causal && last < p->s.keys ? last + 1 : p->s.keys;
    for (int i = 0; i < EACH; i++)
        state.maximum[i] = -INFINITY;
    for (int64_t first = 0; first < behind; first += TILE) {
        float scores[EACH][EACH];
        score_tile(a, p, tile, first, scores);
        add_tile(a, p, tile, first, scores, &state);
    }
    for (int i = 0; i < EACH && row + i < p->rows; i++) {
        if (a->key_room > p->s.keys && !a->causal) { /* keys up to key_room have score 0 and value 0 */
            raise(&state, i, 0);
            state.sum[i] += (float)(a->key_room - p->s.keys) * expf(-state.maximum[i]);
        }
        T *out = a->out + (p->s.query + (p->index + row + i) * p->s.width) * a->out_columns + p->head * a->dim_value;
        for (int v = 0; v < EACH; v++)
            if (p->first_value + side * EACH + v < a->dim_value)
                out[p->first_value + side * EACH + v] = of_float<T>(state.out[i][v] / state.sum[i]);
    }
}

template <typename T>
static __device__ struct head_rows part_of(const struct attention<T> *a, const struct sequence *s, int64_t index,
                                           int64_t left)
{
    struct head_rows p;
    p.s = *s;
    p.index = index;
    p.rows = left < ROWS ? left : ROWS;
    p.head = blockIdx.y;
    p.kv_head = p.head * a->kv_heads / a->heads;
    p.first_value = (int64_t)blockIdx.z * FEATURES;
    return p;
}

/* Grid: x is one of the PARTS of a row block, y is the head, z is the group of features of the values. */
template <typename T>
static __global__ void __launch_bounds__(THREADS) attend(struct attention<T> a, const struct row_block *blocks)
{
    const struct row_block *block = &blocks[blockIdx.x / PARTS];
    int64_t first = blockIdx.x % PARTS * ROWS, left = block->rows - first;
    if (left <= 0)
        return;
    struct sequence s = sequence_of(&a, block->sequence, 0, 1);
    struct head_rows p = part_of(&a, &s, block->first - s.query + first, left);
    attend_rows(&a, &p, (struct tile *)dynamic_shared_memory);
}

/* Grid: x is a group of ROWS positions of one sequence of the call. y is the head, z is the group of features of the
 * values. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    attend_call(struct attention<T> a, int64_t item, int64_t width, int64_t positions)
{
    int64_t parts = (positions + ROWS - 1) / ROWS, first = blockIdx.x % parts * ROWS, left = positions - first;
    struct sequence s = sequence_of(&a, item, blockIdx.x / parts, width);
    struct head_rows p = part_of(&a, &s, first, left);
    attend_rows(&a, &p, (struct tile *)dynamic_shared_memory);
}

/* ---- The softmax itself, for items that request it ---- */

#define WARPS 4
#define WEIGHTS_AT_ONCE 64 /* number of rows for which scratch always has room */

static int64_t keys_in_all(const struct plan *plan, const struct plan_step *step)
{
    return most(plan_most_sequence_rows(plan, step->keys), step->attend.key_room);
}

/* Number of floats for WEIGHTS_AT_ONCE rows of weights, and for the same number of rows of one head in weigh_call. */
int64_t cuda_attend_scratch(const struct plan *plan, const struct plan_step *step)
{
    return 2 * WEIGHTS_AT_ONCE * keys_in_all(plan, step);
}

/* Writes the softmax of one head and one position over all keys to `row` (all). All threads of the warp must call
 * it. */
template <typename T>
static __device__ void weigh_row(const struct attention<T> *a, const struct sequence *s, int64_t position, int64_t head,
                                 int64_t all, float *row)
{
    const T *query = a->queries + (s->query + position * s->width) * a->query_columns + head * a->dim_head;
    float maximum = -INFINITY, sum = 0;
    for (int64_t j = warp_thread(); j < all; j += WARP) {
        const T *key = a->keys + (s->key + j * s->width) * a->key_columns + head * a->kv_heads / a->heads * a->dim_head;
        float score = 0;
        for (int64_t f = 0; j < s->keys && f < a->dim_head; f++)
            score += to_float(query[f]) * to_float(key[f]);
        score = j < s->keys ? a->scale * score + mask_score(a, s, head, position, j) : 0;
        row[j] = a->causal && (j > position || j >= s->keys) ? -INFINITY : score;
        maximum = fmaxf(maximum, row[j]);
    }
    maximum = warp_maximum(maximum);
    for (int64_t j = warp_thread(); j < all; j += WARP) {
        row[j] = expf(row[j] - maximum);
        sum += row[j];
    }
    sum = warp_sum(sum);
    for (int64_t j = warp_thread(); j < all; j += WARP)
        row[j] /= sum;
}

/* Computes rows [first, first + rows) of the softmax (heads, positions, all keys). */
template <typename T>
static __global__ void weigh(struct attention<T> a, int64_t item, int64_t positions, int64_t first, int64_t rows,
                             int64_t all, float *weights)
{
    int64_t row = warp_of_grid();
    if (row >= rows)
        return;
    struct sequence s = sequence_of(&a, item, 0, 1);
    weigh_row(&a, &s, (first + row) % positions, (first + row) / positions, all, weights + row * all);
}

/* Computes rows [first, first + rows) of the softmax (sequences, positions, all keys). They are means over the
 * heads. */
template <typename T>
static __global__ void weigh_call(struct attention<T> a, int64_t item, int64_t width, int64_t positions, int64_t first,
                                  int64_t rows, int64_t all, float *of_head, float *weights)
{
    int64_t row = warp_of_grid();
    if (row >= rows)
        return;
    struct sequence s = sequence_of(&a, item, (first + row) / positions, width);
    of_head += row * all;
    weights += row * all;
    for (int64_t head = 0; head < a.heads; head++) {
        weigh_row(&a, &s, (first + row) % positions, head, all, of_head);
        for (int64_t j = warp_thread(); j < all; j += WARP) /* each thread reads only elements that it has written */
            weights[j] = (head == 0 ? 0 : weights[j]) + of_head[j];
    }
    for (int64_t j = warp_thread(); j < all; j += WARP)
        weights[j] /= (float)a.heads;
}

/* Writes the softmax of each item that requests it. Several rows are computed at a time, as far as scratch has room. */
template <typename T>
static void give_weights(struct cuda_run *run, const struct plan_step *step, const struct attention<T> *a)
{
    bool call = step->operation == OP_ATTEND_CALL;
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        float *wanted = padder_softmax(run->plan, &run->batch->items[item], step);
        if (!wanted)
            continue;
        int axis = run->plan->values[step->x].axis;
        int64_t width = width_of(run, step->x, item);
        int64_t positions = padder_own_rows(run->plan, &run->batch->items[item], axis) / width;
        const int64_t *starts = starts_of(run, step->keys) + item;
        int64_t all = most((starts[1] - starts[0]) / width, step->attend.key_room);
        int64_t rows = positions * (call ? width : step->attend.heads), at_once = run->scratch_floats / all / 2;
        for (int64_t first = 0; first < rows && has_not_failed(run); first += at_once) {
            int64_t count = least(at_once, rows - first);
            if (call)
                launch(run, weigh_call<T>, parts_of(count, WARPS), 1, WARPS * WARP, *a, item, width, positions, first,
                       count, all, scratch_of(run) + at_once * all, scratch_of(run));
            else
                launch(run, weigh<T>, parts_of(count, WARPS), 1, WARPS * WARP, *a, item, positions, first, count, all,
                       scratch_of(run));
            results_copy(run, wanted + first * all, scratch_of(run), count * all * (int64_t)sizeof(float));
        }
    }
}

/* ---- Sequences that come in several batches ---- */

/* A context comes only with the first part of a sequence. The keys and values that are computed from the context stay
 * in the sequence's slot, as floats. For later parts of the sequence, they are copied from the slot. Each item has k
 * rows of keys and values, and a warp copies one row. */
template <typename T, int N>
static __global__ void keep_rows(int64_t rows, int64_t k, int64_t columns, struct states states, int64_t offset, T *x)
{
    int64_t row = warp_of_grid(), item = row / k;
    float *state = row < rows ? state_of(states, item) : NULL;
    if (!state)
        return;
    state += offset + row % k * columns;
    for (int64_t c = warp_thread() * N; c < columns; c += WARP * N) {
        float values[N];
        if (states.items[item].earlier == 0) {
            load(values, x + row * columns + c);
            store(state + c, values);
        } else {
            load(values, state + c);
            store(x + row * columns + c, values);
        }
    }
}

template <typename T> static void keep_context(struct cuda_run *run, const struct plan_step *step)
{
    int64_t k = plan_constant_rows(run->plan, run->plan->values[step->keys].axis), offset = 0;
    const int reads[] = {step->keys, step->values};
    if (!computes_single_rows(run) && !computes_several_rows(run))
        return;
    for (int value : reads) {
        int64_t columns = columns_of(run, value);
        with_pack<T>(columns | offset, [&](auto n) {
            launch_rows(run, keep_rows<T, n.value>, items_of(run) * k, k, columns, states_of(run), offset,
                        elements_of<T>(run, value));
        });
        offset += k * columns;
    }
}

template <typename T> void cuda_attend(struct cuda_run *run, const struct plan_step *step)
{
    keep_context<T>(run, step);
    int axis = run->plan->values[step->x].axis;
    struct attention<T> a = attention_of<T>(run, step);
    dim3 others((unsigned)a.heads, (unsigned)parts_of(a.dim_value, FEATURES));
    bool done = false;
    if constexpr (sizeof(T) == 2)
        done = attend_on_tensor_cores(run, step, &a);
    else if (run->split)
        done = attend_split(run, step, &a);
    if (!done)
        launch_shared(run, attend<T>, shape_blocks(run->shape, axis) * PARTS, others, THREADS, sizeof(struct tile), a,
                      run->axes[axis].blocks);
    give_weights(run, step, &a);
}

template <typename T> void cuda_attend_call(struct cuda_run *run, const struct plan_step *step)
{
    struct attention<T> a = attention_of<T>(run, step);
    dim3 others((unsigned)a.heads, (unsigned)parts_of(a.dim_value, FEATURES));
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        const int64_t *starts = starts_of(run, step->x) + item;
        int64_t width = width_of(run, step->x, item), positions = (starts[1] - starts[0]) / width;
        launch_shared(run, attend_call<T>, width * parts_of(positions, ROWS), others, THREADS, sizeof(struct tile), a,
                      item, width, positions);
    }
    give_weights(run, step, &a);
}

FOR_ELEMENTS(cuda_attend)
FOR_ELEMENTS(cuda_attend_call)
