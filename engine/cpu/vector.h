/* vector: the arithmetic that is not a matrix product, for one instruction set. vector.c is compiled once for each;
 * vector_choose picks what the processor has. Sums have a fixed order per row, so a row's result does not depend on
 * the rows beside it. Any thread; no state. Pointers need no alignment. */
#ifndef ENGINE_CPU_VECTOR_H
#define ENGINE_CPU_VECTOR_H

#include "engine/plan.h"

#include <stdint.h>

/* One head of a row block: out[r] = softmax(scale * queries[r] keysᵀ) values. */
struct vector_attend {
    int64_t rows, k, dim_head;
    const float *queries; /* rows x dim_head, a row every query_stride floats */
    int64_t query_stride;
    const float *keys, *values; /* k x dim_head, a row every key_stride floats */
    int64_t key_stride;
    float scale;
    float *out; /* rows x dim_head, a row every out_stride floats */
    int64_t out_stride;
    float *scratch; /* vector_attend_scratch(k, dim_head) floats */
};

struct vector_functions {
    const char *name;

    /* y[r] = (x[r] - mean) / sqrt(variance + epsilon) * gain + bias, the variance over `columns` (not columns - 1) */
    void (*layer_norm)(int64_t rows, int64_t columns, const float *x, const float *gain, const float *bias,
                       float epsilon, float *y);

    /* y = x Φ(x); relative error of erf below 4e-7. In place is fine. */
    void (*gelu)(int64_t n, const float *x, float *y);

    /* y = scale * (x + z) */
    void (*add)(int64_t n, const float *x, const float *z, float scale, float *y);

    /* After a product: y[r] = activation(y[r] + bias) + residual[r]; bias and residual may be NULL. */
    void (*finish_linear)(int64_t rows, int64_t columns, float *y, int64_t y_stride, const float *bias,
                          enum activation activation, const float *residual, int64_t residual_stride);

    /* x = softmax(scale * x), exp within 2 ulp. Any NaN makes all of it NaN. */
    void (*softmax)(int64_t n, float scale, float *x);

    void (*attend)(const struct vector_attend *attend);
};

extern const struct vector_functions vector_baseline, vector_avx2, vector_avx512;

const struct vector_functions *vector_choose(void);

int64_t vector_attend_scratch(int64_t k, int64_t dim_head);

#endif
