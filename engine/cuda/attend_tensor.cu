/* Attention on tensor cores, for elements of 16 bits. A warp keeps 16 * TALL query rows of a head in registers. It
 * processes the keys in tiles of TILE keys:
 *     1. multiply_keys:  scores = queries keysᵀ
 *     2. mask_scores:    scale, mask, and minus infinity for keys that a row does not read
 *     3. weigh:          scores become weights exp(score - maximum). A new maximum scales down sum and output so far
 *     4. add_values:     out += weights values
 * After the last tile, end_rows divides the output by the sums. Queries, keys, values and results have 16 bits. Scores,
 * maxima, sums and `out` are floats. Step 4 rounds the weights to 16 bits. Features are padded with zeros to WIDE.
 *
 * A unit of work is one head and one block of rows. The warps of a thread block divide these rows. A thread block
 * computes one or several units, one after another. Each thread block uses a part of a multiprocessor's shared memory.
 * If the plan fixes the number of keys, this part may be large enough for all keys and values of a head. In this case,
 * they stay in shared memory for all units of the block that read them. Otherwise shared memory contains two tiles. One
 * tile is copied while the other is read. Both ways add in the same order, so results do not depend on the device's
 * shared memory.
 *
 * Fragments (tensor.h) of scores or results are (16, 8). With g = warp_thread() / 4 and t = warp_thread() % 4, the
 * elements of a thread are x[0], x[1] = (g, 2t), (g, 2t + 1) and x[2], x[3] = (g + 8, 2t), (g + 8, 2t + 1). */
#include "engine/cuda/attention.h"
#include "engine/cuda/tensor.h"

#include <float.h>

#define LOG2_E 1.44269504f
#define TILE 64 /* number of keys of a tile */
/* Number of thread blocks that keep a multiprocessor busy. If there are more units, each block computes several
 * units. */
#define BLOCKS 4
#define MAX_UNITS 8

/* Number of threads of a thread block. */
template <int TALL> constexpr int threads = PADDER_BLOCK_ROWS / (16 * TALL) * WARP;

/* Number of thread blocks that a multiprocessor runs at a time. Its 65536 registers limit this number. docs/cuda.md
 * lists the registers and the shared memory of a block. */
template <int WIDE> constexpr int resident_blocks = WIDE <= 64 ? 2 : 1;

/* The order of units: for each row block of the table, all query heads that share a head of keys and values. */
struct units {
    const struct row_block *blocks;
    int64_t n_blocks;
    int64_t query_heads; /* number of query heads that share one head of keys and values */
    int each;            /* number of units for each thread block */
    bool resident;       /* all keys and values of a head stay in shared memory */
};

/* A block's shared memory consists of places for tiles. Place 0 contains the rows of queries at first, and the rows of
 * results at the end. If the keys are resident, tile i is in place i + 1. Otherwise, tile i is in place 1 if i is even,
 * and in place 0 if i is odd. Place 0 is safe to use: tile 1 is copied after the queries have been read, and results
 * are written after all tiles have been read. */
template <typename T, int WIDE> struct key_tile {
    T keys[TILE][WIDE + PAD], values[TILE][WIDE + PAD];
};

template <typename T, int WIDE> struct row_tile {
    T rows[PADDER_BLOCK_ROWS][WIDE + PAD];
};

/* Starts the copies of keys and values of a tile, as one group. All threads of the block must call it. */
template <typename T, int WIDE>
static __device__ void copy_tile(const struct attention<T> *a, const struct sequence *s, int64_t kv_head, int64_t tile,
                                 struct key_tile<T, WIDE> *to)
{
    int64_t first = tile * TILE, row = s->key + first * s->width;
    copy_rows<T, WIDE>(to->keys, a->keys + row * a->key_columns + kv_head * a->dim_head, s->width * a->key_columns,
                       s->keys - first, a->dim_head, a->packed, TILE, (int)threadIdx.x, (int)blockDim.x);
    copy_rows<T, WIDE>(to->values, a->values + row * a->value_columns + kv_head * a->dim_value,
                       s->width * a->value_columns, s->keys - first, a->dim_value, a->packed, TILE, (int)threadIdx.x,
                       (int)blockDim.x);
    copies_commit();
}

/* The rows of a warp: queries, and the state of the softmax. Of the 16 * TALL rows, row 16 i + 8 half + g is element
 * [i][half] of the thread. `sum` is the sum over the thread's own columns only. */
template <int WIDE, int TALL> struct rows_state {
    uint32_t queries[TALL][WIDE / 16][4];
    float out[TALL][WIDE / 8][4];
    float maximum[TALL][2], sum[TALL][2];
};

