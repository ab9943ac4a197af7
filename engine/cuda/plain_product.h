/* plain_product: products that cuBLASLt has no algorithm for. They are right for every shape and type, and slow. */
#ifndef ENGINE_CUDA_PLAIN_PRODUCT_H
#define ENGINE_CUDA_PLAIN_PRODUCT_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

/* The whole product. Sums are in float, with tf32 too, and GELU is exact. */
void plain_product(struct cuda_run *run, const struct cuda_product *product);

/* What follows a product that cuBLASLt computed without bias and GELU: out = gelu(out + bias), or without one of them.
 * GELU is exact. */
void plain_product_finish(struct cuda_run *run, const struct cuda_product *product);

#endif
