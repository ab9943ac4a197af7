/* faults: calls of the runtime that fail because a test wants them to; between the shim's own files.
 *
 * SHIM_FAULTS names a file, which is read when it is first there and whenever another has taken its name (write it
 * beside, then rename). A line of it is a rule:
 *
 *     CALL FIRST COUNT CODE [sticky] [device N]
 *
 * From that moment on the FIRST-th such call (1 is the next) and those behind it, COUNT of them in all (0: each of
 * them), fail with that cudaError_t, on any device or on that one. CALL is malloc, host (pinned memory), copy, launch,
 * product, algorithm or epilogue (cuBLASLt's; an algorithm with one; 801: it supports none such), synchronize, open
 * (streams), kernel (cudaFuncGetAttributes) or choose (cudaSetDevice). A sticky error breaks the device: all that
 * follows on it fails likewise, before cudaDeviceReset. */
#ifndef TESTS_CUDA_SHIM_FAULTS_H
#define TESTS_CUDA_SHIM_FAULTS_H

#include <cuda_runtime.h>

namespace shim
{
enum class call { malloc, host, copy, launch, product, algorithm, epilogue, synchronize, open, kernel, choose, free };

/* What this call of the current device's is to fail with; cudaSuccess: nothing. */
cudaError_t fault(call kind);

/* Of this thread. */
int current_device();

/* Some calls may be made while another device than their object's is the current one: they visit it. */
struct visit {
    int from;
    explicit visit(int device);
    ~visit();
};

/* An error sticks to the current device. */
bool is_broken();

void mend(int device); /* what cudaDeviceReset does */
} // namespace shim

#endif
