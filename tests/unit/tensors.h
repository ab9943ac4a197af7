/* tensors: small safetensors files in memory, and the random numbers that fill them. */
#ifndef TESTS_UNIT_TENSORS_H
#define TESTS_UNIT_TENSORS_H

#include "weights/weights.h"

struct shape {
    const char *name;
    int64_t rows, columns; /* rows 0: a vector of `columns` */
};

/* A safetensors file with F32 tensors of the given shapes, filled with random numbers. Their size keeps the
 * variance of a product's result near that of its input. The caller frees the file. */
void *tensors_random_file(const struct shape *shapes, size_t count, size_t *size);

/* The same, opened. The caller closes the weights, then frees *file. A failure ends the test program. */
struct weights *tensors_random(const struct shape *shapes, size_t count, void **file);

void random_seed(uint64_t seed);
uint64_t random_next(void);
int64_t random_size(int64_t from, int64_t to); /* both included */
float random_float(void);                      /* in [-1, 1) */

#endif