/* One head of one block of rows. */
struct unit {
    struct sequence s;
    int64_t head, index; /* the head, and the index of the first row in the sequence */
    int64_t rows, tiles; /* number of rows, and number of tiles of keys that at least one row reads */
    bool masked;         /* the item has a mask */
};

/* Loads the queries of the warp's rows through the warp's own part of shared memory, and sets the sums to 0. The
 * function waits for all copies that the thread has started. */
template <typename T, int WIDE, int TALL>
static __device__ void begin_rows(const struct attention<T> *a, const struct unit *u, T (*rows)[WIDE + PAD],
                                  struct rows_state<WIDE, TALL> *state)
{
    int first = (int)(threadIdx.x / WARP) * 16 * TALL;
    __syncwarp(); /* the warp has read the results of the previous unit */
    copy_rows<T, WIDE>(
        rows + first,
        a->queries + (u->s.query + (u->index + first) * u->s.width) * a->query_columns + u->head * a->dim_head,
        u->s.width * a->query_columns, u->rows - first, a->dim_head, a->packed, 16 * TALL, warp_thread(), WARP);
    copies_commit();
    copies_wait<0>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < TALL; i++) {
        for (int c = 0; c < WIDE / 16; c++)
            load_matrices(state->queries[i][c],
                          &rows[first + i * 16 + warp_thread() % 16][c * 16 + warp_thread() / 16 * 8]);
        for (int n = 0; n < WIDE / 8; n++)
            for (int j = 0; j < 4; j++)
                state->out[i][n][j] = 0;
        for (int half = 0; half < 2; half++) {
            state->maximum[i][half] = -INFINITY;
            state->sum[i][half] = 0;
        }
    }
}

/* scores = queries keysᵀ for the warp's rows and the tile's keys. A fragment of the keys is loaded once for all rows,
 * because shared memory is slower than tensor cores. For the same reason, add_values loads a fragment of values
 * once. */
template <typename T, int WIDE, int TALL>
static __device__ __forceinline__ void multiply_keys(const uint32_t (&queries)[TALL][WIDE / 16][4],
                                                     const T (*keys)[WIDE + PAD], float (&scores)[TALL][TILE / 8][4])
{
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                scores[i][n][j] = 0;
#pragma unroll
    for (int c = 0; c < WIDE / 16; c++)
#pragma unroll
        for (int n = 0; n < TILE / 8; n += 2) {
            uint32_t b[4]; /* keys n * 8 … n * 8 + 15, features c * 16 … c * 16 + 15 */
            load_matrices(
                b, &keys[n * 8 + warp_thread() / 16 * 8 + warp_thread() % 8][c * 16 + warp_thread() / 8 % 2 * 8]);
#pragma unroll
            for (int i = 0; i < TALL; i++) {
                multiply_add<T>(scores[i][n], queries[i][c], b[0], b[1]);
                multiply_add<T>(scores[i][n + 1], queries[i][c], b[2], b[3]);
            }
        }
}

/* For 16 rows of the unit, beginning with `row`, adds the mask. Sets scores of keys that a row does not read to minus
 * infinity. Returns the factor by which `weigh` must still multiply the scores. It is 1 if the function has changed the
 * scores, and scale * log2(e) otherwise. The scale is not negative, so the largest score stays the largest. */
template <typename T>
static __device__ __forceinline__ float mask_scores(const struct attention<T> *a, const struct unit *u, int64_t first,
                                                    int row, float (&scores)[TILE / 8][4])
{
    if (!a->causal && !u->masked && first + TILE <= u->s.keys)
        return a->scale * LOG2_E;
    struct sequence s = u->s;
    /* The mask is loaded again for each tile. Keeping it for all tiles would need registers. */
    s.mask = a->masks ? a->masks[s.axis_sequence] : score_mask();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t own = row + half * 8 + warp_thread() / 4,
                position = own < u->rows ? position_of(a, &s, u->index + own) : 0;
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                int64_t key = first + n * 8 + warp_thread() % 4 * 2 + j;
                bool seen = key < s.keys && (!a->causal || key <= position);
                float score = scores[n][half * 2 + j] * a->scale;
                score = seen ? score + mask_score(a, &s, u->head, position, key) : -INFINITY;
                /* A score with a mask of -FLT_MAX stays finite. Minus infinity and NaN do not change. */
                if (score >= -FLT_MAX)
                    score = fmaxf(score * LOG2_E, -FLT_MAX);
                scores[n][half * 2 + j] = score;
            }
    }
    return 1;
}

