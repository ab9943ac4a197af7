/* Compiled once for each instruction set, with VECTOR_VARIANT naming the table (avx512, avx2, baseline). Written in
 * GCC's vector extension: one source, no intrinsics. */
#include "engine/cpu/vector.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#define WIDE 4 /* vectors of a product's tile: 4 rows x WIDE accumulators fit the registers */
#elif defined(__AVX2__)
#define LANES 8
#define WIDE 2
#else
#define LANES 4
#define WIDE 2
#endif

#define ROWS 4 /* of a product's tile */

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef int32_t integers __attribute__((vector_size(4 * LANES)));
typedef uint32_t bits __attribute__((vector_size(4 * LANES)));

static inline vector load(const float *from)
{
    vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void store(float *to, vector v)
{
    memcpy(to, &v, sizeof v);
}

/* The last, incomplete vector of a row: the lanes beyond `count` are zero. */
static inline vector load_part(const float *from, int64_t count)
{
    vector v = {0};
    memcpy(&v, from, (size_t)count * sizeof(float));
    return v;
}

static inline void store_part(float *to, vector v, int64_t count)
{
    memcpy(to, &v, (size_t)count * sizeof(float));
}

static inline vector all(float x)
{
    return x - (vector){0};
}

static inline vector choose(integers mask, vector yes, vector no)
{
    return (vector)(((integers)yes & mask) | ((integers)no & ~mask));
}

static inline float sum_lanes(vector v)
{
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += v[i];
    return sum;
}

/* ---- Functions of one variable ---- */

/* exp(x) for x <= 0, within 2 ulp; 0 below -87.3 (no subnormals); NaN stays. x = n ln 2 + r, |r| <= ln 2 / 2; the
 * polynomial of degree 5 and the split of ln 2 are those of Cephes' expf. Adding 1.5 * 2^23 rounds to an integer and
 * leaves it in the low bits. */
static inline vector exp_negative(vector x)
{
    const float rounder = 12582912.0f;
    vector shifted = x * 1.44269504088896341f + rounder;
    vector n = shifted - rounder;
    vector r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    vector p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    vector scaled = (vector)((bits)p + ((bits)shifted << 23)); /* p * 2^n */
    return choose(x < -87.3f, all(0), choose(x == x, scaled, x));
}

/* erf(x) = x P(x²) / Q(x²), a minimax fit of degrees 5 and 5 on |x| <= 3.925, beyond which it is ±1 in float.
 * Relative error below 4e-7. */
static inline vector error_function(vector x)
{
    vector u = x * x;
    vector p = all(2.046033387159696e-06f);
    p = p * u + 0.0002848425356205553f;
    p = p * u + 0.003772508818656206f;
    p = p * u + 0.052769165486097336f;
    p = p * u + 0.19059281051158905f;
    p = p * u + 1.1283791065216064f;
    vector q = all(3.804778680205345e-05f);
    q = q * u + 0.0011638477444648743f;
    q = q * u + 0.01498311385512352f;
    q = q * u + 0.11418232321739197f;
    q = q * u + 0.5022411942481995f;
    q = q * u + 1.0f;
    return choose(x > 3.925f, all(1), choose(x < -3.925f, all(-1), x * p / q)); /* exactly ±1: x Φ(x) is 0 there */
}

static inline vector gelu_of(vector x)
{
    return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f));
}

/* ---- Rows ---- */

/* A NaN stays one. */
static inline vector relu_of(vector x)
{
    return choose(x < 0, all(0), x);
}

static inline vector activation_of(enum activation activation, vector x)
{
    if (activation == ACTIVATION_GELU)
        return gelu_of(x);
    return activation == ACTIVATION_RELU ? relu_of(x) : x;
}

static void activate(int64_t n, enum activation activation, const float *x, float *y)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(y + i, activation_of(activation, load(x + i)));
    if (i < n)
        store_part(y + i, activation_of(activation, load_part(x + i, n - i)), n - i);
}

static void add(int64_t n, const float *x, const float *z, float scale, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = scale * (x[i] + z[i]);
}

static inline vector finish(vector y, const float *bias, enum activation activation, const float *residual,
                            int64_t count)
{
    if (bias)
        y = y + load_part(bias, count);
    y = activation_of(activation, y);
    if (residual)
        y = y + load_part(residual, count);
    return y;
}

