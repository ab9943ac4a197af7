/* Arithmetic down the columns of a matrix. Sums are in double precision, so that many rows may be added up in order.
 * The compiler makes vectors of the inner loops, which run along a row. */
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
