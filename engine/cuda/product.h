/* product: a product of matrices that is to be computed. */
#ifndef ENGINE_CUDA_PRODUCT_H
#define ENGINE_CUDA_PRODUCT_H

#include <stdint.h>

/* out = gelu(A B + bias + add) or without gelu; all row by row, a row every so many elements. out (rows, columns),
 * A (rows, depth), B (depth, columns); a transposed one lies as (columns, rows). */
struct cuda_product {
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

#endif
