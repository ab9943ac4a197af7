/* plain_product: products for which cuBLASLt has no algorithm. The kernels here work for every shape and type, but are
 * slow. */
#ifndef ENGINE_CUDA_PLAIN_PRODUCT_H
#define ENGINE_CUDA_PLAIN_PRODUCT_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

/* Computes the whole product. Sums are in float, even with tf32. GELU uses its tanh approximation, like cuBLASLt's. */
void plain_product(struct cuda_run *run, const struct cuda_product *product);

/* Finishes a product that cuBLASLt computed without bias and GELU: out = gelu(out + bias), or only one of both. With
 * elements of 16 bits, `out` is rounded once more than in a product that cuBLASLt finishes. */
void plain_product_finish(struct cuda_run *run, const struct cuda_product *product);

#endif
