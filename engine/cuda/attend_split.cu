/* Attention on tensor cores, for floats (split.h). A block computes some query rows of one head. Each of its warps
 * computes 16 * TALL rows. The block processes the keys in tiles of TILE keys, and copies one tile while it reads
 * another:
 *     1. score_tile:  scores = scale * queries keysᵀ + mask
 *     2. weigh:       scores become weights exp(score - maximum). A new maximum scales down sum and output so far
 *     3. add_tile:    out += weights values
 * At the end, end_rows divides the output by the sums. Features are padded with zeros to WIDE.
 *
 * Fragments (tensor.h) of scores or results are (16, 8). With g = warp_thread() / 4 and t = warp_thread() % 4, the
 * elements of a thread are x[0], x[1] = (g, 2t), (g, 2t + 1) and x[2], x[3] = (g + 8, 2t), (g + 8, 2t + 1). */
#include "engine/cuda/attention.h"
#include "engine/cuda/split.h"

#define WARPS 4
#define TILE 32 /* number of keys of a tile */
/* Unused floats after each row. They put the parts of a fragment into different memory banks. */
#define ROW_PAD 4

template <int TALL> constexpr int block_rows = WARPS * 16 * TALL;

template <int WIDE> struct split_keys {
    float keys[TILE][WIDE + ROW_PAD], values[TILE][WIDE + ROW_PAD];
};

/* A block's shared memory. It is 36, 68 or 99 KiB if WIDE is 32, 64 or 128. */
template <int WIDE, int TALL> struct split_shared {
    float queries[block_rows<TALL>][WIDE + ROW_PAD];
    struct split_keys<WIDE> tiles[2];
};

/* Some rows of one head, which a block computes. */
struct split_rows {
    struct sequence s;
    int64_t index, rows; /* index of the first row in the sequence, and number of rows */
    int64_t head, kv_head;
    int64_t behind; /* number of keys that at least one of the rows reads */
};

/* The state of the softmax for a warp's rows. Row 16 i + 8 half + g is element [i][half] of the thread. `sum` is the
 * sum over the thread's own columns only. */
template <int WIDE, int TALL> struct split_state {
    float out[TALL][WIDE / 8][4];
    float maximum[TALL][2], sum[TALL][2];
};

/* Starts the copies of a tile. All threads of the block must call it. */
template <int WIDE>
static __device__ void copy_tile(const struct attention<float> &a, const struct split_rows &p, int64_t first,
                                 struct split_keys<WIDE> *to)
{
    int64_t row = p.s.key + first, there = p.s.keys - first;
    split_copy_rows<TILE, WIDE, WARPS * WARP>(to->keys, a.keys + row * a.key_columns + p.kv_head * a.dim_head,
                                              a.key_columns, there, a.dim_head, a.packed);
    split_copy_rows<TILE, WIDE, WARPS * WARP>(to->values, a.values + row * a.value_columns + p.kv_head * a.dim_value,
                                              a.value_columns, there, a.dim_value, a.packed);
}

/* Adds the mask to the scores of 16 rows, beginning with `row`. Sets scores of keys that a row does not read to minus
 * infinity. */
static __device__ __forceinline__ void mask_scores(const struct attention<float> &a, const struct split_rows &p,
                                                   int64_t first, int row, float (&scores)[TILE / 8][4])
{
    if (!a.causal && !p.s.mask.data && first + TILE <= p.s.keys)
        return;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t own = row + half * 8 + warp_thread() / 4,
                position = own < p.rows ? position_of(&a, &p.s, p.index + own) : 0;
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int j = half * 2; j < half * 2 + 2; j++) {
                int64_t key = first + n * 8 + warp_thread() % 4 * 2 + j % 2;
                bool seen = key < p.s.keys && (!a.causal || key <= position);
                scores[n][j] = seen ? scores[n][j] + mask_score(&a, &p.s, p.head, position, key) : -INFINITY;
            }
    }
}

/* Computes the scores of the warp's rows, beginning with `row`, for the keys of the tile. */
template <int WIDE, int TALL>
static __device__ __forceinline__ void score_tile(const struct attention<float> &a, const struct split_rows &p,
                                                  const struct split_shared<WIDE, TALL> *shared,
                                                  const struct split_keys<WIDE> *tile, int64_t first, int row,
                                                  float (&scores)[TALL][TILE / 8][4])
{
    float small[TALL][TILE / 8][4] = {};
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                scores[i][n][j] = 0;
#pragma unroll 1 /* unrolling would load later fragments early, and needs more registers than a thread has */
    for (int c = 0; c < WIDE; c += SPLIT_DEPTH) {
        struct split<4> queries[TALL], keys;
#pragma unroll
        for (int i = 0; i < TALL; i++)
            split_load(&queries[i], &shared->queries[row + i * 16 + warp_thread() % 16][c + warp_thread() / 16 * 4]);
#pragma unroll
        for (int n = 0; n < TILE / 8; n++) {
            if (n % 2 == 0)
                split_load(
                    &keys,
                    &tile->keys[n * 8 + warp_thread() / 16 * 8 + warp_thread() % 8][c + warp_thread() / 8 % 2 * 4]);
#pragma unroll
            for (int i = 0; i < TALL; i++)
                split_multiply_add(scores[i][n], small[i][n], queries[i], keys, n % 2);
        }
    }
#pragma unroll
    for (int i = 0; i < TALL; i++) {
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                scores[i][n][j] = a.scale * split_sum(scores[i][n][j], small[i][n][j]);
        mask_scores(a, p, first, row + i * 16, scores[i]);
    }
}