/* The maximum to subtract from scores. It is 0 if all scores are minus infinity, so that their powers are 0. */
static __device__ __forceinline__ float base_of(float maximum)
{
    return maximum == -INFINITY ? 0 : maximum;
}

/* Raises the maximum *at of the thread's row with this `half` to at least `maximum`. Scales down the sum and output of
 * this row. */
template <int WIDE>
static __device__ __forceinline__ void raise(float (&out)[WIDE / 8][4], int half, float maximum, float *at, float *sum)
{
    float raised = fmaxf(*at, maximum), factor = power_of_two(*at - base_of(raised));
    *at = raised;
    *sum *= factor;
#pragma unroll
    for (int n = 0; n < WIDE / 8; n++) {
        out[n][half * 2] *= factor;
        out[n][half * 2 + 1] *= factor;
    }
}

/* Replaces scores by weights. `scale` is the result of mask_scores. The four threads that share a row use the same
 * maximum.
 */
template <int WIDE>
static __device__ __forceinline__ void weigh(float (&scores)[TILE / 8][4], float scale, float (&out)[WIDE / 8][4],
                                             float (&maximum)[2], float (&sum)[2])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float most = -INFINITY;
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
            most = fmaxf(most, fmaxf(scores[n][half * 2], scores[n][half * 2 + 1]));
        most = fmaxf(most, __shfl_xor_sync(WHOLE_WARP, most, 1));
        most = fmaxf(most, __shfl_xor_sync(WHOLE_WARP, most, 2));
        raise<WIDE>(out, half, most * scale, &maximum[half], &sum[half]);
        float base = base_of(maximum[half]);
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int j = half * 2; j < half * 2 + 2; j++) {
                scores[n][j] = power_of_two(fmaf(scores[n][j], scale, -base));
                sum[half] += scores[n][j];
            }
    }
}

/* out += weights times the values of the tile. The weights of 16 keys are one operand A of multiply_add. They come from
 * two fragments of scores. Each fragment covers 8 keys. */
template <typename T, int WIDE, int TALL>
static __device__ __forceinline__ void add_values(const float (&weights)[TALL][TILE / 8][4],
                                                  const T (*values)[WIDE + PAD], float (&out)[TALL][WIDE / 8][4])
{
#pragma unroll
    for (int n = 0; n < TILE / 8; n += 2) {
        uint32_t a[TALL][4];
#pragma unroll
        for (int i = 0; i < TALL; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                a[i][j] = pair_of<T>(weights[i][n + j / 2][j % 2 * 2], weights[i][n + j / 2][j % 2 * 2 + 1]);
#pragma unroll
        for (int c = 0; c < WIDE / 8; c += 2) {
            uint32_t b[4]; /* keys n * 8 … n * 8 + 15, features c * 8 … c * 8 + 15 */
            load_matrices_transposed(b, &values[n * 8 + warp_thread() % 16][c * 8 + warp_thread() / 16 * 8]);
#pragma unroll
            for (int i = 0; i < TALL; i++) {
                multiply_add<T>(out[i][c], a[i], b[0], b[1]);
                multiply_add<T>(out[i][c + 1], a[i], b[2], b[3]);
            }
        }
    }
}

/* Processes one tile of keys. A warp does nothing if none of its rows belongs to the unit. */
template <typename T, int WIDE, int TALL>
static __device__ __forceinline__ void attend_tile(const struct attention<T> *a, const struct unit *u, int64_t first,
                                                   const struct key_tile<T, WIDE> *tile,
                                                   struct rows_state<WIDE, TALL> *state)
{
    float scores[TALL][TILE / 8][4];
    int row = (int)threadIdx.x / WARP * 16 * TALL;
    if (row >= u->rows)
        return;
    multiply_keys<T, WIDE, TALL>(state->queries, tile->keys, scores);
#pragma unroll
    for (int i = 0; i < TALL; i++) {
        float scale = mask_scores(a, u, first, row + i * 16, scores[i]);
        weigh<WIDE>(scores[i], scale, state->out[i], state->maximum[i], state->sum[i]);
    }
    add_values<T, WIDE, TALL>(scores, tile->values, state->out);
}

/* Divides the output by the sums, and writes the results through the warp's own part of shared memory. */
template <typename T, int WIDE, int TALL>
static __device__ void end_rows(const struct attention<T> *a, const struct unit *u, T (*rows)[WIDE + PAD],
                                struct rows_state<WIDE, TALL> *state)
{
    int first = (int)(threadIdx.x / WARP) * 16 * TALL;
    __syncwarp(); /* the warp has read the queries */
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = state->sum[i][half];
            sum += __shfl_xor_sync(WHOLE_WARP, sum, 1);
            sum += __shfl_xor_sync(WHOLE_WARP, sum, 2);
            if (a->key_room > u->s.keys && !a->causal) { /* keys up to key_room have score 0 and value 0 */
                raise<WIDE>(state->out[i], half, 0, &state->maximum[i][half], &sum);
                sum += (float)(a->key_room - u->s.keys) * power_of_two(-state->maximum[i][half]);
            }
            float factor = 1.0f / sum;
            T *row = rows[first + i * 16 + half * 8 + warp_thread() / 4];
#pragma unroll
            for (int n = 0; n < WIDE / 8; n++) {
                uint32_t pair =
                    pair_of<T>(state->out[i][n][half * 2] * factor, state->out[i][n][half * 2 + 1] * factor);
                *(uint32_t *)&row[n * 8 + warp_thread() % 4 * 2] = pair;
            }
        }
    __syncwarp();
    constexpr int packs = WIDE / PACK<T>;
    for (int i = warp_thread(); i < 16 * TALL * packs; i += WARP) {
        int row = first + i / packs, c = i % packs * PACK<T>;
        T *out = a->out + (u->s.query + (u->index + row) * u->s.width) * a->out_columns + u->head * a->dim_value + c;
        if (row >= u->rows)
            continue;
        if (a->packed && c < a->dim_value)
            *(uint4 *)out = *(const uint4 *)&rows[row][c];
        for (int j = 0; !a->packed && j < PACK<T> && c + j < a->dim_value; j++)
            out[j] = rows[row][c + j];
    }
}

