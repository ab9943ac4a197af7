/* products: products of matrices by cuBLASLt in the run's dtype. f32 is without TF32, and adding is in float
 * everywhere. */
#ifndef ENGINE_CUDA_PRODUCTS_H
#define ENGINE_CUDA_PRODUCTS_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

struct cuda_products;

/* On success cuda_products_close is owed. */
int cuda_products_open(struct cuda_products **products, struct error *error);
void cuda_products_close(struct cuda_products *products);

/* Launches it on the run's stream, in whatever way its shape allows; while choosing, finds that way. One that fails
 * sets run->product_failed. */
void cuda_products_multiply(struct cuda_run *run, const struct cuda_product *product);

/* Chooses the algorithms of the plan's products with weights for the classes that batches will have, so that no batch
 * waits for it, and times them on the run's stream for run.tuning_milliseconds at most, the largest first: what no time
 * is left for is cuBLASLt's own choice. What is not chosen now is when a batch wants it. Batches of other models run
 * meanwhile. -1: the device failed. */
int cuda_products_warm(struct cuda_run run, struct error *error);

#endif
