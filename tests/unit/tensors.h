/* tensors: small safetensors files in memory, and random numbers for their contents. */
#ifndef TESTS_UNIT_TENSORS_H
#define TESTS_UNIT_TENSORS_H

#include "weights/weights.h"

struct tensor_shape {
    const char *name;
    int64_t rows, columns; /* rows is 0 for a vector of `columns` elements */
};

/* Returns a safetensors file with F32 tensors of the given shapes, filled with random numbers. The numbers of a matrix
 * are scaled so that the result of a product has about a third of the variance of its input. The caller frees the
 * file. */
void *tensors_random_file(const struct tensor_shape *shapes, size_t count, size_t *size);

/* Makes a file as tensors_random_file does, and opens it. The caller closes the weights, then frees *file. A failure
 * ends the test program. */
struct weights *tensors_random(const struct tensor_shape *shapes, size_t count, void **file);

void random_seed(uint64_t seed);
uint64_t random_next(void);
int64_t random_size(int64_t from, int64_t to); /* a random integer from `from` to `to`, both included */
float random_float(void);                      /* a random number in [-1, 1) */

#endif
