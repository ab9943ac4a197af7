/* Arithmetic along the columns of a matrix. Sums are in double precision, so that many rows can be added in order
 * without losing digits. The inner loops run along a row, and the compiler vectorises them. */
#include "engine/cpu/vector_type.h"

void VARIANT(vector_sum_columns)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, const float *mean,
                                 double *restrict y)
{
    for (int64_t r = 0; r < rows; r++, x += x_stride) {
        for (int64_t c = 0; !mean && c < columns; c++)
            y[c] += (double)x[c];
        for (int64_t c = 0; mean && c < columns; c++) {
            double distance = (double)(x[c] - mean[c]);
            y[c] += distance * distance;
        }
    }
}

void VARIANT(vector_normalise_rows)(int64_t rows, int64_t columns, const float *x, int64_t stride, const float *mean,
                                    const float *factor, const float *bias, float *restrict y)
{
    for (int64_t r = 0; r < rows; r++, x += stride, y += stride) {
        for (int64_t c = 0; !bias && c < columns; c++)
            y[c] = (x[c] - mean[c]) * factor[c];
        for (int64_t c = 0; bias && c < columns; c++)
            y[c] = (x[c] - mean[c]) * factor[c] + bias[c];
    }
}

/* Computes columns [c, c + N * WIDTH) for all taps. The sums are in N registers. */
#define CONVOLVE_VECTORS(N)                                                         \
    for (; c + (N)*WIDTH <= columns; c += (N)*WIDTH) {                              \
        vector sums[N];                                                             \
        for (int i = 0; i < (N); i++)                                               \
            sums[i] = bias ? load(bias + c + i * WIDTH) : all(0);                   \
        for (int64_t t = 0; t < taps; t++)                                          \
            for (int i = 0; i < (N); i++)                                           \
                sums[i] += load(x[t] + c + i * WIDTH) * load(w[t] + c + i * WIDTH); \
        for (int i = 0; i < (N); i++)                                               \
            store(y + c + i * WIDTH, scale * sums[i]);                              \
    }

void VARIANT(vector_convolve_channels)(int64_t taps, int64_t columns, const float *const *x, const float *const *w,
                                       const float *bias, float scale, float *y)
{
    int64_t c = 0;
    CONVOLVE_VECTORS(4)
    CONVOLVE_VECTORS(1)
    if (c < columns) {
        int64_t count = columns - c;
        vector sum = bias ? load_part(bias + c, count, 0) : all(0);
        for (int64_t t = 0; t < taps; t++)
            sum += load_part(x[t] + c, count, 0) * load_part(w[t] + c, count, 0);
        store_part(y + c, scale * sum, count);
    }
}

static void reduce_norm(float order, int64_t n, const float *x, double *restrict y)
{
    if (order == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] += fabs((double)x[i]);
    else if (order == 2)
        for (int64_t i = 0; i < n; i++)
            y[i] += (double)x[i] * (double)x[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = fabs((double)x[i]) > y[i] || x[i] != x[i] ? fabs((double)x[i]) : y[i];
}

static void reduce_argmax(const struct vector_reduction *reduction, int64_t n, const float *x, double *y)
{
    for (int64_t i = 0; i < n; i++) {
        bool new_maximum = (double)x[i] > y[i] || (x[i] != x[i] && y[i] == y[i]);
        y[i] = new_maximum ? (double)x[i] : y[i];
        reduction->places[i] = new_maximum ? (double)(reduction->place + i * reduction->step) : reduction->places[i];
    }
}

static void reduce_deviation(const double *mean, int64_t n, const float *x, double *restrict y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += ((double)x[i] - mean[i]) * ((double)x[i] - mean[i]);
}

void VARIANT(vector_reduce)(const struct vector_reduction *reduction, int64_t n, const float *x, double *restrict y)
{
    switch (reduction->reduction) {
    case REDUCTION_SUM:
    case REDUCTION_MEAN:
    case REDUCTION_CUMULATE:
        for (int64_t i = 0; i < n; i++)
            y[i] += (double)x[i];
        return;
    case REDUCTION_PRODUCT:
        for (int64_t i = 0; i < n; i++)
            y[i] *= (double)x[i];
        return;
    case REDUCTION_MAXIMUM:
        for (int64_t i = 0; i < n; i++)
            y[i] = (double)x[i] > y[i] || x[i] != x[i] ? (double)x[i] : y[i];
        return;
    case REDUCTION_MINIMUM:
        for (int64_t i = 0; i < n; i++)
            y[i] = (double)x[i] < y[i] || x[i] != x[i] ? (double)x[i] : y[i];
        return;
    case REDUCTION_NORM:
        reduce_norm(reduction->order, n, x, y);
        return;
    case REDUCTION_VARIANCE:
    case REDUCTION_DEVIATION:
        reduce_deviation(reduction->mean, n, x, y);
        return;
    case REDUCTION_ARGMAX:
        reduce_argmax(reduction, n, x, y);
        return;
    case REDUCTION_COUNT:
        return;
    }
}

/* Processes N * WIDTH columns of all rows of a context. Adds powers[i] * value to row i, and sets y to the sum of
 * query[i] times row i over all rows. */
#define CONTEXT_VECTORS(N)                                                                 \
    for (; c + (N)*WIDTH <= columns; c += (N)*WIDTH) {                                     \
        vector sums[N], added[N];                                                          \
        for (int j = 0; j < (N); j++) {                                                    \
            sums[j] = all(0);                                                              \
            added[j] = powers ? load(value + c + j * WIDTH) : all(0);                      \
        }                                                                                  \
        for (int64_t i = 0; i < rows; i++) {                                               \
            float *row = context + i * columns + c;                                        \
            for (int j = 0; j < (N); j++) {                                                \
                vector x = load(row + j * WIDTH);                                          \
                if (powers)                                                                \
                    store(row + j * WIDTH, x = multiply_add(all(powers[i]), added[j], x)); \
                if (query)                                                                 \
                    sums[j] = multiply_add(all(query[i]), x, sums[j]);                     \
            }                                                                              \
        }                                                                                  \
        for (int j = 0; query && j < (N); j++)                                             \
            store(y + c + j * WIDTH, sums[j]);                                             \
    }

void VARIANT(vector_step_context)(int64_t rows, int64_t columns, const float *query, const float *powers,
                                  const float *value, float *context, float *y)
{
    int64_t c = 0;
    CONTEXT_VECTORS(4)
    CONTEXT_VECTORS(1)
    for (; c < columns; c++) {
        float sum = 0;
        for (int64_t i = 0; i < rows; i++) {
            float *x = context + i * columns + c;
            if (powers)
                *x += powers[i] * value[c];
            if (query)
                sum += query[i] * *x;
        }
        if (query)
            y[c] = sum;
    }
}
