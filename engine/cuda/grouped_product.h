/* grouped_product: matrix products with different depths (the common dimension of both factors), computed by cuBLAS in
 * one launch (cublas_library.h). cuBLAS reads the depths on the host, so a CUDA graph cannot replay the launch for
 * other depths. */
#ifndef ENGINE_CUDA_GROUPED_PRODUCT_H
#define ENGINE_CUDA_GROUPED_PRODUCT_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

struct cuda_grouped; /* the handle of cuBLAS, created when it is first needed */

/* Returns NULL if memory is lacking. The caller must call cuda_grouped_close. */
struct cuda_grouped *cuda_grouped_open();
void cuda_grouped_close(struct cuda_grouped *grouped);

/* Products out = A B. Their sizes, strides and transpositions are those of `common`, except for the depth. The other
 * members of `common` are not read. */
struct grouped_product {
    struct cuda_product common;
    int n_groups;
    const int *depths; /* by group: the depth of its products, above 0. In host memory */
    int group_size;    /* number of products in each group */
    /* By product, group after group. In device memory. Each matrix begins at a multiple of 16 bytes. */
    const void **a, **b;
    void **out;
};

/* While algorithms are chosen: returns whether cuBLAS has grouped products, and can compute products with the sizes of
 * `common` and depths of at most `most_depth`. If time is left for measuring (run->tuning_milliseconds), the function
 * starts cuBLAS, unless cuBLAS was started before. A started cuBLAS occupies device memory until cuda_grouped_close.
 * For each device, only one thread at a time may call this function. */
bool cuda_grouped_possible(struct cuda_grouped *grouped, struct cuda_run *run, const struct cuda_product *common,
                           int64_t most_depth);

/* Launches the products on the run's stream. Returns false if cuBLAS does not support the products, or if memory is
 * lacking. Other failures set run->product_failed. */
bool cuda_grouped_multiply(struct cuda_grouped *grouped, struct cuda_run *run, const struct grouped_product *product);

#endif
