/* Attention without a matrix of scores in memory: a block takes ROWS query rows of one head and walks over the keys, a
 * tile of 32 at a time, with the softmax's maximum and sum carried along and what was added so far scaled down when the
 * maximum grows. A lane has the score of one key of the tile, and then 4 of the values' features.
 *
 * The sequences of a call lie side by side: position p of sequence s is row p * width + s. For all others width is 1.
 */
#include "engine/cuda/attend.h"

#define WARPS 4
#define ROWS_A_WARP 4
#define ROWS (WARPS * ROWS_A_WARP)
#define TILE WARP   /* keys */
#define FEATURES 64 /* of queries and keys that are there at a time */
#define VALUES 128  /* features of values that a block computes */
#define PARTS (PADDER_BLOCK_ROWS / ROWS)

struct attention {
    const float *queries, *keys, *values;
    const int64_t *query_starts, *key_starts;
    const int32_t *positions;       /* of query rows; NULL: those in the sequence */
    const struct score_mask *masks; /* by item; NULL: none */
    int64_t query_columns, key_columns, value_columns, out_columns;
    int64_t heads, kv_heads, dim_head, dim_value, key_room;
    float scale, masked_score;
    bool causal, masked_byte;
    float *out;
};

static struct attention attention_of(const struct cuda_run *run, const struct plan_step *step)
{
    struct attention a = {};
    a.queries = floats_of(run, step->x);
    a.keys = floats_of(run, step->keys);
    a.values = floats_of(run, step->values);
    a.query_starts = device_starts_of(run, step->x);
    a.key_starts = device_starts_of(run, step->keys);
    a.positions = run->axes[run->plan->values[step->x].axis].positions;
    a.masks = step->mask == PLAN_NONE ? NULL : run->masks[step->mask];
    a.query_columns = columns_of(run, step->x);
    a.key_columns = columns_of(run, step->keys);
    a.value_columns = columns_of(run, step->values);
    a.out_columns = columns_of(run, step->y);
    a.heads = step->heads;
    a.kv_heads = step->kv_heads;
    a.dim_head = a.query_columns / a.heads;
    a.dim_value = a.out_columns / a.heads;
    a.key_room = step->key_room;
    a.scale = step->scale;
    a.masked_score = step->masked_score;
    a.masked_byte = step->masked_byte;
    a.causal = step->operation == OP_ATTEND && step->causal;
    a.out = floats_of(run, step->y);
    return a;
}

/* One sequence of an item with its keys, and how rows of it follow one another. */
struct sequence {
    int64_t item, number, width; /* number: of the sequence in the item */
    int64_t query, key;          /* rows of position 0 */
    int64_t keys;
};

static __device__ struct sequence sequence_of(const struct attention *a, int64_t item, int64_t number, int64_t width)
{
    struct sequence s;
    s.item = item;
    s.number = number;
    s.width = width;
    s.query = a->query_starts[item] + number;
    s.key = a->key_starts[item] + number;
    s.keys = (a->key_starts[item + 1] - a->key_starts[item]) / width;
    return s;
}

/* The position of the sequence's row number `index`. */
static __device__ __forceinline__ int64_t position_of(const struct attention *a, const struct sequence *s,
                                                      int64_t index)
{
    return a->positions ? a->positions[s->query + index] : index;
}

/* What the item's mask adds to a score. */
static __device__ float mask_score(const struct attention *a, const struct sequence *s, int64_t head, int64_t position,
                                   int64_t key)
{
    if (!a->masks || !a->masks[s->item].data)
        return 0;
    const struct score_mask *mask = &a->masks[s->item];
    int64_t row = (s->number * a->heads + head) * mask->each + (mask->length == 1 ? 0 : position);
    if (mask->floats)
        return ((const float *)mask->data)[row * s->keys + key];
    return (((const uint8_t *)mask->data)[row * s->keys + key] != 0) == a->masked_byte ? a->masked_score : 0;
}

/* exp(x - maximum), where minus infinity as the maximum of scores that are all minus infinity gives 0. */
static __device__ __forceinline__ float power_of(float x, float maximum)
{
    return maximum == -INFINITY ? 0 : expf(x - maximum);
}

/* The shared part of a block. */
struct tile {
    float queries[ROWS][FEATURES];
    float keys[TILE][FEATURES + 1]; /* lanes read a column: one more spreads it over the banks */
    float values[TILE][VALUES];
};

