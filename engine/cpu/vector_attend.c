/* Attention of one head: out = softmax(scale * queries keysᵀ + mask) values, as struct vector_attend describes it.
 *
 * A group of at most GROUP_ROWS query rows processes the keys in tiles of TILE_KEYS. So the group's scores and a panel
 * of keys fit in the first-level cache for any number of keys. For each tile:
 *     1. multiply:      scores (rows, keys) = queries (rows, d) keys (keys, d)ᵀ
 *     2. raise_maximum: applies a mask, and the scale before it. If a row's maximum grows, the row's sum and output so
 *                       far are scaled down
 *     3. weigh:         scores become exp(score - maximum), and are added to the row's sum. Without a mask, weigh also
 *                       applies the scale
 *     4. multiply:      out (rows, e) += scores (rows, keys) values (keys, e)
 * At the end, finish_row divides the output by the sum. Other rows change neither the work on a row nor its order. */
#include "engine/cpu/vector_tile.h"

#define GROUP_ROWS VECTOR_GROUP_ROWS
#define TILE_KEYS (VECTOR_TILE_KEYS / 2 * WORD_ELEMENTS) /* a tile has the same number of bytes in each variant */

_Static_assert(GROUP_ROWS % TILE_ROWS == 0 && TILE_KEYS % PANEL == 0 && WIDTH <= VECTOR_WIDTH, "tiles fit");

/* Not inlined. Within other functions, the compiler would not keep the sums in registers. */
static __attribute__((noinline)) void multiply_full_tile(const float *a, int64_t a_stride, int64_t depth,
                                                         const float *b, float *c, int64_t c_stride, bool add,
                                                         int64_t wide)
{
    multiply_rows(a, a_stride, depth, b, c, c_stride, add, TILE_ROWS, wide);
}

static __attribute__((noinline)) void multiply_row(const float *a, int64_t depth, const float *b, float *c, bool add,
                                                   int64_t wide)
{
    multiply_rows(a, 0, depth, b, c, 0, add, 1, wide);
}

/* c (rows, wide vectors) = a b, for at most GROUP_ROWS rows and one panel. If `add`, adds the product to c. If at most
 * TILE_ROWS / 2 rows remain at the end, they are computed one by one. If more rows remain, a whole tile is computed.
 * The additional rows of this tile are not used. */
static void multiply(int64_t rows, const float *a, int64_t a_stride, int64_t depth, const float *b, int64_t wide,
                     float *c, int64_t c_stride, bool add)
{
    int64_t r = 0;
    for (; rows - r > TILE_ROWS / 2; r += TILE_ROWS)
        multiply_full_tile(a + r * a_stride, a_stride, depth, b, c + r * c_stride, c_stride, add, wide);
    for (; r < rows; r++)
        multiply_row(a + r * a_stride, depth, b, c + r * c_stride, add, wide);
}

/* ---- Packing of keys and values ---- */

/* The packed form consists of panels of keys (d, PANEL keys), followed by panels of values (k, PANEL columns). All
 * elements are words (vector_words.h). */

void VARIANT(vector_pack_keys)(const struct vector_keys *keys, float *packed)
{
    int64_t key_columns = whole_vectors(keys->k), value_columns = whole_vectors(keys->dim_value);
    for (int64_t first = 0; first < key_columns; first += PANEL)
        pack_rows(keys->key_element, elements_at(keys->key_element, keys->keys, first * keys->key_stride),
                  keys->key_stride, least(PANEL, keys->k - first), keys->dim_head, least(PANEL, key_columns - first),
                  packed + words_of(keys->dim_head) * first);
    packed += words_of(keys->dim_head) * key_columns;
    for (int64_t first = 0; first < value_columns; first += PANEL)
        pack_columns(keys->value_element, elements_at(keys->value_element, keys->values, first), keys->value_stride,
                     keys->k, least(PANEL, keys->dim_value - first), least(PANEL, value_columns - first),
                     packed + words_of(keys->k) * first);
}

/* ---- The softmax, tile by tile ---- */

