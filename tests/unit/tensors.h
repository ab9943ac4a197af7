/* tensors: small safetensors files in memory, and random numbers for their contents. */
#ifndef TESTS_UNIT_TENSORS_H
#define TESTS_UNIT_TENSORS_H

#include "weights/weights.h"

struct tensor_shape {
    const char *name;
    int64_t rows, columns; /* rows 0: a vector with `columns` elements */
};

/* A safetensors file with F32 tensors of the given shapes, filled with random numbers. The numbers are scaled so that a
 * product's result has about the variance of its input. The caller frees the file. */
void *tensors_random_file(const struct tensor_shape *shapes, size_t count, size_t *size);

/* Makes and opens such a file. The caller closes the weights, then frees *file. A failure ends the test program. */
struct weights *tensors_random(const struct tensor_shape *shapes, size_t count, void **file);

void random_seed(uint64_t seed);
uint64_t random_next(void);
int64_t random_size(int64_t from, int64_t to); /* the range includes both ends */
float random_float(void);                      /* a number in [-1, 1) */

#endif
