/* products: products of matrices by cuBLASLt, in the run's dtype. f32 does not use TF32. Sums are in float always. */
#ifndef ENGINE_CUDA_PRODUCTS_H
#define ENGINE_CUDA_PRODUCTS_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

struct cuda_products;

/* On success cuda_products_close is owed. */
int cuda_products_open(struct cuda_products **products, struct error *error);
void cuda_products_close(struct cuda_products *products);

/* Launches the product on the run's stream. While run->choosing it chooses the product's algorithm instead. A product
 * that fails sets run->product_failed. */
void cuda_products_multiply(struct cuda_run *run, const struct cuda_product *product);

/* Chooses algorithms for the plan's products with weights, for the classes that batches will have, so that no batch
 * waits for that. Algorithms are timed on the run's stream, for run.tuning_milliseconds at most and the largest
 * products first. When that time is over cuBLASLt's own choice is taken. Products that are not chosen now are chosen
 * when a batch needs them. Batches of other models may run meanwhile. -1: the device failed. */
int cuda_products_warm(struct cuda_run run, struct error *error);

#endif
