/* faults: makes calls of the simulated runtime fail, for tests. Only the shim's own files include this header.
 *
 * SHIM_FAULTS names a file of rules. The file is read as soon as it exists, and again when another file replaces it by
 * rename. Each line is a rule:
 *
 *     CALL FIRST COUNT CODE [sticky] [device N]
 *
 * Counting begins when the rule is read: call 1 is the next call. COUNT calls fail with the cudaError_t CODE, beginning
 * with call FIRST. With COUNT 0, all calls fail from call FIRST on. If a rule makes a call fail, later rules of the
 * file do not count the call. A rule without `device` is for all devices. A sticky error breaks the device. Afterwards
 * cudaFree and the calls below, except cudaSetDevice, fail on the device with this error. Only cudaDeviceReset ends
 * this.
 *
 *     CALL           calls that count
 *     malloc         cudaMalloc
 *     host           cudaMallocHost
 *     copy           cudaMemcpyAsync
 *     launch         launches of kernels and graphs
 *     product        products of cuBLASLt
 *     algorithm      cuBLASLt's search for an algorithm
 *     epilogue       the search for a product with an epilogue. CODE 801 means that the epilogue is not supported
 *     start          cublasCreate
 *     grouped        grouped products of cuBLAS. CODE 801 means that cuBLAS does not support them, and CODE 2 that
 *                    memory is lacking
 *     synchronize    waiting for a stream or an event, and queries of events
 *     open           creating a stream
 *     kernel         cudaFuncGetAttributes
 *     choose         cudaSetDevice
 *
 * Freeing device memory has no rule. It fails only on a broken device (call::free). Freeing pinned memory does not
 * fail. */
#ifndef TESTS_CUDA_SHIM_FAULTS_H
#define TESTS_CUDA_SHIM_FAULTS_H

#include "tests/cuda/shim/runtime.h"

namespace shim
{
enum class call {
    malloc,
    host,
    copy,
    launch,
    product,
    algorithm,
    epilogue,
    start,
    grouped,
    synchronize,
    open,
    kernel,
    choose,
    free
};

/* Returns the error with which this call on the current device must fail, or cudaSuccess. */
cudaError_t fault(call kind);

/* The current device of this thread. */
int current_device();

/* While a visit exists, its device is the current device. The shim uses visits for calls that CUDA allows on streams
 * and memory of any device. */
struct visit {
    int from;
    explicit visit(int device);
    ~visit();
};

/* Returns whether a sticky error has broken the current device. */
bool is_broken();

void mend(int device); /* repairs a broken device, for cudaDeviceReset */
} // namespace shim

#endif