/* The softmax of a warp's rows so far. A lane has features lane, lane + 32, … of the block's. */
struct state {
    float maximum[ROWS_A_WARP], sum[ROWS_A_WARP], out[ROWS_A_WARP][VALUES / WARP];
};

/* Lane j's scores of key first + j. All threads of the block take part. */
static __device__ void score_tile(const struct attention *a, const struct sequence *s, struct tile *tile, int64_t head,
                                  int64_t index, int64_t rows, int64_t first, float *scores)
{
    int64_t keys = s->keys - first < TILE ? s->keys - first : TILE, kv_head = head * a->kv_heads / a->heads;
    int row = (int)(threadIdx.x / WARP) * ROWS_A_WARP;
    for (int r = 0; r < ROWS_A_WARP; r++)
        scores[r] = 0;
    for (int64_t begin = 0; begin < a->dim_head; begin += FEATURES) {
        int64_t count = a->dim_head - begin < FEATURES ? a->dim_head - begin : FEATURES;
        __syncthreads(); /* the tiles before were read */
        for (int i = (int)threadIdx.x; i < ROWS * FEATURES; i += WARPS * WARP)
            if (i / FEATURES < rows && i % FEATURES < count)
                tile->queries[i / FEATURES][i % FEATURES] =
                    a->queries[(s->query + (index + i / FEATURES) * s->width) * a->query_columns + head * a->dim_head +
                               begin + i % FEATURES];
        for (int i = (int)threadIdx.x; i < TILE * FEATURES; i += WARPS * WARP)
            if (i / FEATURES < keys && i % FEATURES < count)
                tile->keys[i / FEATURES][i % FEATURES] =
                    a->keys[(s->key + (first + i / FEATURES) * s->width) * a->key_columns + kv_head * a->dim_head +
                            begin + i % FEATURES];
        __syncthreads();
        for (int f = 0; f < count; f++) {
            float key = tile->keys[lane()][f];
            for (int r = 0; r < ROWS_A_WARP; r++)
                scores[r] += tile->queries[row + r][f] * key;
        }
    }
    for (int r = 0; r < ROWS_A_WARP; r++) {
        int64_t p = row + r < rows ? position_of(a, s, index + row + r) : 0;
        bool seen = lane() < keys && row + r < rows && (!a->causal || first + lane() <= p);
        scores[r] = seen ? a->scale * scores[r] + mask_score(a, s, head, p, first + lane()) : -INFINITY;
    }
}

/* Scales what is there to a maximum that is at least `maximum`. */
static __device__ __forceinline__ void raise(struct state *state, int r, float maximum)
{
    float raised = fmaxf(state->maximum[r], maximum), factor = power_of(state->maximum[r], raised);
    state->maximum[r] = raised;
    state->sum[r] *= factor;
    for (int v = 0; v < VALUES / WARP; v++)
        state->out[r][v] *= factor;
}

/* Adds a tile's values, weighed. All threads of the block take part. */
static __device__ void add_tile(const struct attention *a, const struct sequence *s, struct tile *tile, int64_t head,
                                int64_t first_value, int64_t first, const float *scores, struct state *state)
{
    int64_t keys = s->keys - first < TILE ? s->keys - first : TILE, kv_head = head * a->kv_heads / a->heads;
    int64_t count = a->dim_value - first_value < VALUES ? a->dim_value - first_value : VALUES;
    float weights[ROWS_A_WARP];
    for (int i = (int)threadIdx.x; i < TILE * VALUES; i += WARPS * WARP)
        tile->values[i / VALUES][i % VALUES] =
            i / VALUES < keys && i % VALUES < count
                ? a->values[(s->key + (first + i / VALUES) * s->width) * a->value_columns + kv_head * a->dim_value +
                            first_value + i % VALUES]
                : 0;
    for (int r = 0; r < ROWS_A_WARP; r++) {
        raise(state, r, warp_maximum(scores[r]));
        weights[r] = power_of(scores[r], state->maximum[r]);
        state->sum[r] += warp_sum(weights[r]);
    }
    __syncthreads();
    for (int j = 0; j < keys; j++)
        for (int r = 0; r < ROWS_A_WARP; r++) {
            float weight = __shfl_sync(ALL_LANES, weights[r], j);
            for (int v = 0; v < VALUES / WARP; v++)
                state->out[r][v] += weight * tile->values[j][v * WARP + lane()];
        }
}

