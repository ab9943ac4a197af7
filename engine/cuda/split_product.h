/* split_product: products of float matrices on tensor cores (split.h). */
#ifndef ENGINE_CUDA_SPLIT_PRODUCT_H
#define ENGINE_CUDA_SPLIT_PRODUCT_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

/* Whether split_product may compute the product. Returns false if run->split is false, if the product applies GELU, or
 * if B is not stored as its transpose. */
bool split_product_fits(const struct cuda_run *run, const struct cuda_product *product);

/* Launches the product on the run's stream, even if run->choosing is set. Returns false if the launch failed. */
bool split_product(struct cuda_run *run, const struct cuda_product *product);

#endif
