/* products: matrix products, cut into tiles. The shape of a tile depends only on the model and the item. One thread
 * computes a tile. The bits of the tile do not depend on its place in the matrix. If batch_invariant is true, the bits
 * of a row do not depend on the other rows of the tile, either. In this case, results do not depend on the batch.
 *
 * The code that computes each kind of product, if the setting `products` is auto and oneDNN is usable:
 *                                   float32                                 bf16
 *     rows through a weight         oneDNN on AVX-512, else OpenBLAS        oneDNN with AMX, else vector.h
 *     projection along a sequence   OpenBLAS                                vector.h
 *     any other                     OpenBLAS                                OpenBLAS, in float32
 *
 * Products of rows and a weight are called linear, after nn.Linear. oneDNN reads weights in its own packed order. Only
 * its kernels for AVX-512 compute a row with the same bits for every number of rows.
 *
 * The caller of a successful products_open must call products_close, after freeing all weights. */
#ifndef ENGINE_CPU_PRODUCTS_H
#define ENGINE_CPU_PRODUCTS_H

#include "engine/cpu/vector.h"

struct onednn; /* products_onednn.h */

struct products {
    void *library;
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    struct onednn *onednn; /* NULL if oneDNN computes no products */
    bool needs_onednn;     /* the settings name oneDNN, so a weight that oneDNN cannot pack is an error */
    int threads;
    bool bf16; /* products with weights multiply bf16 numbers and sum them up in float32 */
    /* The functions for the instruction set. If `bf16`, the functions for AVX512_BF16. */
    const struct vector_functions *vector;
    bool batch_invariant;  /* a row has the same bits in every batch */
    char description[160]; /* for example "OpenBLAS 0.3.21 SkylakeX, oneDNN 2.6.3" */
};

/* Loads OpenBLAS with kernels for the instruction set, and oneDNN. OpenBLAS reads OPENBLAS_CORETYPE from the
 * environment while it is loaded. This function sets the variable, so call it before other threads exist. OpenBLAS
 * stays loaded with these kernels after products_close. Returns -1 if a necessary library is missing. After success,
 * the message in `error` is usually empty. If LIBRARY_AUTO would use oneDNN, but cannot, the message is the reason. */
int products_open(enum instruction_set set, enum product_library library, bool bf16, int threads,
                  struct products *products, struct error *error);
void products_close(struct products *products);

/* A weight, stored in the order in which the products read it. Several threads may read it at the same time. */
struct product_weight;

/* Makes a weight of w (columns, depth) for products_linear_tile. If `owned`, w was allocated by malloc, and this
 * function becomes its owner, even on failure. Otherwise the caller keeps w until the weight is freed. After success
 * the caller must call products_free_weight. If oneDNN cannot pack the weight, other code multiplies it, and `error`
 * gives the reason even after success. If the settings name oneDNN (needs_onednn), a weight that oneDNN cannot pack is
 * a failure. In all other cases of success, `error` is empty. */
int products_take_weight(const struct products *products, int64_t columns, int64_t depth, float *w, bool owned,
                         struct product_weight **weight, struct error *error);
void products_free_weight(const struct products *products, struct product_weight *weight); /* NULL is harmless */
/* The resident bytes of the weight, not counting a w that the caller keeps. */
size_t products_weight_bytes(const struct product_weight *weight);

/* Makes a weight of e for products_project. e is (groups * k, n) if `transposed`, and (groups * n, k) otherwise. Call
 * it only if products are in bf16. The caller keeps e. After success the caller must call products_free_weight. */
int products_take_projection(const struct products *products, int64_t groups, int64_t n, int64_t k, bool transposed,
                             const float *e, struct product_weight **weight, struct error *error);

/* The number of floats of scratch that a thread needs. products_linear_scratch is for products_linear_tile with a
 * weight of this depth. products_project_scratch is for products_project to k rows. */
int64_t products_linear_scratch(const struct products *products, int64_t depth);
int64_t products_project_scratch(const struct products *products, int64_t k);

/* Prepares x (rows, depth) for tiles of the weight. `rows` is at most PLAN_ROW_BLOCK. Returns the pointer to pass to
 * the tiles. It points to x itself, or to a copy in the scratch, in bf16. All PLAN_ROW_BLOCK rows must be readable
 * memory. The content of rows beyond `rows` does not matter, because a row of a product does not depend on other rows.
 * `element` must be ELEMENT_F32 unless products are in bf16. */
const void *products_linear_rows(const struct products *products, const struct product_weight *weight, int64_t rows,
                                 enum element element, const void *x, float *scratch);

/* A tile: one panel of the columns of x wᵀ, with bias, activation and residual. Panel p consists of the columns p *
 * PRODUCTS_PANEL … (p + 1) * PRODUCTS_PANEL - 1. The last panel may have fewer columns. */
struct product_tile {
    const struct product_weight *weight;
    int64_t panel;
    const void *x;               /* the pointer that products_linear_rows returned */
    struct vector_finish finish; /* pointers for all columns of the weight. finish.x is not used */
};

/* Computes the tile. `thread` is the number of the calling thread, less than products.threads. Returns -1 if oneDNN ran
 * out of memory. */
int products_linear_tile(const struct products *products, const struct product_tile *tile, float *scratch, int thread);

/* A part of the projection of one sequence by E (n, k): some rows and some columns of the sequence. */
struct product_projection {
    const struct product_weight *weight;
    /* First column of E, and number of columns, that are used. The columns of the groups follow one another. */
    int64_t first_k, k;
    int64_t first, rows; /* positions in the sequence, which are rows of E. `first` is even, because a word in bf16
                            holds two neighbouring rows of E */
    int64_t columns;     /* at most VECTOR_PANEL */
    const void *x;       /* (rows, columns). x_stride is the distance between two rows, in elements */
    int64_t x_stride;
    enum element x_element;
};

/* Returns the result (k, columns). It is in the scratch, and its rows are VECTOR_PANEL floats apart. */
float *products_project(const struct products *products, const struct product_projection *projection, float *scratch);

/* c (m, n) = a b, computed by the calling thread. a is (m, k), or (k, m) if transpose_a. b is (k, n), or (n, k) if
 * transpose_b. Strides count floats. */
struct product {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t a_stride, b_stride, c_stride;
    bool transpose_a, transpose_b;
};
void products_multiply(const struct products *products, const struct product *product);

#endif
