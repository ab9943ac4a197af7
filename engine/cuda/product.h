/* product: the description of a product of matrices. */
#ifndef ENGINE_CUDA_PRODUCT_H
#define ENGINE_CUDA_PRODUCT_H

#include <stdint.h>

/* out = A B + bias + add, or gelu of that. out (rows, columns), A (rows, depth), B (depth, columns). A transposed
 * matrix is stored as its transpose. */
struct cuda_product {
    int64_t rows, columns, depth;
    const void *a;
    int64_t a_stride;
    bool transpose_a;
    const void *b;
    int64_t b_stride;
    bool transpose_b;
    const void *bias; /* (columns); NULL: none */
    const void *add;  /* (rows, columns), with out_stride; NULL: nothing */
    bool gelu;        /* by its tanh approximation */
    bool float_out;   /* out, bias and add are floats, whatever the elements are */
    void *out;
    int64_t out_stride;
};

#endif
