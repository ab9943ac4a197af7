/* Arithmetic on rows: norms, activations, softmax. vector_type.h describes how this file is compiled. vector.h states
 * the rounding errors. */
#include "engine/cpu/vector_activate.h"
#include "engine/cpu/vector_words.h"

/* ---- Sines ---- */

/* Angles are reduced in double precision, because a float has few digits after the point for angles of long
 * sequences. */

#define LARGEST_ANGLE 4194304.0f /* in radians. The C library computes the sines of larger angles */

typedef double doubles __attribute__((vector_size(8 * WIDTH)));
typedef int64_t long_integers __attribute__((vector_size(8 * WIDTH)));

/* angle = r + q π/2 with |r| <= π/4. Adding 1.5 * 2^52 rounds angle / (π/2) to the integer q, which the low bits then
 * contain. */
INLINE vector reduce_angle(vector angle, integers *q)
{
    const double rounder = 6755399441055744.0;
    doubles exact = __builtin_convertvector(angle, doubles), shifted = exact * 0.63661977236758134 + rounder;
    *q = __builtin_convertvector((long_integers)shifted, integers);
    return __builtin_convertvector(exact - (shifted - rounder) * 1.57079632679489662, vector);
}

/* Sine and cosine for |angle| <= LARGEST_ANGLE. The error is at most 1.2e-7. The polynomials are those of Cephes' sinf
 * and cosf. */
