/* products: products of matrices by cuBLASLt in the run's dtype, and the operations that are made of them. f32 is
 * without TF32, and adding is in float everywhere. */
#ifndef ENGINE_CUDA_PRODUCTS_H
#define ENGINE_CUDA_PRODUCTS_H

#include "engine/cuda/run.h"

/* out = gelu(A B + bias + add) or without gelu; all row by row, a row every so many elements. out (rows, columns),
 * A (rows, depth), B (depth, columns); a transposed one lies as (columns, rows). */
struct product {
    int64_t rows, columns, depth;
    const void *a;
    int64_t a_stride;
    bool transpose_a;
    const void *b;
    int64_t b_stride;
    bool transpose_b;
    const void *bias; /* (columns); NULL: none */
    const void *add;  /* (rows, columns), a row every out_stride elements; NULL: nothing */
    bool gelu;        /* by its tanh approximation */
    bool float_out;   /* out, bias and add are floats, whatever the elements are */
    void *out;
    int64_t out_stride;
};

struct products;

/* On success products_close is owed. */
int products_open(struct products **products, struct error *error);
void products_close(struct products *products);

/* Launches it on the run's stream, in whatever way its shape allows; while choosing, finds that way. One that fails
 * sets run->product_failed. */
void products_multiply(struct cuda_run *run, const struct product *product);

/* Chooses the algorithms of the plan's products with weights for the classes that batches will have, so that no batch
 * waits for it, and times them on the run's stream for run.tuning_milliseconds at most, the largest first: what no time
 * is left for is cuBLASLt's own choice. What is not chosen now is when a batch wants it. Batches of other models run
 * meanwhile. -1: the device failed. */
int products_warm(struct cuda_run run, struct error *error);

/* out = activation(x Wᵀ + bias) + residual, dense; W (out_columns, depth) is a weight of the plan. */
template <typename T> struct linear {
    int64_t rows;
    const T *x;
    int64_t x_stride;
    int weight, bias;
    enum activation activation;
    const T *residual; /* NULL: none */
    T *out;
};
template <typename T> void cuda_linear_rows(struct cuda_run *run, const struct linear<T> *linear);

template <typename T> void cuda_linear(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_feed_forward(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_convolve_image(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_convolve_image_scratch(const struct plan *plan, const struct plan_step *step);
template <typename T> void cuda_project_call(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_feed_forward_scratch(const struct plan *plan, const struct plan_step *step);

#endif
