/* products: matrix products in float32 from a provider (OpenBLAS), cut into tiles whose shapes depend on the model and
 * on the item alone. The daemon's threads take tiles; a tile is computed by one thread. So a provider that gives the
 * same bits for the same shape makes results independent of the batch. */
#ifndef ENGINE_CPU_PRODUCTS_H
#define ENGINE_CPU_PRODUCTS_H

#include "engine/cpu/vector.h"

#define PRODUCTS_PANEL 256 /* columns of a linear tile */

struct products {
    void *library;
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    bool batch_invariant;
    char description[96]; /* "OpenBLAS 0.3.21 SkylakeX" */
};

/* Loads OpenBLAS with the kernels of the instruction set. It reads its choice from the environment as it is loaded, so
 * this sets OPENBLAS_CORETYPE: call it before other threads exist. Once loaded the choice stays, even after close. */
int products_open(enum instruction_set set, struct products *products, struct error *error);
void products_close(struct products *products);

/* y (PLAN_ROW_BLOCK, columns) = x (PLAN_ROW_BLOCK, depth) wᵀ, w (columns, depth). Strides in floats. */
void products_linear_tile(const struct products *products, int64_t columns, int64_t depth, const float *x,
                          int64_t x_stride, const float *w, float *y, int64_t y_stride);

/* c (m, n) = a b. a is (m, k), or (k, m) when transposed; b is (k, n), or (n, k). Strides in floats. Computed by the
 * calling thread. */
struct product {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t a_stride, b_stride, c_stride;
    bool transpose_a, transpose_b;
};
void products_multiply(const struct products *products, const struct product *product);

#endif
