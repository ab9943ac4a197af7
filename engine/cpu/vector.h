/* vector: the arithmetic that is not a matrix product, for one instruction set. vector.c is compiled once for each;
 * vector_functions_of picks what the processor has. Sums have a fixed order per row, so a row's result does not depend
 * on the rows beside it. Any thread; no state. Pointers need no alignment. */
#ifndef ENGINE_CPU_VECTOR_H
#define ENGINE_CPU_VECTOR_H

#include "engine/plan.h"

#include <stdint.h>

/* What an attention mask adds to a row block's scores, a row every `stride` elements. Both NULL: nothing. */
struct vector_mask {
    const float *floats;
    const uint8_t *bytes; /* adds `score` where (*bytes != 0) == byte */
    int64_t stride;
    bool byte;
    float score;
};

/* A head's keys and values, in the places that the engine has them. */
struct vector_keys {
    int64_t k, dim_head, dim_value;
    const float *keys; /* k x dim_head, a row every key_stride floats */
    int64_t key_stride;
    const float *values; /* k x dim_value */
    int64_t value_stride;
};

/* One head of a row block: out[r] = softmax(scale * queries[r] keysᵀ + mask[r]) values; scale >= 0. */
struct vector_attend {
    int64_t rows, k, dim_head, dim_value;
    const float *queries; /* rows x dim_head, a row every query_stride floats */
    int64_t query_stride;
    const float *packed; /* the keys and values, from pack_keys of the same set */
    float scale;
    struct vector_mask mask;
    bool causal;            /* the row at position p sees the keys 0 … p */
    int64_t first_position; /* of rows[0]; causal only */
    int64_t zero_keys;      /* so many further keys have score 0 and value 0; none of them is seen when causal */
    float *out;             /* rows x dim_value, a row every out_stride floats */
    int64_t out_stride;
    float *weights;       /* weights_rows x (k + zero_keys), the softmax's; NULL: not wanted */
    int64_t weights_rows; /* the first rows; those beyond are padding */
    float *scratch;       /* vector_attend_scratch floats */
};

struct vector_functions {
    const char *name;

    /* y[r] = (x[r] - mean) / sqrt(variance + epsilon) * gain + bias, the variance over `columns` (not columns - 1) */
    void (*layer_norm)(int64_t rows, int64_t columns, const float *x, const float *gain, const float *bias,
                       float epsilon, float *y);

    /* y = activation(x); GELU, x Φ(x), is within 4e-7 |x|, its erf within a relative error of 4e-7. In place is fine.
     */
    void (*activate)(int64_t n, enum activation activation, const float *x, float *y);

    /* y = scale * (x + z) */
    void (*add)(int64_t n, const float *x, const float *z, float scale, float *y);

    /* After a product: y[r] = activation(x[r] + bias) + residual[r]; bias and residual may be NULL. x is dense. */
    void (*finish_linear)(int64_t rows, int64_t columns, const float *x, const float *bias, enum activation activation,
                          const float *residual, int64_t residual_stride, float *y, int64_t y_stride);

    /* y = x as bf16, to the nearest, ties to even; a NaN stays one. */
    void (*to_bf16)(int64_t n, const float *x, uint16_t *y);

    /* x = softmax(scale * x), exp within 2 ulp; scale >= 0. Any NaN makes all of it NaN. */
    void (*softmax)(int64_t n, float scale, float *x);

    /* y = x + (sin(position * frequencies), cos(position * frequencies)), products in float; sines 1.2e-7 off at most.
     */
    void (*add_sinusoids)(int64_t half, float position, const float *frequencies, const float *x, float *y);

    /* y[r] = exp(x[r] - z): within 2 ulp; 0 below -87.3365, so no subnormals; infinity from 88.7229 on; NaN stays. x
     * has a row every x_stride floats, y every `columns`. */
    void (*exp_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, const float *z, float *y);

    /* y = the largest of y and all x[r]; NaNs in x are passed over. And y += the sum of all x[r], one by one. */
    void (*maximum_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *y);
    void (*sum_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *y);

    /* Brings keys and values into the order that attend reads them in: once for all row blocks that look at them. */
    void (*pack_keys)(const struct vector_keys *keys, float *packed);
    void (*attend)(const struct vector_attend *attend);
};

enum instruction_set { SET_BASELINE, SET_AVX2, SET_AVX512, SET_COUNT }; /* x86-64-v3 and -v4; each holds those before */

/* The best set that the processor has, or the one named ("auto", "avx512", "avx2", "baseline"). -1: it has it not. */
int instruction_set_choose(const char *name, enum instruction_set *set, struct error *error);

/* Whether it multiplies pairs of bf16. */
bool cpu_has_bf16(void);

const struct vector_functions *vector_functions_of(enum instruction_set set); /* NULL: not in this build */

/* Floats; enough for any set. */
int64_t vector_packed_keys(int64_t k, int64_t dim_head, int64_t dim_value);
int64_t vector_attend_scratch(int64_t dim_head, int64_t dim_value);

#define VECTOR_LANES 16      /* of the widest set */
#define VECTOR_GROUP_ROWS 24 /* whose scores of VECTOR_TILE_KEYS keys stand in attend's scratch at a time */
#define VECTOR_TILE_KEYS 128

#endif