/* Raises the maximum of the thread's row [i][half] to at least `maximum`. Scales down the sum and output of this
 * row. */
template <int WIDE, int TALL>
static __device__ __forceinline__ void raise(struct split_state<WIDE, TALL> *state, int i, int half, float maximum)
{
    float raised = fmaxf(state->maximum[i][half], maximum), factor = power_of(state->maximum[i][half], raised);
    state->maximum[i][half] = raised;
    state->sum[i][half] *= factor;
#pragma unroll
    for (int n = 0; n < WIDE / 8; n++) {
        state->out[i][n][half * 2] *= factor;
        state->out[i][n][half * 2 + 1] *= factor;
    }
}

/* Replaces scores by weights. The four threads that share a row use the same maximum. */
template <int WIDE, int TALL>
static __device__ __forceinline__ void weigh(float (&scores)[TALL][TILE / 8][4], struct split_state<WIDE, TALL> *state)
{
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float most = -INFINITY;
#pragma unroll
            for (int n = 0; n < TILE / 8; n++)
                most = fmaxf(most, fmaxf(scores[i][n][half * 2], scores[i][n][half * 2 + 1]));
            most = fmaxf(most, __shfl_xor_sync(WHOLE_WARP, most, 1));
            most = fmaxf(most, __shfl_xor_sync(WHOLE_WARP, most, 2));
            raise(state, i, half, most);
#pragma unroll
            for (int n = 0; n < TILE / 8; n++)
#pragma unroll
                for (int j = half * 2; j < half * 2 + 2; j++) {
                    scores[i][n][j] = power_of(scores[i][n][j], state->maximum[i][half]);
                    state->sum[i][half] += scores[i][n][j];
                }
        }
}

/* out += weights times values, for 16 keys of the tile. `values` points to the first key's values. A thread has the
 * weights of the neighbouring keys 2t and 2t + 1. They take the places of columns t and t + 4 in the operand A. So the
 * values of these keys take the places of rows t and t + 4 in the operand B. */
template <int WIDE, int TALL>
static __device__ __forceinline__ void add_values(const struct split<4> (&weights)[TALL][2],
                                                  const float (*values)[WIDE + ROW_PAD],
                                                  struct split_state<WIDE, TALL> *state)
{
#pragma unroll
    for (int c = 0; c < WIDE / 8; c += 2) {
        float small[TALL][2][4] = {};
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const float *own = &values[n * 8 + warp_thread() % 4 * 2][c * 8 + warp_thread() / 4];
            const float *next = own + WIDE + ROW_PAD;
            const uint32_t bits[4] = {__float_as_uint(own[0]), __float_as_uint(next[0]), __float_as_uint(own[8]),
                                      __float_as_uint(next[8])};
            struct split<4> b;
            split_of(&b, bits);
#pragma unroll
            for (int i = 0; i < TALL; i++) {
                split_multiply_add(state->out[i][c], small[i][0], weights[i][n], b, 0);
                split_multiply_add(state->out[i][c + 1], small[i][1], weights[i][n], b, 1);
            }
        }
#pragma unroll
        for (int i = 0; i < TALL; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                state->out[i][c + j / 4][j % 4] = split_sum(state->out[i][c + j / 4][j % 4], small[i][j / 4][j % 4]);
    }
}

/* out += weights times values, for all keys of the tile. Half of the weights are split at a time, because registers are
 * scarce. */
template <int WIDE, int TALL>
static __device__ __forceinline__ void add_tile(const float (&weights)[TALL][TILE / 8][4],
                                                const struct split_keys<WIDE> *tile,
                                                struct split_state<WIDE, TALL> *state)
{
#pragma unroll
    for (int first = 0; first < TILE / 8; first += 2) {
        struct split<4> a[TALL][2];
#pragma unroll
        for (int i = 0; i < TALL; i++)
#pragma unroll
            for (int n = 0; n < 2; n++) {
                const float(&x)[4] = weights[i][first + n];
                const uint32_t bits[4] = {__float_as_uint(x[0]), __float_as_uint(x[2]), __float_as_uint(x[1]),
                                          __float_as_uint(x[3])};
                split_of(&a[i][n], bits);
            }
        add_values(a, &tile->values[first * 8], state);
    }
}