/* A group of rows, and its state between two tiles. */
struct group {
    const struct vector_attend *attend;
    int64_t first, rows; /* number of the first row in the block, and number of rows */
    int64_t room;        /* number of rows, rounded up to whole tiles of the product */
    int64_t seen;        /* number of keys that at least one of the rows reads */
    float *scores;       /* (GROUP_ROWS, TILE_KEYS). Exponentials replace the scores, as words */
    float *out;          /* (GROUP_ROWS, dim_room) */
    float *queries;      /* (GROUP_ROWS, dim_head), in words */
    int64_t dim_room;    /* dim_value rounded up to whole vectors */
    float maxima[GROUP_ROWS];
    vector sums[GROUP_ROWS]; /* sums of exponentials. The sum of a row is the sum over the elements of its vector */
};

/* scores (count) = scale * scores + mask, for the keys from `key` on. */
static void add_mask(const struct vector_attend *attend, int64_t row, int64_t key, int64_t count, float *scores)
{
    const struct vector_mask *mask = &attend->mask;
    int64_t first = row * mask->stride + key;
    for (int64_t j = 0; mask->floats && j < count; j++)
        scores[j] = attend->scale * scores[j] + mask->floats[first + j];
    for (int64_t j = 0; !mask->floats && j < count; j++)
        scores[j] = attend->scale * scores[j] + ((mask->bytes[first + j] != 0) == mask->byte ? mask->score : 0);
}

/* Multiplies by `factor` the results of row r that were computed with its old maximum: sum, output and softmax. */
static void scale_down(struct group *g, int64_t r, int64_t keys_before, float factor)
{
    const struct vector_attend *attend = g->attend;
    float *out = g->out + r * g->dim_room, *softmax = attend->softmax;
    g->sums[r] *= factor;
    for (int64_t i = 0; i < g->dim_room; i++)
        out[i] *= factor;
    if (!softmax || g->first + r >= attend->softmax_rows)
        return;
    softmax += (g->first + r) * (attend->k + attend->zero_keys);
    for (int64_t j = 0; j < keys_before; j++)
        softmax[j] *= factor;
}

/* The factor for scores in weigh. With a mask, it is 1, because add_mask has already scaled the scores. */
static float scale_of(const struct vector_attend *attend)
{
    return attend->mask.floats || attend->mask.bytes ? 1.0f : attend->scale;
}

/* Raises the row's maximum to the largest of the row's scores for the keys [key, key + count), if that is larger.
 * Scores of keys that the row does not read become -infinity. A NaN does not count as a maximum. Its exponential is a
 * NaN. */
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
    for (int64_t j = 0; j < room; j += WIDTH)
        largest = larger(load(scores + j), largest);
    largest = largest_across(largest);
    g->maxima[r] = largest[0];
    if (largest[0] == before || before == -INFINITY)
        return;
    vector factor = exp_bounded((before - largest) * scale_of(attend));
    scale_down(g, r, key, factor[0]);
}

/* exp(x), for x <= 0 or NaN. */
INLINE vector weight_of(vector x)
{
#ifdef __AVX512BF16__
    /* 2^n 2^f with |f| <= 1/2. A minimax polynomial of degree 4 gives 2^f within a relative error of 3.6e-6, which is
     * enough for a weight that is rounded to 8 bits. The rounding of x log2(e) adds another error. In total the error
     * is at most 6.5e-6 if the result is not subnormal, and at most 4e-6 if x >= -20. 2^-150 is 0 as a float. */
    vector t = larger(all(-150), x * 1.44269504088896341f);
    vector n = (vector)_mm512_roundscale_ps((__m512)t, _MM_FROUND_TO_NEAREST_INT), f = t - n;
    vector p = all(0.009570090100169182f);
    p = p * f + 0.05591785907745361f;
    p = p * f + 0.240247443318367f;
    p = p * f + 0.6931217908859253f;
    p = p * f + 0.9999992847442627f;
    return (vector)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    return exp_bounded(x);
#endif
}

void VARIANT(vector_weigh)(int64_t n, const float *x, float *y)
{
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        store(y + i, weight_of(load(x + i)));
    if (i < n)
        store_part(y + i, weight_of(load_part(x + i, n - i, 0)), n - i);
}

/* The row's scores become exp(scale * (score - maximum)), in words. The words need no more memory than the scores, so
 * they overwrite the scores. If a row has read no key yet, its maximum is -infinity. In this case, 0 is subtracted
 * instead, so that exp returns 0. */
