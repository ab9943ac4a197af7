/* alone: the maximum relative L2 distance between an item's results alone and in a batch. In the engine's own kernels
 * and in the shim's products, the order of additions does not depend on the batch. The distance is therefore 0 on the
 * shim.
 *
 * On a device, cuBLASLt chooses an algorithm by the number of rows. Each algorithm has its own order of additions.
 * Therefore a few values may round to a neighbouring number. The distance of neighbours is at most 2^-7 of the value in
 * bf16, and 2^-10 in f16 and tf32. Most values stay equal, which makes the distance of all values smaller. */
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
