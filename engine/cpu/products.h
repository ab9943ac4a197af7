/* products: matrix products, cut into tiles. A tile's shape depends on the model and on the item alone, and one thread
 * computes it, with the same bits wherever it lies. So results do not depend on the batch.
 *
 * Who computes a product:
 *                                   float32                                 bf16
 *     rows through a weight         oneDNN on AVX-512, else OpenBLAS        oneDNN with AMX, else vector.h
 *     projection along a sequence   OpenBLAS                                vector.h
 *     any other                     OpenBLAS                                OpenBLAS, in float32
 * oneDNN keeps weights packed. Only its kernels for AVX-512 give a row the same bits for every number of rows.
 *
 * After products_open succeeded products_close is owed, once all weights are freed. */
#ifndef ENGINE_CPU_PRODUCTS_H
#define ENGINE_CPU_PRODUCTS_H

#include "engine/cpu/vector.h"

struct onednn; /* products_onednn.h */

struct products {
    void *library;
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    struct onednn *onednn; /* NULL: it computes nothing */
    bool needs_onednn;     /* oneDNN was asked for by name: a weight that it cannot pack is an error */
    int threads;
    bool bf16;                             /* products with weights multiply bf16 and add in float32 */
    const struct vector_functions *vector; /* for the instruction set; in bf16 those for AVX512_BF16 */
    bool batch_invariant;
    char description[160]; /* "OpenBLAS 0.3.21 SkylakeX, oneDNN 2.6.3" */
};

/* Loads OpenBLAS with kernels for the instruction set, and oneDNN. OpenBLAS reads OPENBLAS_CORETYPE from the
 * environment while it is loaded. This sets the variable, so call it before other threads exist. The choice stays after
 * close. Returns -1 if a library that is needed is missing.
 * On success `error` is empty, or says why LIBRARY_AUTO does without oneDNN though it prefers it. */
int products_open(enum instruction_set set, enum product_library library, bool bf16, int threads,
                  struct products *products, struct error *error);
void products_close(struct products *products);

/* A weight in the order in which products read it. Any thread may read it. */
struct product_weight;

/* A weight w (columns, depth) for linear tiles. If `owned`, `w` was allocated by malloc, and this takes it over, on
 * failure too. Else `w` stays the caller's and must outlive the weight. On success products_free_weight is owed. A
 * weight that oneDNN cannot pack is multiplied without it, and `error` says why; else `error` is empty on success. It
 * is a failure if oneDNN was asked for by name. */
int products_take_weight(const struct products *products, int64_t columns, int64_t depth, float *w, bool owned,
                         struct product_weight **weight, struct error *error);
void products_free_weight(const struct products *products, struct product_weight *weight); /* NULL is harmless */
size_t products_weight_bytes(const struct product_weight *weight); /* resident, besides a `w` of the caller's */

/* A weight e for products_project, (groups * k, n) if transposed, else (groups * n, k). Products are in bf16. `e` stays
 * the caller's. On success products_free_weight is owed. */
int products_take_projection(const struct products *products, int64_t groups, int64_t n, int64_t k, bool transposed,
                             const float *e, struct product_weight **weight, struct error *error);

/* Floats of scratch that a thread needs: for linear tiles with a weight of that depth; for projections to k rows. */
int64_t products_linear_scratch(const struct products *products, int64_t depth);
int64_t products_project_scratch(const struct products *products, int64_t k);

/* Prepares x (rows, depth) for tiles of the weight; rows <= PLAN_ROW_BLOCK. Returns the tiles' x: x itself, or a copy
 * in the scratch with other elements. Rows up to PLAN_ROW_BLOCK may be read, whatever they hold: a row of a product
 * does not depend on the others. Elements are floats unless products are in bf16. */
const void *products_linear_rows(const struct products *products, const struct product_weight *weight, int64_t rows,
                                 enum element element, const void *x, float *scratch);

/* A tile: columns [panel * PRODUCTS_PANEL, (panel + 1) * PRODUCTS_PANEL) of x wᵀ, as far as w has them, with bias,
 * activation and residual. */
struct product_tile {
    const struct product_weight *weight;
    int64_t panel;
    const void *x;               /* products_linear_rows returned it */
    struct vector_finish finish; /* for all columns of the weight; its x is not read */
};

/* `thread` is the number of the calling thread, below products.threads. -1: the provider ran out of memory. */
int products_linear_tile(const struct products *products, const struct product_tile *tile, float *scratch, int thread);

/* Some rows of one item, and some of their columns, through E (n, k). */
struct product_projection {
    const struct product_weight *weight;
    int64_t first_k, k;  /* columns of E; those of groups follow one another */
    int64_t first, rows; /* positions: rows of E. `first` is even */
    int64_t columns;     /* at most VECTOR_PANEL */
    const void *x;       /* (rows, columns), a row every x_stride elements */
    int64_t x_stride;
    enum element x_element;
};

/* Returns the result, which is in the scratch: (k, columns), a row every VECTOR_PANEL floats. */
float *products_project(const struct products *products, const struct product_projection *projection, float *scratch);

/* c (m, n) = a b, computed by the calling thread. a is (m, k), or (k, m) if transposed. b is (k, n), or (n, k) if
 * transposed. Strides count floats. */
struct product {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t a_stride, b_stride, c_stride;
    bool transpose_a, transpose_b;
};
void products_multiply(const struct products *products, const struct product *product);

#endif
