/* product: the description of a product of matrices. */
#ifndef ENGINE_CUDA_PRODUCT_H
#define ENGINE_CUDA_PRODUCT_H

#include <stdint.h>

/* out = A B + bias + add, or gelu(A B + bias + add). out (rows, columns), A (rows, depth), B (depth, columns). If A or
 * B is marked transposed, memory holds its transpose. */
struct cuda_product {
    int64_t rows, columns, depth;
    const void *a;
    int64_t a_stride;
    bool transpose_a;
    const void *b;
    int64_t b_stride;
    bool transpose_b;
    const void *bias;  /* (columns), or NULL */
    const void *add;   /* (rows, columns) with out_stride, or NULL */
    bool gelu;         /* computed by its tanh approximation */
    bool finish_apart; /* a kernel adds the bias and computes GELU after the product */
    bool float_out;    /* out, bias and add are floats, even if elements have 16 bits */
    void *out;
    int64_t out_stride;
    /* If `count` is above 1, one launch computes `count` products, without bias, add and gelu. a_distance is the number
     * of elements from the A of one product to the A of the next. It is 0 if all products share A. The same holds for
     * b_distance and out_distance. */
    int64_t count;
    int64_t a_distance, b_distance, out_distance;
};

#endif