static void weigh(struct group *g, int64_t r, int64_t key, int64_t count)
{
    const struct vector_attend *attend = g->attend;
    int64_t row = g->first + r, room = whole_vectors(count);
    float *scores = g->scores + r * TILE_KEYS, scale = scale_of(attend);
    float maximum = g->maxima[r] == -INFINITY ? 0 : g->maxima[r];
    vector sums = g->sums[r];
    float *softmax = attend->softmax && row < attend->softmax_rows
                         ? attend->softmax + row * (attend->k + attend->zero_keys) + key
                         : NULL;
    for (int64_t j = 0; j < room; j += WIDTH) {
        vector e = weight_of((load(scores + j) - maximum) * scale);
        store_words(scores + j / WORD_ELEMENTS, e);
        if (softmax)
            store_part(softmax + j, e, least(WIDTH, count - j));
        sums += e;
    }
    g->sums[r] = sums;
}

/* Divides the row's output and its softmax by the sum, and writes them. If a row reads no key, its output and its
 * softmax are NaN. */
static void finish_row(const struct group *g, int64_t r)
{
    const struct vector_attend *attend = g->attend;
    int64_t row = g->first + r, zeros = attend->causal ? 0 : attend->zero_keys;
    vector zero = exp_bounded(all(-g->maxima[r] * scale_of(attend))); /* the exponential of a key with score 0 */
    float sum = sum_across(g->sums[r]);
    float inverse = 1.0f / (zeros > 0 ? sum + (float)zeros * zero[0] : sum), *from = g->out + r * g->dim_room;
    void *out = element_room(attend->out_element, attend->out, row * attend->out_stride);
    for (int64_t i = 0; i < attend->dim_value; i += WIDTH)
        store_elements(attend->out_element, element_room(attend->out_element, out, i), load(from + i) * inverse,
                       least(WIDTH, attend->dim_value - i));
    if (!attend->softmax || row >= attend->softmax_rows)
        return;
    float *softmax = attend->softmax + row * (attend->k + attend->zero_keys);
    for (int64_t j = 0; j < attend->k; j++)
        softmax[j] = j < g->seen ? softmax[j] * inverse : 0;
    for (int64_t j = 0; j < attend->zero_keys; j++)
        softmax[attend->k + j] = zeros > 0 ? zero[0] * inverse : 0;
}

static void attend_group(struct group *g)
{
    const struct vector_attend *attend = g->attend;
    int64_t dim_words = words_of(attend->dim_head);
    const float *values = attend->packed + dim_words * whole_vectors(attend->k);
    for (int64_t key = 0; key < g->seen; key += TILE_KEYS) {
        int64_t count = least(TILE_KEYS, g->seen - key);
        for (int64_t j = 0; j < count; j += PANEL)
            multiply(g->rows, g->queries, dim_words, dim_words, attend->packed + (key + j) * dim_words,
                     least(PANEL, whole_vectors(attend->k) - key - j) / WIDTH, g->scores + j, TILE_KEYS, false);
        for (int64_t r = 0; r < g->rows; r++)
            raise_maximum(g, r, key, count);
        for (int64_t r = 0; r < g->rows; r++)
            weigh(g, r, key, count);
        for (int64_t i = 0; i < g->dim_room; i += PANEL) {
            int64_t width = least(PANEL, g->dim_room - i);
            multiply(g->rows, g->scores, TILE_KEYS, words_of(count),
                     values + i * words_of(attend->k) + key / WORD_ELEMENTS * width, width / WIDTH, g->out + i,
                     g->dim_room, true);
        }
    }
}

/* Starts a group of at most GROUP_ROWS rows of the block, beginning with row `first`. */
static void begin_group(struct group *g, int64_t first)
{
    const struct vector_attend *attend = g->attend;
    int64_t zeros = attend->causal ? 0 : attend->zero_keys, dim_words = words_of(attend->dim_head);
    g->first = first;
    g->rows = least(GROUP_ROWS, attend->rows - first);
    g->room = (g->rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    g->seen = attend->causal ? least(attend->k, attend->first_position + first + g->rows) : attend->k;
    for (int64_t r = 0; r < g->rows; r++) {
        copy_words(attend->query_element,
                   elements_at(attend->query_element, attend->queries, (first + r) * attend->query_stride),
                   attend->dim_head, g->queries + r * dim_words);
        g->maxima[r] = zeros > 0 ? 0 : -INFINITY;
        g->sums[r] = all(0);
    }
    memset(g->queries + g->rows * dim_words, 0, (size_t)((g->room - g->rows) * dim_words) * sizeof *g->queries);
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
