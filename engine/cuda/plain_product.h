/* plain_product: what cuBLASLt leaves undone. Right for every shape and type, and not fast. */
#ifndef ENGINE_CUDA_PLAIN_PRODUCT_H
#define ENGINE_CUDA_PLAIN_PRODUCT_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

/* The whole product, with its sums in float, also in tf32, and the exact GELU. */
void plain_product(struct cuda_run *run, const struct cuda_product *product);

/* out = gelu(out + bias), or without either: behind a product without its epilogue. The exact GELU. */
void plain_product_finish(struct cuda_run *run, const struct cuda_product *product);

#endif
