/* products: matrix products, cut into tiles. A tile's shape depends on the model and on the item alone, and one thread
 * computes it, with the same bits wherever it lies. So results do not depend on the batch.
 *
 * In float32 OpenBLAS computes them all, unless oneDNN is there for those with weights: it keeps these packed, and has
 * kernels for AVX-512 alone that don't depend on the number of rows. In bf16 those with weights, and projections along
 * the sequence, are vector.h's; but where the processor has AMX, which it doesn't use, oneDNN has those with weights.
 * products_open succeeded: products_close is owed, after all weights of it are freed. */
#ifndef ENGINE_CPU_PRODUCTS_H
#define ENGINE_CPU_PRODUCTS_H

#include "engine/cpu/vector.h"

struct onednn; /* products_onednn.h */

struct products {
    void *library;
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    struct onednn *onednn; /* NULL: OpenBLAS computes linear tiles, too, or in bf16 `vector` does */
    bool needs_onednn;     /* it was asked for by name: a weight that it cannot pack is an error */
    int threads;
    bool bf16;                             /* products with weights multiply bf16 by bf16 and add in float32 */
    const struct vector_functions *vector; /* of the instruction set; in bf16 those of AVX512_BF16 */
    bool batch_invariant;
    char description[160]; /* "OpenBLAS 0.3.21 SkylakeX, oneDNN 2.6.3" */
};

/* Loads OpenBLAS with the kernels of the instruction set, and oneDNN. OpenBLAS reads its choice from the environment as
 * it is loaded, so this sets OPENBLAS_CORETYPE: call it before other threads exist. Once loaded the choice stays, even
 * after close. `provider`: "auto" (also NULL), "openblas" or "onednn". -1: a library that is needed is not there.
 * On success `error` says why "auto" does without oneDNN where it would take it; else it is empty. */
int products_open(enum instruction_set set, const char *provider, bool bf16, int threads, struct products *products,
                  struct error *error);
void products_close(struct products *products);

/* A weight w (columns, depth) as linear tiles read it. Any thread may read it. */
struct product_weight;

/* `owned`: takes over `w`, which malloc gave, also when it fails; else `w` stays the caller's, as it is, and outlives
 * the weight. On success products_free_weight is owed. A weight that oneDNN cannot pack is multiplied without it,
 * unless oneDNN was asked for by name: then `error` says why on success, too; else it is empty. */
int products_take_weight(const struct products *products, int64_t columns, int64_t depth, float *w, bool owned,
                         struct product_weight **weight, struct error *error);
void products_free_weight(const struct products *products, struct product_weight *weight); /* NULL is harmless */
size_t products_weight_bytes(const struct product_weight *weight); /* resident, besides a `w` of the caller's */

/* A weight e, (groups * k, n) when transposed, else (groups * n, k), as products_project reads it; bf16 alone. `e`
 * stays the caller's. On success products_free_weight is owed. */
int products_take_projection(const struct products *products, int64_t groups, int64_t n, int64_t k, bool transposed,
                             const float *e, struct product_weight **weight, struct error *error);

/* Floats that a thread needs to compute linear tiles with a weight of that depth, and projections to k rows. */
int64_t products_linear_scratch(const struct products *products, int64_t depth);
int64_t products_project_scratch(const struct products *products, int64_t k);

/* Rows of x (rows, depth), at most PLAN_ROW_BLOCK, for the tiles of the weight that follow; returns what a tile takes
 * as x: x itself, or a copy of other numbers in the scratch. Rows up to PLAN_ROW_BLOCK may be read: what they hold is
 * of no account, since a row of a product depends on no other. Elements are floats unless products are in bf16. */
const void *products_linear_rows(const struct products *products, const struct product_weight *weight, int64_t rows,
                                 enum element element, const void *x, float *scratch);

/* The tile of x wᵀ with columns from panel * PRODUCTS_PANEL on, at most PRODUCTS_PANEL of them, and what comes after.
 */
struct product_tile {
    const struct product_weight *weight;
    int64_t panel;
    const void *x;
    struct vector_finish finish; /* of all the weight's columns; its x is not looked at */
};

/* `thread` is the caller's, below products.threads. -1: the provider ran out of memory. */
int products_linear_tile(const struct products *products, const struct product_tile *tile, float *scratch, int thread);

/* Rows of one item, some columns of them, through E. */
struct product_projection {
    const struct product_weight *weight;
    int64_t first_k, k;  /* features of E, those of groups behind one another */
    int64_t first, rows; /* of E's n positions */
    int64_t columns;     /* at most VECTOR_PANEL */
    const void *x;       /* (rows, columns), a row every x_stride elements */
    int64_t x_stride;
    enum element x_element;
};

/* Where in the scratch the result is: (k, columns), a row every VECTOR_PANEL floats. `first` is even. */
float *products_project(const struct products *products, const struct product_projection *projection, float *scratch);

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
