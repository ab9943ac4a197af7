/* kernels: counts launches by kernel, and writes the trace. Only the shim's own files include it.
 *
 * SHIM_TRACE names a file. If it is set, kernels and products are not computed, so that models of any size run in
 * seconds. All results are undefined. The file gets a line for each kernel and product, in the order of their runs:
 *
 *     kernel  NAME  BLOCKS X Y Z  THREADS  SHARED BYTES
 *     product  ROWS COLUMNS DEPTH [PRODUCTS]  BYTES OF AN ELEMENT  BYTES OF A RESULT  EPILOGUE  ADDED
 *     grouped  ROWS COLUMNS DEPTHS PRODUCTS  BYTES OF AN ELEMENT
 *
 * Tabs separate the fields. Numbers within a field are separated by blanks. Rows and columns of a product are those of
 * cuBLASLt, which works column by column. ADDED is 1 if a matrix C is added to the product. PRODUCTS is the number of
 * products of one call, if there are several. DEPTHS is the sum of the depths of grouped products. */
#ifndef TESTS_CUDA_SHIM_KERNELS_H
#define TESTS_CUDA_SHIM_KERNELS_H

#include "tests/cuda/shim/runtime.h"

#include <string>

namespace shim
{
void count_launch(const void *kernel);
/* SHIM_KERNEL_MS is the time of each kernel in milliseconds. NAME=MS is the time of kernels whose names begin with
 * NAME, and other kernels take none. The default is longer than most products of cuBLASLt take. */
float milliseconds_of_kernel(const void *kernel);
bool is_traced();
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace_launch(const void *kernel, const grid &grid);
} // namespace shim

#endif