/* Divides the output by the sums, and writes the results. */
template <int WIDE, int TALL>
static __device__ __forceinline__ void end_rows(const struct attention<float> &a, const struct split_rows &p, int row,
                                                struct split_state<WIDE, TALL> *state)
{
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            state->sum[i][half] += __shfl_xor_sync(WHOLE_WARP, state->sum[i][half], 1);
            state->sum[i][half] += __shfl_xor_sync(WHOLE_WARP, state->sum[i][half], 2);
            if (a.key_room > p.s.keys && !a.causal) { /* keys up to key_room have score 0 and value 0 */
                raise(state, i, half, 0);
                state->sum[i][half] += (float)(a.key_room - p.s.keys) * expf(-state->maximum[i][half]);
            }
            int64_t own = row + i * 16 + half * 8 + warp_thread() / 4;
            if (own >= p.rows)
                continue;
            float factor = 1.0f / state->sum[i][half];
            float *out = a.out + (p.s.query + p.index + own) * a.out_columns + p.head * a.dim_value;
#pragma unroll
            for (int n = 0; n < WIDE / 8; n++) {
                int c = n * 8 + warp_thread() % 4 * 2;
                float x = state->out[i][n][half * 2] * factor;
                float y = state->out[i][n][half * 2 + 1] * factor;
                if (a.packed && c < a.dim_value) {
                    *(float2 *)(out + c) = make_float2(x, y);
                    continue;
                }
                if (c < a.dim_value)
                    out[c] = x;
                if (c + 1 < a.dim_value)
                    out[c + 1] = y;
            }
        }
}

template <int WIDE, int TALL>
static __device__ void attend_rows(const struct attention<float> &a, const struct split_rows &p,
                                   struct split_shared<WIDE, TALL> *shared)
{
    struct split_state<WIDE, TALL> state = {
    };
    int row = (int)threadIdx.x / WARP * 16 * TALL;
    for (int i = 0; i < TALL; i++)
        state.maximum[i][0] = state.maximum[i][1] = -INFINITY;
    split_copy_rows<block_rows<TALL>, WIDE, WARPS * WARP>(
        shared->queries, a.queries + (p.s.query + p.index) * a.query_columns + p.head * a.dim_head, a.query_columns,
        p.rows, a.dim_head, a.packed);
    copy_tile(a, p, 0, &shared->tiles[0]);
    copies_commit();
    for (int64_t first = 0; first < p.behind; first += TILE) {
        struct split_keys<WIDE> *tile = &shared->tiles[first / TILE % 2];
        if (first + TILE < p.behind)
            copy_tile(a, p, first + TILE, &shared->tiles[(first / TILE + 1) % 2]);
        copies_commit();
        copies_wait<1>();
        __syncthreads();
        if (row < p.rows) {
            float scores[TALL][TILE / 8][4];
            score_tile(a, p, shared, tile, first, row, scores);
            weigh(scores, &state);
            add_tile(scores, tile, &state);
        }
        __syncthreads(); /* the next tile will overwrite this one */
    }
    copies_wait<0>();
    if (row < p.rows)
        end_rows(a, p, row, &state);
}

/* Grid: x is a part of a row block, y is the head. */
template <int WIDE, int TALL>
static __global__ void __launch_bounds__(WARPS *WARP, 2)
    attend_part(struct attention<float> a, const struct row_block *blocks)
{
    constexpr int parts = PADDER_BLOCK_ROWS / block_rows<TALL>;
    const struct row_block *block = &blocks[blockIdx.x / parts];
    int64_t first = blockIdx.x % parts * block_rows<TALL>, left = block->rows - first;
    if (left <= 0)
        return;
    struct split_rows p = {};
    p.s = sequence_of(&a, block->sequence, 0, 1);
    p.index = block->first - p.s.query + first;
    p.rows = left < block_rows<TALL> ? left : block_rows<TALL>;
    p.head = blockIdx.y;
    p.kv_head = p.head * a.kv_heads / a.heads;
    int64_t last = position_of(&a, &p.s, p.index + p.rows - 1);
    p.behind = a.causal && last < p.s.keys ? last + 1 : p.s.keys;
    attend_rows<WIDE, TALL>(a, p, (struct split_shared<WIDE, TALL> *)dynamic_shared_memory);
}

/* Returns false if the device's shared memory is too small. */
template <int WIDE, int TALL>
static bool launch_attention(struct cuda_run *run, const struct plan_step *step, const struct attention<float> *a)
{
    int axis = run->plan->values[step->x].axis;
    size_t bytes = sizeof(struct split_shared<WIDE, TALL>);
    if (bytes > run->shared_bytes)
        return false;
    launch_shared(run, attend_part<WIDE, TALL>, shape_blocks(run->shape, axis) * (PADDER_BLOCK_ROWS / block_rows<TALL>),
                  dim3((unsigned)a->heads), WARPS * WARP, bytes, *a, run->axes[axis].blocks);
    return true;
}

bool attend_split(struct cuda_run *run, const struct plan_step *step, const struct attention<float> *a)
{
    int64_t wide = most(a->dim_head, a->dim_value);
    if (wide > 128)
        return false;
    return wide <= 32   ? launch_attention<32, 2>(run, step, a)
           : wide <= 64 ? launch_attention<64, 2>(run, step, a)
                        : launch_attention<128, 1>(run, step, a);
}