static void finish_linear(int64_t rows, int64_t columns, const float *x, const float *bias, enum activation activation,
                          const float *residual, int64_t residual_stride, float *y, int64_t y_stride)
{
    for (int64_t r = 0; r < rows; r++, x += columns, y += y_stride) {
        const float *z = residual ? residual + r * residual_stride : NULL;
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES)
            store(y + i, finish(load(x + i), bias ? bias + i : NULL, activation, z ? z + i : NULL, LANES));
        if (i < columns)
            store_part(y + i,
                       finish(load_part(x + i, columns - i), bias ? bias + i : NULL, activation, z ? z + i : NULL,
                              columns - i),
                       columns - i);
    }
}

static void to_bf16(int64_t n, const float *x, uint16_t *y)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, x + i, sizeof word);
        uint32_t rounded = (word + 0x7fff + (word >> 16 & 1)) >> 16, quiet = word >> 16 | 0x40;
        y[i] = (uint16_t)((word & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
    }
}

static float row_sum(int64_t n, const float *x)
{
    vector sums = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sums += load(x + i);
    float sum = sum_lanes(sums);
    for (; i < n; i++)
        sum += x[i];
    return sum;
}

static float row_square_distance(int64_t n, const float *x, float mean)
{
    vector sums = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vector d = load(x + i) - mean;
        sums += d * d;
    }
    float sum = sum_lanes(sums);
    for (; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

static void layer_norm(int64_t rows, int64_t columns, const float *x, const float *gain, const float *bias,
                       float epsilon, float *y)
{
    for (int64_t r = 0; r < rows; r++, x += columns, y += columns) {
        float mean = row_sum(columns, x) / (float)columns;
        float variance = row_square_distance(columns, x, mean) / (float)columns;
        float scale = 1.0f / sqrtf(variance + epsilon);
        for (int64_t i = 0; i < columns; i++)
            y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
    }
}

/* The largest element; NaNs are passed over, softmax's exp brings them back. */
static float row_maximum(int64_t n, const float *x)
{
    vector largest = all(-INFINITY);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vector v = load(x + i);
        largest = choose(v > largest, v, largest);
    }
    float maximum = -INFINITY;
    for (int lane = 0; lane < LANES; lane++)
        maximum = largest[lane] > maximum ? largest[lane] : maximum;
    for (; i < n; i++)
        maximum = x[i] > maximum ? x[i] : maximum;
    return maximum;
}

/* x = exp(scale * (x - maximum)); returns the sum. */
static float row_exp(int64_t n, float scale, float maximum, float *x)
{
    vector sums = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vector e = exp_negative((load(x + i) - maximum) * scale);
        store(x + i, e);
        sums += e;
    }
    float sum = sum_lanes(sums);
    if (i < n) {
        vector e = exp_negative((load_part(x + i, n - i) - maximum) * scale);
        store_part(x + i, e, n - i);
        for (int lane = 0; lane < n - i; lane++)
            sum += e[lane];
    }
    return sum;
}

/* Divides by the sum, `zeros` further elements of value 0 included. Returns what each of these becomes. */
static inline float softmax_row(int64_t n, int64_t zeros, float scale, float *x)
{
    float maximum = row_maximum(n, x);
    if (zeros > 0 && maximum < 0)
        maximum = 0;
    float sum = row_exp(n, scale, maximum, x), zero = 0;
    if (zeros > 0) {
        vector e = exp_negative(all(-maximum * scale));
        zero = e[0];
        sum += (float)zeros * zero;
    }
    float inverse = 1.0f / sum;
    for (int64_t i = 0; i < n; i++)
        x[i] *= inverse;
    return zero * inverse;
}

static void softmax(int64_t n, float scale, float *x)
{
    softmax_row(n, 0, scale, x);
}

/* ---- Attention: two small products around a softmax, four rows at a time ---- */

/* c[r] = a[r] b for ROWS rows: a[r] has `depth` floats, b is (depth, columns) with columns a multiple of LANES. */
static inline __attribute__((always_inline)) void product_tile(const float *const a[ROWS], int64_t depth,
                                                               const float *b, int64_t columns, float *c,
                                                               int64_t c_stride, int wide)
{
    vector sums[ROWS][WIDE] = {{{0}}};
    for (int64_t t = 0; t < depth; t++) {
#pragma GCC unroll 4
        for (int w = 0; w < wide; w++) {
            vector bt = load(b + t * columns + w * LANES);
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++)
                sums[r][w] += a[r][t] * bt;
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int w = 0; w < wide; w++)
            store(c + r * c_stride + w * LANES, sums[r][w]);
}

static void product(const float *const a[ROWS], int64_t depth, const float *b, int64_t columns, float *c,
                    int64_t c_stride)
{
    int64_t i = 0;
    for (; i + WIDE * LANES <= columns; i += WIDE * LANES)
        product_tile(a, depth, b + i, columns, c + i, c_stride, WIDE);
    for (; i < columns; i += LANES)
        product_tile(a, depth, b + i, columns, c + i, c_stride, 1);
}

