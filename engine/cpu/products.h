/* products: matrix products in float32, cut into tiles whose shapes depend on the model and on the item alone. The
 * daemon's threads take tiles; a tile is computed by one thread, at the same bits wherever it lies. So results don't
 * depend on the batch.
 *
 * OpenBLAS computes them all, unless oneDNN is there for those with weights: it keeps these packed, and has kernels for
 * AVX-512 alone that don't depend on the number of rows. products_open succeeded: products_close is owed, after all
 * weights of it are freed. */
#ifndef ENGINE_CPU_PRODUCTS_H
#define ENGINE_CPU_PRODUCTS_H

#include "engine/cpu/vector.h"

#define PRODUCTS_PANEL 256 /* columns of a linear tile */

struct onednn; /* products_onednn.h */

struct products {
    void *library;
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    struct onednn *onednn; /* NULL: OpenBLAS computes linear tiles, too */
    int threads;
    bool bf16; /* linear tiles multiply bf16 by bf16 and add in float32 */
    bool batch_invariant;
    char description[160]; /* "OpenBLAS 0.3.21 SkylakeX, oneDNN 2.6.3" */
};

/* Loads OpenBLAS with the kernels of the instruction set, and oneDNN. OpenBLAS reads its choice from the environment as
 * it is loaded, so this sets OPENBLAS_CORETYPE: call it before other threads exist. Once loaded the choice stays, even
 * after close. `provider`: "auto" (also NULL), "openblas" or "onednn". -1: a library that is needed is not there. */
int products_open(enum instruction_set set, const char *provider, bool bf16, int threads, struct products *products,
                  struct error *error);
void products_close(struct products *products);

/* A weight w (columns, depth) as linear tiles read it. Any thread may read it. */
struct product_weight;

/* Takes over `w`, which malloc gave, also when it fails. On success products_free_weight is owed. */
int products_take_weight(const struct products *products, int64_t columns, int64_t depth, float *w,
                         struct product_weight **weight, struct error *error);
void products_free_weight(const struct products *products, struct product_weight *weight); /* NULL is harmless */
size_t products_weight_bytes(const struct product_weight *weight);                         /* resident */

/* Floats that a thread needs to compute linear tiles with a weight of that depth. */
int64_t products_linear_scratch(const struct products *products, int64_t depth);

/* Rows of x (rows, depth), at most PLAN_ROW_BLOCK, for the tiles that follow; returns what products_linear_tile takes
 * as x: x itself, or a copy of other numbers in the scratch. Rows up to PLAN_ROW_BLOCK may be read: what they hold is
 * of no account, since a row of a product depends on no other. */
const void *products_linear_rows(const struct products *products, int64_t rows, int64_t depth, const float *x,
                                 float *scratch);

/* The tile of x wᵀ with columns from panel * PRODUCTS_PANEL on, at most PRODUCTS_PANEL of them (the width): in the
 * scratch, where the result points to: (rows, width), dense. `thread` is the caller's, below products.threads. NULL:
 * the provider ran out of memory. */
const float *products_linear_tile(const struct products *products, const struct product_weight *weight, int64_t panel,
                                  int64_t rows, const void *x, float *scratch, int thread);

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
