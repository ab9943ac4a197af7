/* products: products of matrices by cuBLASLt in float32 (not TF32), and the operations that are made of them. */
#ifndef ENGINE_CUDA_PRODUCTS_H
#define ENGINE_CUDA_PRODUCTS_H

#include "engine/cuda/run.h"

/* out = A B + bias + add; all row by row, a row every so many floats. out (rows, columns), A (rows, depth), B (depth,
 * columns); a transposed one lies as (columns, rows). */
struct product {
    int64_t rows, columns, depth;
    const float *a;
    int64_t a_stride;
    bool transpose_a;
    const float *b;
    int64_t b_stride;
    bool transpose_b;
    const float *bias; /* (columns); NULL: none */
    const float *add;  /* (rows, columns), a row every out_stride floats; NULL: nothing */
    float *out;
    int64_t out_stride;
};

struct products;

/* On success products_close is owed. */
int products_open(struct products **products, struct error *error);
void products_close(struct products *products);

/* Launches it on the run's stream. A product that cuBLASLt refuses sets run->product_failed. */
void products_multiply(struct cuda_run *run, const struct product *product);

/* out = activation(x Wᵀ + bias) + residual, dense; W (out_columns, depth) is a weight of the plan. */
struct linear {
    int64_t rows;
    const float *x;
    int64_t x_stride;
    int weight, bias;
    enum activation activation;
    const float *residual; /* NULL: none */
    float *out;
};
void cuda_linear_rows(struct cuda_run *run, const struct linear *linear);

void cuda_linear(struct cuda_run *run, const struct plan_step *step);
void cuda_feed_forward(struct cuda_run *run, const struct plan_step *step);
void cuda_project_sequence(struct cuda_run *run, const struct plan_step *step);
void cuda_convolve_sequence(struct cuda_run *run, const struct plan_step *step);
void cuda_convolve_image(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_convolve_image_scratch(const struct plan *plan, const struct plan_step *step);
void cuda_project_call(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_feed_forward_scratch(const struct plan *plan, const struct plan_step *step);

#endif