/* Rows [index, index + rows) of a sequence, rows <= ROWS; features [first_value, first_value + VALUES) of
 * the head's values. */
static __device__ void attend_rows(const struct attention *a, const struct sequence *s, struct tile *tile,
                                   int64_t index, int64_t rows, int64_t head, int64_t first_value)
{
    struct state state;
    int row = (int)(threadIdx.x / WARP) * ROWS_A_WARP;
    int64_t last = position_of(a, s, index + rows - 1), behind = a->causal && last < s->keys ? last + 1 : s->keys;
    for (int r = 0; r < ROWS_A_WARP; r++) {
        state.maximum[r] = -INFINITY;
        state.sum[r] = 0;
        for (int v = 0; v < VALUES / WARP; v++)
            state.out[r][v] = 0;
    }
    for (int64_t first = 0; first < behind; first += TILE) {
        float scores[ROWS_A_WARP];
        score_tile(a, s, tile, head, index, rows, first, scores);
        add_tile(a, s, tile, head, first_value, first, scores, &state);
    }
    for (int r = 0; r < ROWS_A_WARP && row + r < rows; r++) {
        if (a->key_room > s->keys && !a->causal) { /* further keys with score 0 and value 0 */
            raise(&state, r, 0);
            state.sum[r] += (float)(a->key_room - s->keys) * expf(-state.maximum[r]);
        }
        float *out = a->out + (s->query + (index + row + r) * s->width) * a->out_columns + head * a->dim_value;
        for (int v = 0; v < VALUES / WARP; v++)
            if (first_value + v * WARP + lane() < a->dim_value)
                out[first_value + v * WARP + lane()] = state.out[r][v] / state.sum[r];
    }
}

/* Block x: one of the PARTS of a row block; y: the head; z: which of the values' features. */
static __global__ void __launch_bounds__(WARPS *WARP) attend(struct attention a, const struct row_block *blocks)
{
    __shared__ struct tile tile;
    const struct row_block *block = &blocks[blockIdx.x / PARTS];
    int64_t first = blockIdx.x % PARTS * ROWS, left = block->rows - first;
    if (left <= 0)
        return;
    struct sequence s = sequence_of(&a, block->item, 0, 1);
    attend_rows(&a, &s, &tile, block->first - s.query + first, left < ROWS ? left : ROWS, blockIdx.y,
                (int64_t)blockIdx.z * VALUES);
}

/* Block x: ROWS positions of one of the call's sequences; y and z as above. */
static __global__ void __launch_bounds__(WARPS *WARP)
    attend_call(struct attention a, int64_t item, int64_t width, int64_t positions)
{
    __shared__ struct tile tile;
    int64_t parts = (positions + ROWS - 1) / ROWS, first = blockIdx.x % parts * ROWS, left = positions - first;
    struct sequence s = sequence_of(&a, item, blockIdx.x / parts, width);
    attend_rows(&a, &s, &tile, first, left < ROWS ? left : ROWS, blockIdx.y, (int64_t)blockIdx.z * VALUES);
}

/* ---- The softmax itself, where it is asked for ---- */

#define WEIGHTS_AT_ONCE 64 /* rows in scratch, at least */

static int64_t keys_in_all(const struct plan *plan, const struct plan_step *step)
{
    const struct plan_axis *axis = &plan->axes[plan->values[step->keys].axis];
    int64_t keys = axis->input == PLAN_NONE ? axis->rows_per_item : axis->n ? axis->k : plan->max_rows;
    return most(keys, step->key_room);
}

/* Rows of weights, and a row of each of them for one head's. */
int64_t cuda_attend_scratch(const struct plan *plan, const struct plan_step *step)
{
    return 2 * WEIGHTS_AT_ONCE * keys_in_all(plan, step);
}

