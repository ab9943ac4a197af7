/* plain_product: products for which cuBLASLt has no algorithm. The kernels here work for every shape and type, but are
 * slow. */
#ifndef ENGINE_CUDA_PLAIN_PRODUCT_H
#define ENGINE_CUDA_PLAIN_PRODUCT_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

/* Computes the whole product. Sums are in float, even with tf32. GELU uses the tanh approximation, as in cuBLASLt. */
void plain_product(struct cuda_run *run, const struct cuda_product *product);

/* Finishes a product that cuBLASLt computed without bias and GELU: out = gelu(out + bias), or only bias or GELU. With
 * elements of 16 bits, `out` is rounded twice. A product that cuBLASLt finishes itself is rounded once. */
void plain_product_finish(struct cuda_run *run, const struct cuda_product *product);

#endif
