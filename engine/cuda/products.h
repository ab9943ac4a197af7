/* products: products of matrices in the run's dtype. cuBLASLt or a kernel of this folder computes them (products.cu).
 * cuBLASLt does not use TF32 if the dtype is f32. Sums are always in float. */
#ifndef ENGINE_CUDA_PRODUCTS_H
#define ENGINE_CUDA_PRODUCTS_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

struct cuda_grouped;
struct cuda_products;
struct stopwatch;

/* After success the caller must call cuda_products_close. */
int cuda_products_open(struct cuda_products **products, struct error *error);
void cuda_products_close(struct cuda_products *products);

/* Launches the product on the run's stream. If run->choosing is set, it only chooses an algorithm for the product. A
 * product that fails sets run->product_failed. */
void cuda_products_multiply(struct cuda_run *run, const struct cuda_product *product);

/* While algorithms are chosen: returns whether cuBLASLt or split_product has an algorithm for the product. The product
 * must have been passed to cuda_products_multiply before. */
bool cuda_products_has(struct cuda_run *run, const struct cuda_product *product);

/* The stopwatch for timing launches on the device (fastest.h). */
struct stopwatch *cuda_products_stopwatch(struct cuda_products *products);

/* The handle for products of several depths in one launch (grouped_product.h). */
struct cuda_grouped *cuda_products_grouped(struct cuda_products *products);

/* Chooses algorithms in advance for the plan's products with weights, for the shapes of batches that will occur
 * (shape.h). Therefore, no batch has to wait for the choice. Algorithms are timed on the run's stream, for at most
 * run.tuning_milliseconds, beginning with the largest products. When this time is over, the first candidate is used. It
 * is the engine's own kernel if this kernel can compute the product, and cuBLASLt's own choice otherwise. For all other
 * products, an algorithm is chosen when a batch needs it. Batches of other models may run during the function. Returns
 * -1 if the device failed. */
int cuda_products_warm(struct cuda_run run, struct error *error);

#endif
