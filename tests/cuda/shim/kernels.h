/* kernels: counts launches by kernel, and writes a trace. Only the shim's own files include this header.
 *
 * SHIM_TRACE names the file of the trace. If it is set, kernels and products are not computed, and models of any size
 * run in seconds. All results are undefined. The trace contains a line for each kernel and product, in the order in
 * which they run:
 *
 *     kernel  NAME  BLOCKS X Y Z  THREADS  SHARED BYTES
 *     product  ROWS COLUMNS DEPTH [PRODUCTS]  BYTES OF AN ELEMENT  BYTES OF A RESULT  EPILOGUE  ADDED
 *     grouped  ROWS COLUMNS DEPTHS PRODUCTS  BYTES OF AN ELEMENT
 *
 * Tabs separate the fields. Blanks separate the numbers within a field. Rows and columns of a product are those of
 * cuBLASLt in column-major order. ADDED is 1 if a matrix C is added to the product. PRODUCTS is the number of
 * products of one call, if there are several. DEPTHS is the sum of the depths of grouped products. */
#ifndef TESTS_CUDA_SHIM_KERNELS_H
#define TESTS_CUDA_SHIM_KERNELS_H

#include "tests/cuda/shim/runtime.h"

#include <string>

namespace shim
{
void count_launch(const void *kernel);
/* SHIM_KERNEL_MS is the simulated time of each kernel in milliseconds. With the value NAME=MS, kernels whose names
 * begin with NAME take MS milliseconds, and other kernels take 0. The default, 4, is longer than the time of most
 * products of cuBLASLt. */
float milliseconds_of_kernel(const void *kernel);
bool is_traced();
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace_launch(const void *kernel, const grid &grid);
} // namespace shim

#endif