static int64_t whole_vectors(int64_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

/* (k, dim_head) -> (dim_head, k_room), what is beyond k zero. */
static void transpose_keys(const struct vector_attend *attend, int64_t k_room, float *transposed)
{
    for (int64_t d = 0; d < attend->dim_head; d++)
        for (int64_t j = attend->k; j < k_room; j++)
            transposed[d * k_room + j] = 0;
    for (int64_t j = 0; j < attend->k; j++)
        for (int64_t d = 0; d < attend->dim_head; d++)
            transposed[d * k_room + j] = attend->keys[j * attend->key_stride + d];
}

static void copy_values(const struct vector_attend *attend, int64_t dim_room, float *values)
{
    for (int64_t j = 0; j < attend->k; j++, values += dim_room) {
        memcpy(values, attend->values + j * attend->value_stride, (size_t)attend->dim_value * sizeof *values);
        for (int64_t d = attend->dim_value; d < dim_room; d++)
            values[d] = 0;
    }
}

/* scores = scale * scores + mask */
static void add_mask(const struct vector_attend *attend, int64_t row, float *scores)
{
    const struct vector_mask *mask = &attend->mask;
    for (int64_t j = 0; j < attend->k; j++) {
        float added = mask->floats                                               ? mask->floats[row * mask->stride + j]
                      : (mask->bytes[row * mask->stride + j] != 0) == mask->byte ? mask->score
                                                                                 : 0;
        scores[j] = attend->scale * scores[j] + added;
    }
}

/* The softmax of the block's row, over the keys that it sees; the others get 0. */
static void attend_softmax(const struct vector_attend *attend, int64_t row, float *scores)
{
    int64_t seen = attend->k, zeros = attend->causal ? 0 : attend->zero_keys;
    if (attend->causal && attend->first_position + row + 1 < seen)
        seen = attend->first_position + row + 1;
    bool masked = attend->mask.floats || attend->mask.bytes;
    if (masked)
        add_mask(attend, row, scores);
    float zero = softmax_row(seen, zeros, masked ? 1.0f : attend->scale, scores);
    for (int64_t j = seen; j < attend->k; j++)
        scores[j] = 0;
    if (!attend->weights || row >= attend->weights_rows)
        return;
    float *weights = attend->weights + row * (attend->k + attend->zero_keys);
    memcpy(weights, scores, (size_t)attend->k * sizeof *weights);
    for (int64_t j = 0; j < attend->zero_keys; j++)
        weights[attend->k + j] = zero;
}

static void attend(const struct vector_attend *attend)
{
    int64_t k_room = whole_vectors(attend->k), dim_room = whole_vectors(attend->dim_value);
    float *keys = attend->scratch, *values = keys + attend->dim_head * k_room;
    float *scores = values + attend->k * dim_room, *out = scores + ROWS * k_room;
    transpose_keys(attend, k_room, keys);
    copy_values(attend, dim_room, values);
    for (int64_t first = 0; first < attend->rows; first += ROWS) {
        const float *queries[ROWS], *weights[ROWS];
        int64_t rows = attend->rows - first < ROWS ? attend->rows - first : ROWS;
        for (int r = 0; r < ROWS; r++) { /* beyond the last row, it again */
            int64_t row = r < rows ? first + r : attend->rows - 1;
            queries[r] = attend->queries + row * attend->query_stride;
            weights[r] = scores + r * k_room;
        }
        product(queries, attend->dim_head, keys, k_room, scores, k_room);
        for (int r = 0; r < rows; r++)
            attend_softmax(attend, first + r, scores + r * k_room);
        product(weights, attend->k, values, dim_room, out, dim_room);
        for (int r = 0; r < rows; r++)
            memcpy(attend->out + (first + r) * attend->out_stride, out + r * dim_room,
                   (size_t)attend->dim_value * sizeof *out);
    }
}

#define TABLE_NAME_OF(variant) vector_##variant
#define TABLE_NAME(variant) TABLE_NAME_OF(variant)
#define TEXT_OF(variant) #variant
#define TEXT(variant) TEXT_OF(variant)

extern const struct vector_functions TABLE_NAME(VECTOR_VARIANT);
const struct vector_functions TABLE_NAME(VECTOR_VARIANT) = {
    .name = TEXT(VECTOR_VARIANT),
    .layer_norm = layer_norm,
    .activate = activate,
    .add = add,
    .finish_linear = finish_linear,
    .to_bf16 = to_bf16,
    .softmax = softmax,
    .attend = attend,
};