/* Starts the first copies of the unit. They are all keys and values of the sequence if these stay in shared memory, and
 * the first tile otherwise. All threads of the block must call this function and the functions below. */
template <typename T, int WIDE>
static __device__ void fetch_tiles(const struct attention<T> *a, const struct unit *u, int64_t kv_head, bool resident,
                                   struct key_tile<T, WIDE> *tiles)
{
    int64_t last = resident ? u->s.keys : u->tiles > 0 ? 1 : 0;
    if (resident)
        __syncthreads(); /* all threads have read the data of the previous sequence */
    for (int64_t tile = 0; tile * TILE < last; tile++)
        copy_tile<T, WIDE>(a, &u->s, kv_head, tile, &tiles[tile + 1]);
}

/* Computes the unit if tiles do not stay in shared memory. The next tile is copied while a tile is processed. The
 * second tile takes the place of the queries. */
template <typename T, int WIDE, int TALL>
static __device__ void attend_streamed(const struct attention<T> *a, const struct unit *u, int64_t kv_head,
                                       struct key_tile<T, WIDE> *tiles, struct rows_state<WIDE, TALL> *state)
{
    __syncthreads(); /* all warps have read their queries */
    for (int64_t tile = 0; tile < u->tiles; tile++) {
        if (tile + 1 < u->tiles)
            copy_tile<T, WIDE>(a, &u->s, kv_head, tile + 1, &tiles[tile % 2]);
        else
            copies_commit();
        copies_wait<1>();
        __syncthreads();
        attend_tile<T, WIDE, TALL>(a, u, tile * TILE, &tiles[(tile + 1) % 2], state);
        __syncthreads(); /* the next tile will overwrite this one */
    }
}

/* Computes the unit if tiles stay in shared memory. `fetched` tells whether fetch_tiles has started copies of tiles.
 * begin_rows has waited for these copies. The barrier makes the tiles visible to all threads. */
template <typename T, int WIDE, int TALL>
static __device__ void attend_resident(const struct attention<T> *a, const struct unit *u, bool fetched,
                                       struct key_tile<T, WIDE> *tiles, struct rows_state<WIDE, TALL> *state)
{
    if (fetched)
        __syncthreads();
    for (int64_t tile = 0; tile < u->tiles; tile++)
        attend_tile<T, WIDE, TALL>(a, u, tile * TILE, &tiles[tile + 1], state);
}

template <typename T>
static __device__ struct unit unit_of(const struct attention<T> *a, const struct units *units, int64_t number,
                                      int64_t kv_head)
{
    struct unit u = {};
    if (number >= units->n_blocks * units->query_heads)
        return u;
    const struct row_block *block = &units->blocks[number / units->query_heads];
    u.rows = block->rows;
    if (u.rows == 0)
        return u;
    u.s = sequence_of(a, block->sequence, 0, 1);
    u.index = block->first - u.s.query;
    u.head = kv_head * units->query_heads + number % units->query_heads;
    int64_t last = position_of(a, &u.s, u.index + u.rows - 1);
    int64_t behind = a->causal && last < u.s.keys ? last + 1 : u.s.keys;
    u.tiles = (behind + TILE - 1) / TILE;
    u.masked = u.s.mask.data != NULL;
    return u;
}