/* The head's weights for a position into row (all). The whole warp takes part. */
static __device__ void weigh_row(const struct attention *a, const struct sequence *s, int64_t position, int64_t head,
                                 int64_t all, float *row)
{
    const float *query = a->queries + (s->query + position * s->width) * a->query_columns + head * a->dim_head;
    float maximum = -INFINITY, sum = 0;
    for (int64_t j = lane(); j < all; j += WARP) {
        const float *key =
            a->keys + (s->key + j * s->width) * a->key_columns + head * a->kv_heads / a->heads * a->dim_head;
        float score = 0;
        for (int64_t f = 0; j < s->keys && f < a->dim_head; f++)
            score += query[f] * key[f];
        score = j < s->keys ? a->scale * score + mask_score(a, s, head, position, j) : 0;
        row[j] = a->causal && (j > position || j >= s->keys) ? -INFINITY : score;
        maximum = fmaxf(maximum, row[j]);
    }
    maximum = warp_maximum(maximum);
    for (int64_t j = lane(); j < all; j += WARP) {
        row[j] = expf(row[j] - maximum);
        sum += row[j];
    }
    sum = warp_sum(sum);
    for (int64_t j = lane(); j < all; j += WARP)
        row[j] /= sum;
}

/* Rows [first, first + rows) of (heads, positions, all). */
static __global__ void weigh(struct attention a, int64_t item, int64_t positions, int64_t first, int64_t rows,
                             int64_t all, float *weights)
{
    int64_t row = warp_of_grid();
    if (row >= rows)
        return;
    struct sequence s = sequence_of(&a, item, 0, 1);
    weigh_row(&a, &s, (first + row) % positions, (first + row) / positions, all, weights + row * all);
}

/* Rows [first, first + rows) of (sequences, positions, all): means over the heads. */
static __global__ void weigh_call(struct attention a, int64_t item, int64_t width, int64_t positions, int64_t first,
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
        for (int64_t j = lane(); j < all; j += WARP) /* the lane's own elements */
            weights[j] = (head == 0 ? 0 : weights[j]) + of_head[j];
    }
    for (int64_t j = lane(); j < all; j += WARP)
        weights[j] /= (float)a.heads;
}

/* For each item that asks for it, as many rows at a time as scratch has room for. */
static void give_weights(struct cuda_run *run, const struct plan_step *step, const struct attention *a)
{
    bool call = step->operation == OP_ATTEND_CALL;
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        float *wanted = cuda_wanted_attention(&run->batch->items[item], step);
        if (!wanted)
            continue;
        int input = run->plan->axes[run->plan->values[step->x].axis].input;
        int64_t width = width_of(run, step->x, item);
        int64_t positions = padder_length(run->plan, &run->batch->items[item], input) / width;
        const int64_t *starts = starts_of(run, step->keys) + item;
        int64_t all = most((starts[1] - starts[0]) / width, step->key_room);
        int64_t rows = positions * (call ? width : step->heads), at_once = run->scratch_floats / all / 2;
        for (int64_t first = 0; first < rows; first += at_once) {
            int64_t count = least(at_once, rows - first);
            if (call)
                launch(run, weigh_call, parts_of(count, WARPS), 1, WARPS * WARP, *a, item, width, positions, first,
                       count, all, run->scratch + at_once * all, run->scratch);
            else
                launch(run, weigh, parts_of(count, WARPS), 1, WARPS * WARP, *a, item, positions, first, count, all,
                       run->scratch);
            cuda_copy_out(run, wanted + first * all, run->scratch, count * all * (int64_t)sizeof(float));
        }
    }
}

void cuda_attend(struct cuda_run *run, const struct plan_step *step)
{
    int axis = run->plan->values[step->x].axis;
    struct attention a = attention_of(run, step);
    dim3 others((unsigned)a.heads, (unsigned)parts_of(a.dim_value, VALUES));
    launch(run, attend, run->batch->layouts[axis].n_blocks * PARTS, others, WARPS * WARP, a, run->axes[axis].blocks);
    give_weights(run, step, &a);
}

void cuda_attend_call(struct cuda_run *run, const struct plan_step *step)
{
    struct attention a = attention_of(run, step);
    dim3 others((unsigned)a.heads, (unsigned)parts_of(a.dim_value, VALUES));
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        const int64_t *starts = starts_of(run, step->x) + item;
        int64_t width = width_of(run, step->x, item), positions = (starts[1] - starts[0]) / width;
        launch(run, attend_call, width * parts_of(positions, ROWS), others, WARPS * WARP, a, item, width, positions);
    }
    give_weights(run, step, &a);
}
