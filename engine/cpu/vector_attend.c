/* Attention: two small products around a softmax, for a group of rows at a time. A group goes over the keys tile by
 * tile, so that its scores and a panel of keys stay in the first-level cache however many keys there are; sums and
 * output so far are scaled down when a later tile has a larger score, and divided by the sum at the end. What is done
 * to a row, and in which order, does not depend on the rows beside it. */
#include "engine/cpu/vector_lanes.h"

/* Registers: TILE_ROWS x TILE_VECTORS sums, TILE_VECTORS of b and one of a. */
#if LANES == 16 || defined(__aarch64__)
#define TILE_ROWS 6
#define TILE_VECTORS 4
#elif LANES == 8
#define TILE_ROWS 6
#define TILE_VECTORS 2
#else
#define TILE_ROWS 4
#define TILE_VECTORS 2
#endif

#define PANEL (TILE_VECTORS * LANES)
#define GROUP_ROWS VECTOR_GROUP_ROWS
#define TILE_KEYS VECTOR_TILE_KEYS

_Static_assert(GROUP_ROWS % TILE_ROWS == 0 && TILE_KEYS % PANEL == 0 && LANES <= VECTOR_LANES, "tiles fit");

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t whole_vectors(int64_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

/* ---- The product ---- */

/* c += a b: a (rows, depth), b (depth, wide vectors). */
INLINE void multiply_tile(const float *a, int64_t a_stride, int64_t depth, const float *b, float *c, int64_t c_stride,
                          int rows, int wide)
{
    vector sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int w = 0; w < wide; w++)
            sums[r][w] = load(c + r * c_stride + w * LANES);
    for (int64_t t = 0; t < depth; t++, b += wide * LANES) {
        vector of_b[TILE_VECTORS];
#pragma GCC unroll 4
        for (int w = 0; w < wide; w++)
            of_b[w] = load(b + w * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            vector of_a = all(a[r * a_stride + t]);
#pragma GCC unroll 4
            for (int w = 0; w < wide; w++)
                sums[r][w] += of_a * of_b[w];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int w = 0; w < wide; w++)
            store(c + r * c_stride + w * LANES, sums[r][w]);
}

INLINE void multiply_rows(const float *a, int64_t a_stride, int64_t depth, const float *b, float *c, int64_t c_stride,
                          int rows, int64_t wide)
{
    if (wide == 1)
        multiply_tile(a, a_stride, depth, b, c, c_stride, rows, 1);
#if TILE_VECTORS > 2
    else if (wide == 2)
        multiply_tile(a, a_stride, depth, b, c, c_stride, rows, 2);
    else if (wide == 3)
        multiply_tile(a, a_stride, depth, b, c, c_stride, rows, 3);
#endif
    else
        multiply_tile(a, a_stride, depth, b, c, c_stride, rows, TILE_VECTORS);
}

/* Functions of their own: inlined into others, their sums no longer stay in registers. */
static __attribute__((noinline)) void multiply_full_tile(const float *a, int64_t a_stride, int64_t depth,
                                                         const float *b, float *c, int64_t c_stride, int64_t wide)
{
    multiply_rows(a, a_stride, depth, b, c, c_stride, TILE_ROWS, wide);
}

static __attribute__((noinline)) void multiply_row(const float *a, int64_t depth, const float *b, float *c,
                                                   int64_t wide)
{
    multiply_rows(a, 0, depth, b, c, 0, 1, wide);
}

/* For any number of rows up to GROUP_ROWS, one panel wide. A few rows left over are computed one by one, more of them
 * with the rows of the group beyond them, whose results nobody reads. */
static void multiply(int64_t rows, const float *a, int64_t a_stride, int64_t depth, const float *b, int64_t wide,
                     float *c, int64_t c_stride)
{
    int64_t r = 0;
    for (; rows - r > TILE_ROWS / 2; r += TILE_ROWS)
        multiply_full_tile(a + r * a_stride, a_stride, depth, b, c + r * c_stride, c_stride, wide);
    for (; r < rows; r++)
        multiply_row(a + r * a_stride, depth, b, c + r * c_stride, wide);
}

/* ---- Keys and values as the product reads them ---- */

#if LANES == 16
#define INTERLEAVE_LOW(a, b) SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b) SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 8
#define INTERLEAVE_LOW(a, b) SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_HIGH(a, b) SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define INTERLEAVE_LOW(a, b) SHUFFLE(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HIGH(a, b) SHUFFLE(a, b, 2, 6, 3, 7)
#endif

/* (LANES, LANES) -> its transpose: interleaving halves turns the index's bits around, once for each of them. */
INLINE void transpose(const float *from, int64_t from_stride, float *to, int64_t to_stride)
{
    vector rows[LANES], next[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        rows[i] = load(from + i * from_stride);
#pragma GCC unroll 4
    for (int round = 1; round < LANES; round *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = INTERLEAVE_LOW(rows[i], rows[i + LANES / 2]);
            next[2 * i + 1] = INTERLEAVE_HIGH(rows[i], rows[i + LANES / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            rows[i] = next[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        store(to + i * to_stride, rows[i]);
}

/* `width` keys from `first` on (fewer at the end: the rest is 0) -> (dim_head, width) */
static void pack_key_panel(const struct vector_keys *keys, int64_t first, int64_t width, float *panel)
{
    int64_t count = least(width, keys->k - first), whole = count / LANES * LANES, d = 0;
    const float *from = keys->keys + first * keys->key_stride;
    for (; d + LANES <= keys->dim_head; d += LANES)
        for (int64_t j = 0; j < whole; j += LANES)
            transpose(from + j * keys->key_stride + d, keys->key_stride, panel + d * width + j, width);
    for (int64_t t = 0; t < keys->dim_head; t++)
        for (int64_t j = t < d ? whole : 0; j < width; j++)
            panel[t * width + j] = j < count ? from[j * keys->key_stride + t] : 0;
}

/* Columns [first, first + width) of the values -> (k, width) */
static void pack_value_panel(const struct vector_keys *keys, int64_t first, int64_t width, float *panel)
{
    int64_t count = least(width, keys->dim_value - first);
    for (int64_t j = 0; j < keys->k; j++, panel += width) {
        memcpy(panel, keys->values + j * keys->value_stride + first, (size_t)count * sizeof *panel);
        for (int64_t i = count; i < width; i++)
            panel[i] = 0;
    }
}

void VARIANT(vector_pack_keys)(const struct vector_keys *keys, float *packed)
{
    int64_t key_columns = whole_vectors(keys->k), value_columns = whole_vectors(keys->dim_value);
    for (int64_t first = 0; first < key_columns; first += PANEL)
        pack_key_panel(keys, first, least(PANEL, key_columns - first), packed + keys->dim_head * first);
    packed += keys->dim_head * key_columns;
    for (int64_t first = 0; first < value_columns; first += PANEL)
        pack_value_panel(keys, first, least(PANEL, value_columns - first), packed + keys->k * first);
}

/* ---- The softmax, tile by tile ---- */

/* A group of rows on its way over the keys. */
struct group {
    const struct vector_attend *attend;
    int64_t first, rows; /* of the block */
    int64_t room;        /* rows with those that a last tile computes beyond them */
    int64_t seen;        /* keys that any of the rows sees */
    float *scores;       /* (GROUP_ROWS, TILE_KEYS); then their exponentials */
    float *out;          /* (GROUP_ROWS, dim_room) */
    float *queries;      /* (GROUP_ROWS, dim_head) */
    int64_t dim_room;
    float maxima[GROUP_ROWS];
    vector sums[GROUP_ROWS]; /* of the exponentials, lane by lane */
};

/* scores = scale * scores + mask */
static void add_mask(const struct vector_attend *attend, int64_t row, int64_t key, int64_t count, float *scores)
{
    const struct vector_mask *mask = &attend->mask;
    int64_t first = row * mask->stride + key;
    for (int64_t j = 0; mask->floats && j < count; j++)
        scores[j] = attend->scale * scores[j] + mask->floats[first + j];
    for (int64_t j = 0; !mask->floats && j < count; j++)
        scores[j] = attend->scale * scores[j] + ((mask->bytes[first + j] != 0) == mask->byte ? mask->score : 0);
}

/* What was summed up with the old maximum: output and weights. */
static void scale_down(struct group *g, int64_t r, int64_t keys_before, float factor)
{
    const struct vector_attend *attend = g->attend;
    float *out = g->out + r * g->dim_room, *weights = attend->weights;
    g->sums[r] *= factor;
    for (int64_t i = 0; i < g->dim_room; i++)
        out[i] *= factor;
    if (!weights || g->first + r >= attend->weights_rows)
        return;
    weights += (g->first + r) * (attend->k + attend->zero_keys);
    for (int64_t j = 0; j < keys_before; j++)
        weights[j] *= factor;
}

/* What exp is taken of: scores are scaled by a mask's addition already. */
static float scale_of(const struct vector_attend *attend)
{
    return attend->mask.floats || attend->mask.bytes ? 1.0f : attend->scale;
}

/* Brings the row's maximum up to date with its scores of the keys [key, key + count); those that it does not see
 * become -infinity. NaNs are passed over: their exponentials bring them back. */
static void raise_maximum(struct group *g, int64_t r, int64_t key, int64_t count)
{
    const struct vector_attend *attend = g->attend;
    int64_t row = g->first + r, seen = count, room = whole_vectors(count);
    float *scores = g->scores + r * TILE_KEYS, before = g->maxima[r];
    if (attend->mask.floats || attend->mask.bytes)
        add_mask(attend, row, key, count, scores);
    if (attend->causal && attend->first_position + row + 1 - key < seen)
        seen = attend->first_position + row + 1 - key;
    for (int64_t j = seen < 0 ? 0 : seen; j < room; j++)
        scores[j] = -INFINITY;
    vector largest = all(before);
    for (int64_t j = 0; j < room; j += LANES)
        largest = larger(load(scores + j), largest);
    largest = largest_lane(largest);
    g->maxima[r] = largest[0];
    if (largest[0] == before || before == -INFINITY)
        return;
    vector factor = exp_bounded((before - largest) * scale_of(attend));
    scale_down(g, r, key, factor[0]);
}

/* The row's scores become exp(scale * (score - maximum)). A maximum of -infinity, where nothing is seen yet, counts as
 * 0: exp gives 0, not NaN. */
static void weigh(struct group *g, int64_t r, int64_t key, int64_t count)
{
    const struct vector_attend *attend = g->attend;
    int64_t row = g->first + r, room = whole_vectors(count);
    float *scores = g->scores + r * TILE_KEYS, scale = scale_of(attend);
    float maximum = g->maxima[r] == -INFINITY ? 0 : g->maxima[r];
    vector sums = g->sums[r];
    for (int64_t j = 0; j < room; j += LANES) {
        vector e = exp_bounded((load(scores + j) - maximum) * scale);
        store(scores + j, e);
        sums += e;
    }
    g->sums[r] = sums;
    if (attend->weights && row < attend->weights_rows)
        memcpy(attend->weights + row * (attend->k + attend->zero_keys) + key, scores, (size_t)count * sizeof *scores);
}

/* The row's output and weights, divided by its sum. A row that sees nothing is NaN, as a softmax of it is. */
static void finish_row(const struct group *g, int64_t r)
{
    const struct vector_attend *attend = g->attend;
    int64_t row = g->first + r, zeros = attend->causal ? 0 : attend->zero_keys;
    vector zero = exp_bounded(all(-g->maxima[r] * scale_of(attend))); /* a zero key's weight; there are none: unused */
    float sum = sum_lanes(g->sums[r]);
    float inverse = 1.0f / (zeros > 0 ? sum + (float)zeros * zero[0] : sum),
          *out = attend->out + row * attend->out_stride;
    for (int64_t i = 0; i < attend->dim_value; i++)
        out[i] = g->out[r * g->dim_room + i] * inverse;
    if (!attend->weights || row >= attend->weights_rows)
        return;
    float *weights = attend->weights + row * (attend->k + attend->zero_keys);
    for (int64_t j = 0; j < attend->k; j++)
        weights[j] = j < g->seen ? weights[j] * inverse : 0;
    for (int64_t j = 0; j < attend->zero_keys; j++)
        weights[attend->k + j] = zeros > 0 ? zero[0] * inverse : 0;
}

static void attend_group(struct group *g)
{
    const struct vector_attend *attend = g->attend;
    const float *values = attend->packed + attend->dim_head * whole_vectors(attend->k);
    for (int64_t key = 0; key < g->seen; key += TILE_KEYS) {
        int64_t count = least(TILE_KEYS, g->seen - key);
        memset(g->scores, 0, (size_t)(g->room * TILE_KEYS) * sizeof *g->scores);
        for (int64_t j = 0; j < count; j += PANEL)
            multiply(g->rows, g->queries, attend->dim_head, attend->dim_head,
                     attend->packed + (key + j) * attend->dim_head,
                     least(PANEL, whole_vectors(attend->k) - key - j) / LANES, g->scores + j, TILE_KEYS);
        for (int64_t r = 0; r < g->rows; r++)
            raise_maximum(g, r, key, count);
        for (int64_t r = 0; r < g->rows; r++)
            weigh(g, r, key, count);
        for (int64_t i = 0; i < g->dim_room; i += PANEL) {
            int64_t width = least(PANEL, g->dim_room - i);
            multiply(g->rows, g->scores, TILE_KEYS, count, values + i * attend->k + key * width, width / LANES,
                     g->out + i, g->dim_room);
        }
    }
}

/* Rows [first, first + GROUP_ROWS) of the block, as far as there are so many. */
static void begin_group(struct group *g, int64_t first)
{
    const struct vector_attend *attend = g->attend;
    int64_t zeros = attend->causal ? 0 : attend->zero_keys, dim_head = attend->dim_head;
    g->first = first;
    g->rows = least(GROUP_ROWS, attend->rows - first);
    g->room = (g->rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    g->seen = attend->causal ? least(attend->k, attend->first_position + first + g->rows) : attend->k;
    for (int64_t r = 0; r < g->rows; r++) {
        memcpy(g->queries + r * dim_head, attend->queries + (first + r) * attend->query_stride,
               (size_t)dim_head * sizeof *g->queries);
        g->maxima[r] = zeros > 0 ? 0 : -INFINITY;
        g->sums[r] = all(0);
    }
    memset(g->queries + g->rows * dim_head, 0, (size_t)((g->room - g->rows) * dim_head) * sizeof *g->queries);
    memset(g->out, 0, (size_t)(g->room * g->dim_room) * sizeof *g->out);
}

void VARIANT(vector_attend)(const struct vector_attend *attend)
{
    struct group g = {.attend = attend, .dim_room = whole_vectors(attend->dim_value)};
    g.scores = attend->scratch;
    g.out = g.scores + GROUP_ROWS * TILE_KEYS;
    g.queries = g.out + GROUP_ROWS * g.dim_room;
    for (int64_t first = 0; first < attend->rows; first += GROUP_ROWS) {
        begin_group(&g, first);
        attend_group(&g);
        for (int64_t r = 0; r < g.rows; r++)
            finish_row(&g, r);
    }
}
