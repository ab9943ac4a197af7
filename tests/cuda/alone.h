/* alone: how far an item's result alone may be from its result in a batch, as a relative L2 error. The engine's own
 * kernels add in an order that the batch has no part in, and on the shim so do products: there nothing may differ. On a
 * device cuBLASLt's algorithm depends on how many rows there are. Floats are then added in another order, a little of
 * the rounding in TOLERANCE; and of the values that are rounded to fewer digits some become the next one, few of them,
 * so that the whole moves by less than such a step, 2^-7 of a value in bf16 and 2^-10 in f16 and tf32. */
#ifndef TESTS_CUDA_ALONE_H
#define TESTS_CUDA_ALONE_H

#include "config/config.h"
#include "tests/cuda/counts.h"

static inline double alone_tolerance(enum dtype dtype)
{
    if (!on_device())
        return 0;
    return dtype == DTYPE_F32 ? 5e-6 : dtype == DTYPE_BF16 ? 0x1p-7 : 0x1p-10;
}

#endif