INLINE void sine_and_cosine(vector angle, vector *sine, vector *cosine)
{
    integers q, swap;
    vector r = reduce_angle(angle, &q), z = r * r;
    vector s = ((z * -1.9515295891e-4f + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    vector c =
        ((z * 2.443315711809948e-5f - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
    swap = (q & 1) != 0;
    *sine = (vector)((((integers)c & swap) | ((integers)s & ~swap)) ^ (integers)((bits)(q & 2) << 30));
    *cosine = (vector)((((integers)s & swap) | ((integers)c & ~swap)) ^ (integers)((bits)((q + 1) & 2) << 30));
}

static void add_sinusoids(int64_t half, float position, const float *frequencies, const float *x, float *y)
{
    int64_t i = 0;
    for (; i + WIDTH <= half; i += WIDTH) {
        vector sine, cosine, angle = position * load(frequencies + i);
        vector size = largest_across(larger((vector)((bits)angle & 0x7fffffff), all(0)));
        if (size[0] > LARGEST_ANGLE)
            break;
        sine_and_cosine(angle, &sine, &cosine);
        store(y + i, sine + load(x + i));
        store(y + half + i, cosine + load(x + half + i));
    }
    for (; i < half; i++) {
        float angle = position * frequencies[i];
        y[i] = sinf(angle) + x[i];
        y[half + i] = cosf(angle) + x[half + i];
    }
}

/* ---- Rows ---- */

static void activate(int64_t n, struct plan_activation activation, const float *x, float *y)
{
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        store(y + i, activation_of(activation, load(x + i)));
    if (i < n)
        store_part(y + i, activation_of(activation, load_part(x + i, n - i, 0)), n - i);
}

static void add(int64_t n, const float *x, const float *z, float scale, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = scale * (x[i] + z[i]);
}

INLINE vector finish(vector y, const float *bias, struct plan_activation activation, const float *residual,
                     int64_t count)
{
    if (bias)
        y = y + load_part(bias, count, 0);
    y = activation_of(activation, y);
    if (residual)
        y = y + load_part(residual, count, 0);
    return y;
}

INLINE void finish_linear_as(const struct vector_finish *f, enum element element)
{
    const float *x = f->x;
    for (int64_t r = 0; r < f->rows; r++, x += f->x_stride) {
        const float *z = f->residual ? f->residual + r * f->residual_stride : NULL, *bias = f->bias;
        void *y = element_room(element, f->y, r * f->y_stride);
        int64_t i = 0, left = f->columns % WIDTH;
        for (; i + WIDTH <= f->columns; i += WIDTH)
            store_elements(element, element_room(element, y, i),
                           finish(load(x + i), bias ? bias + i : NULL, f->activation, z ? z + i : NULL, WIDTH), WIDTH);
        if (left > 0)
            store_elements(
                element, element_room(element, y, i),
                finish(load_part(x + i, left, 0), bias ? bias + i : NULL, f->activation, z ? z + i : NULL, left), left);
    }
}

static void finish_linear(const struct vector_finish *finish)
{
    if (finish->y_element == ELEMENT_F32)
        finish_linear_as(finish, ELEMENT_F32);
    else
        finish_linear_as(finish, ELEMENT_BF16);
}

static void to_bf16(int64_t n, const float *x, uint16_t *y)
{
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        store_elements(ELEMENT_BF16, y + i, load(x + i), WIDTH);
    if (i < n)
        store_elements(ELEMENT_BF16, y + i, load_part(x + i, n - i, 0), n - i);
}

/* Computes four sums at a time, so that an addition need not wait for the previous addition. The order is always the
 * same. */
INLINE float row_sum(int64_t n, const float *x)
{
    vector sums[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * WIDTH <= n; i += 4 * WIDTH)
#pragma GCC unroll 4
        for (int s = 0; s < 4; s++)
            sums[s] += load(x + i + s * WIDTH);
    for (; i + WIDTH <= n; i += WIDTH)
        sums[0] += load(x + i);
    if (i < n)
        sums[1] += load_part(x + i, n - i, 0);
    return sum_across((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* The sum of (x - mean)². */
INLINE float row_square_distance(int64_t n, const float *x, float mean)
{
    vector sums[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * WIDTH <= n; i += 4 * WIDTH)
#pragma GCC unroll 4
        for (int s = 0; s < 4; s++) {
            vector d = load(x + i + s * WIDTH) - mean;
            sums[s] += d * d;
        }
    for (; i + WIDTH <= n; i += WIDTH) {
        vector d = load(x + i) - mean;
        sums[0] += d * d;
    }
    if (i < n) {
        vector d = load_part(x + i, n - i, mean) - mean;
        sums[1] += d * d;
    }
    return sum_across((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

INLINE void layer_norm_as(int64_t rows, int64_t columns, const float *x, const float *gain, const float *bias,
                          float epsilon, enum element element, void *y)
{
    for (int64_t r = 0; r < rows; r++, x += columns, y = element_room(element, y, columns)) {
        float mean = row_sum(columns, x) / (float)columns;
        float variance = row_square_distance(columns, x, mean) / (float)columns;
        float scale = 1.0f / sqrtf(variance + epsilon);
        int64_t i = 0;
        for (; i + WIDTH <= columns; i += WIDTH)
            store_elements(element, element_room(element, y, i),
                           (load(x + i) - mean) * scale * load(gain + i) + load(bias + i), WIDTH);
        if (i < columns)
            store_elements(element, element_room(element, y, i),
                           (load_part(x + i, columns - i, mean) - mean) * scale * load_part(gain + i, columns - i, 0) +
                               load_part(bias + i, columns - i, 0),
                           columns - i);
    }
}

static void layer_norm(int64_t rows, int64_t columns, const float *x, const float *gain, const float *bias,
                       float epsilon, enum element y_element, void *y)
{
    if (y_element == ELEMENT_F32)
        layer_norm_as(rows, columns, x, gain, bias, epsilon, ELEMENT_F32, y);
    else
        layer_norm_as(rows, columns, x, gain, bias, epsilon, ELEMENT_BF16, y);
}

/* The largest number of the row. NaNs are skipped. In the softmax, their exponentials make all results NaN. */
INLINE float row_maximum(int64_t n, const float *x)
{
    vector largest = all(-INFINITY);
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        largest = larger(load(x + i), largest);
    if (i < n)
        largest = larger(load_part(x + i, n - i, -INFINITY), largest);
    largest = largest_across(largest);
    return largest[0];
}

static void softmax(int64_t n, float scale, float *x)
{
    float maximum = row_maximum(n, x);
    vector sums = {0};
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        vector e = exp_bounded((load(x + i) - maximum) * scale);
        store(x + i, e);
        sums += e;
    }
    if (i < n) {
        vector e = exp_bounded((load_part(x + i, n - i, -INFINITY) - maximum) * scale);
        store_part(x + i, e, n - i);
        sums += e;
    }
    float inverse = 1.0f / sum_across(sums);
    for (i = 0; i + WIDTH <= n; i += WIDTH)
        store(x + i, load(x + i) * inverse);
    for (; i < n; i++)
        x[i] *= inverse;
}

/* Number of elements that are summed up in floats. The sums of such blocks are added in double. */
#define LOG_SUM_BLOCK 512

/* The sum of exp(x - maximum) over n elements. n is at most LOG_SUM_BLOCK. */
INLINE float sum_of_exponentials(int64_t n, const float *x, float maximum)
{
    vector sums = {0};
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        sums += exp_bounded(load(x + i) - maximum);
    if (i < n)
        sums += exp_bounded(load_part(x + i, n - i, -INFINITY) - maximum);
    return sum_across(sums);
}

static double log_sum(int64_t n, const float *x)
{
    float maximum = row_maximum(n, x);
    double sum = 0;
    for (int64_t i = 0; i < n; i += LOG_SUM_BLOCK)
        sum += (double)sum_of_exponentials(n - i < LOG_SUM_BLOCK ? n - i : LOG_SUM_BLOCK, x + i, maximum);
    return (double)maximum + log(sum);
}

static void exp_rows(int64_t rows, int64_t columns, const float *x, int64_t x_stride, const float *z, float *y)
{
    for (int64_t r = 0; r < rows; r++, x += x_stride, y += columns) {
        int64_t i = 0;
        for (; i + WIDTH <= columns; i += WIDTH)
            store(y + i, exp_of(load(x + i) - load(z + i)));
        if (i < columns)
            store_part(y + i, exp_of(load_part(x + i, columns - i, 0) - load_part(z + i, columns - i, 0)), columns - i);
    }
}

static void maximum_rows(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *y)
{
    for (int64_t r = 0; r < rows; r++, x += x_stride) {
        int64_t i = 0;
        for (; i + WIDTH <= columns; i += WIDTH)
            store(y + i, larger(load(x + i), load(y + i)));
        for (; i < columns; i++)
            y[i] = x[i] > y[i] ? x[i] : y[i];
    }
}

static void sum_rows(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *y)
{
    for (int64_t r = 0; r < rows; r++, x += x_stride)
        add(columns, x, y, 1.0f, y);
}

#define TEXT_OF(variant) #variant
#define TEXT(variant) TEXT_OF(variant)

const struct vector_functions VARIANT(vector) = {
    .name = TEXT(VECTOR_VARIANT),
    .layer_norm = layer_norm,
    .activate = activate,
    .add = add,
    .combine = VARIANT(vector_combine),
    .select = VARIANT(vector_select),
    .finish_linear = finish_linear,
    .to_bf16 = to_bf16,
    .softmax = softmax,
    .log_sum = log_sum,
    .add_sinusoids = add_sinusoids,
    .exp_rows = exp_rows,
    .maximum_rows = maximum_rows,
    .sum_rows = sum_rows,
    .sum_columns = VARIANT(vector_sum_columns),
    .convolve_channels = VARIANT(vector_convolve_channels),
    .step_context = VARIANT(vector_step_context),
    .reduce = VARIANT(vector_reduce),
    .normalise_rows = VARIANT(vector_normalise_rows),
    .pack_keys = VARIANT(vector_pack_keys),
    .attend = VARIANT(vector_attend),
    .weigh = VARIANT(vector_weigh),
#ifdef __AVX512BF16__
    .to_words = VARIANT(vector_to_words),
    .pack_weight = VARIANT(vector_pack_weight),
    .linear = VARIANT(vector_linear),
    .project = VARIANT(vector_project),
#endif
};
