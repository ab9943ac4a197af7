/* grouped_product: products of several depths in one launch, by cuBLAS (cublas_library.h). cuBLAS reads the depths on
 * the host, so a CUDA graph cannot replay the launch for other depths. */
#ifndef ENGINE_CUDA_GROUPED_PRODUCT_H
#define ENGINE_CUDA_GROUPED_PRODUCT_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

struct cuda_grouped; /* the handle of cuBLAS, if it was needed so far */

/* Returns NULL if memory is lacking. The caller must call cuda_grouped_close. */
struct cuda_grouped *cuda_grouped_open();
void cuda_grouped_close(struct cuda_grouped *grouped);

/* Products out = A B. They have the sizes, strides and transpositions of `common`, apart from the depth. Its other
 * members are not read. */
struct grouped_product {
    struct cuda_product common;
    int n_groups;
    const int *depths; /* on the host, by group. Above 0 */
    int group_size;    /* number of products in each group */
    /* On the device, by product, group after group. Each matrix begins at a multiple of 16 bytes. */
    const void **a, **b;
    void **out;
};

/* While algorithms are chosen: whether cuBLAS has grouped products, and can compute products with the sizes of
 * `common` and depths of at most `most_depth`. If time is left for measuring (run->tuning_milliseconds), it starts
 * cuBLAS, unless cuBLAS was started before. A started cuBLAS takes memory of the device until cuda_grouped_close. Only
 * one thread at a time may call it for a device. */
bool cuda_grouped_possible(struct cuda_grouped *grouped, struct cuda_run *run, const struct cuda_product *common,
                           int64_t most_depth);

/* Launches the products on the run's stream. Returns false if cuBLAS does not support them, or memory is lacking. Other
 * failures set run->product_failed. */
bool cuda_grouped_multiply(struct cuda_grouped *grouped, struct cuda_run *run, const struct grouped_product *product);

#endif