/* Grid: x is a group of units.each units, y is the head of keys and values. */
template <typename T, int WIDE, int TALL>
static __global__ void __launch_bounds__(threads<TALL>, resident_blocks<WIDE>)
    attend_tensor(struct attention<T> a, struct units units)
{
    struct key_tile<T, WIDE> *tiles = (struct key_tile<T, WIDE> *)dynamic_shared_memory;
    T(*rows)[WIDE + PAD] = ((struct row_tile<T, WIDE> *)tiles)->rows;
    struct rows_state<WIDE, TALL> state;
    int64_t sequence = -1; /* the sequence whose tiles are in shared memory */
    for (int i = 0; i < units.each; i++) {
        struct unit u = unit_of(&a, &units, (int64_t)blockIdx.x * units.each + i, blockIdx.y);
        if (u.rows == 0)
            continue; /* all threads of the block continue together */
        bool fetch = !units.resident || u.s.axis_sequence != sequence;
        if (fetch)
            fetch_tiles<T, WIDE>(&a, &u, blockIdx.y, units.resident, tiles);
        begin_rows<T, WIDE, TALL>(&a, &u, rows, &state);
        if (units.resident)
            attend_resident<T, WIDE, TALL>(&a, &u, fetch, tiles, &state);
        else
            attend_streamed<T, WIDE, TALL>(&a, &u, blockIdx.y, tiles, &state);
        sequence = u.s.axis_sequence;
        end_rows<T, WIDE, TALL>(&a, &u, rows, &state);
    }
}

/* The number of keys of every sequence, if the plan fixes it (AXIS_FIXED, AXIS_SIZED). Otherwise 0. */
static int64_t fixed_keys(const struct cuda_run *run, const struct plan_step *step)
{
    const struct plan_axis *axis = &run->plan->axes[run->plan->values[step->keys].axis];
    return axis->kind == AXIS_FIXED || axis->kind == AXIS_SIZED
               ? plan_constant_rows(run->plan, run->plan->values[step->keys].axis)
               : 0;
}

template <typename T, int WIDE, int TALL>
static void launch_attention(struct cuda_run *run, const struct plan_step *step, const struct attention<T> *a)
{
    struct units units = {};
    size_t tile = sizeof(struct key_tile<T, WIDE>),
           room = resident_blocks<WIDE> == 2 ? run->shared_by_two : run->shared_bytes;
    int64_t tiles = parts_of(fixed_keys(run, step), TILE);
    static_assert(sizeof(struct row_tile<T, WIDE>) <= sizeof(struct key_tile<T, WIDE>),
                  "a tile of rows fits into the place of a tile of keys");
    static_assert(2 * sizeof(struct key_tile<T, WIDE>) <= MIN_SHARED_BYTES, "two tiles fit on every device");
    units.resident = tiles > 0 && (size_t)(tiles + 1) * tile <= room;
    size_t bytes = (size_t)(units.resident ? tiles + 1 : 2) * tile;
    int axis = run->plan->values[step->x].axis;
    units.blocks = run->axes[axis].blocks;
    units.n_blocks = shape_blocks(run->shape, axis);
    units.query_heads = a->heads / a->kv_heads;
    int64_t count = units.n_blocks * units.query_heads;
    units.each = (int)most(1, least(MAX_UNITS, count * a->kv_heads / (BLOCKS * run->processors)));
    launch_shared(run, attend_tensor<T, WIDE, TALL>, parts_of(count, units.each), dim3((unsigned)a->kv_heads),
                  threads<TALL>, bytes, *a, units);
}

template <typename T>
bool attend_on_tensor_cores(struct cuda_run *run, const struct plan_step *step, const struct attention<T> *a)
{
    int64_t wide = most(a->dim_head, a->dim_value);
    if (wide > 128 || a->heads % a->kv_heads != 0)
        return false;
    if (wide <= 32)
        launch_attention<T, 32, 2>(run, step, a);
    else if (wide <= 64)
        launch_attention<T, 64, 2>(run, step, a);
    else if (wide <= 96)
        launch_attention<T, 96, 1>(run, step, a);
    else
        launch_attention<T, 128, 1>(run, step, a);
    return true;
}

template bool attend_on_tensor_cores<bf16>(struct cuda_run *, const struct plan_step *, const struct attention<bf16> *);
template bool attend_on_tensor_cores<f16>(struct cuda_run *, const struct plan_step *, const struct attention<f16> *);
