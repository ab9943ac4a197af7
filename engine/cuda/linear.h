/* linear: multiplies rows by a weight. Several operations that contain such a product use it. */
#ifndef ENGINE_CUDA_LINEAR_H
#define ENGINE_CUDA_LINEAR_H

#include "engine/cuda/products.h"

/* out (rows, columns) = activation(x (rows, depth) Wᵀ + bias) + residual (rows, columns). W (columns, depth) and bias
 * (columns) are weights of the plan. x_stride is the stride of x in elements. */
template <typename T> struct linear {
    int64_t rows;
    const T *x;
    int64_t x_stride;
    int weight, bias;
    struct plan_activation activation;
    const T *residual; /* may be NULL */
    T *out;
};
template <typename T> void cuda_linear_rows(struct cuda_run *run, const struct linear<T> *linear);

template <typename T> void cuda_linear(struct cuda_run *run, const struct plan_step *step);

#endif
