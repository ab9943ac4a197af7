/* shim: the part of CUDA that engine/cuda uses, on the CPU. g++ compiles the same .cu files as nvcc, with this folder
 * first in its include path. NVIDIA's headers are not needed: these declarations have the same names and meanings. The
 * environment variables SHIM_… are settings for tests.
 *
 * The threads of a block are fibers (threads.cpp), which switch only at barriers and shuffles. Blocks run one after
 * another. A lane is a thread of a warp. SHIM_SEED chooses the order of threads, and of blocks:
 *
 *     0              lockstep: each warp runs to the next barrier before the next warp runs,
 *                    and each of its lanes to the next shuffle before the next lane runs
 *     odd            random
 *     other even     one thread runs as far as it can, then another. Blocks are in random order
 *
 * Errors that would hang or be undefined on a device end the process with a message. Examples are a barrier that some
 * threads do not reach, and a shuffle that lacks lanes of its warp. Device memory (runtime.cpp) is filled with NaNs.
 * The address sanitizer reports accesses of the host to device memory.
 *
 * Streams, events and graphs are in streams.cpp. SHIM_DEVICES is the number of devices. If a kernel or product gets
 * memory of another device than the current one, the process ends. The same holds for work on a stream of another
 * device. Tests can make calls fail (faults.h). */
#ifndef TESTS_CUDA_SHIM_CUDA_RUNTIME_H
#define TESTS_CUDA_SHIM_CUDA_RUNTIME_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
/* A __shared__ variable is one object for all threads of the running block. The section of these variables is filled
 * with NaNs before a block, if a block has reached a barrier since the last filling. gcc ignores the section in
 * templates, so kernels that are templates use dynamic_shared_memory. dynamic_shared_memory has the size that the
 * launch requests, and is filled with NaNs before each block. */
#define __shared__ static __attribute__((section("shared_memory")))
#define dynamic_shared_memory (shim::dynamic_memory)

struct uint3 {
    unsigned x, y, z;
};

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

struct alignas(8) float2 {
    float x, y;
};

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

/* ---- For kernels ---- */

namespace shim
{
struct thread {
    uint3 index;
    unsigned number; /* number of the thread in its block */
};
extern thread *current;

void barrier(int line);
uint64_t shuffle(unsigned mask, uint64_t value, unsigned source, int line);
bool any(unsigned mask, bool predicate, int line);

/* Waits until all 32 lanes of the warp have called this function from the same line. The last lane to arrive calls
 * `work` with the values `of_lane` of all lanes. The function does not order accesses to memory. */
void warp(void (*work)(void *const *of_lanes), void *of_lane, int line);
void warp_barrier(int line);

/* Asynchronous copies of 16 bytes to shared memory. copies_commit closes a group. copies_wait completes all copies
 * except those of the newest `pending` groups. */
void copy_later(void *to, const void *from, bool zeros);
void copies_commit();
void copies_wait(unsigned pending);

extern char *dynamic_memory;
} // namespace shim

#define threadIdx (shim::current->index)
extern uint3 blockIdx;
extern dim3 blockDim; /* not a macro, because cudaLaunchConfig_t has a member with this name */

static inline void __syncthreads(int line = __builtin_LINE())
{
    shim::barrier(line);
}

template <typename T> T __shfl_sync(unsigned mask, T value, int source, int line = __builtin_LINE())
{
    static_assert(sizeof(T) <= 8, "values of at most 8 bytes are shuffled");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = shim::shuffle(mask, bits, (unsigned)source, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int line = __builtin_LINE())
{
    return __shfl_sync(mask, value, (int)(shim::current->number % 32) ^ lanes, line);
}

static inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE())
{
    return shim::any(mask, predicate != 0, line);
}

static inline int atomicAdd(int *address, int value)
{
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

/* Each call advances the clock. Therefore a loop that waits for the clock comes to an end, although no other thread
 * runs meanwhile. */
long long clock64();

static inline uint32_t __float_as_uint(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float __uint_as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void __syncwarp(int line = __builtin_LINE())
{
    shim::warp_barrier(line);
}

/* ---- For the host ---- */

#define CUDART_VERSION 13010 /* the shim acts as version 13.1 of the toolkit */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorNotSupported = 801,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum { cudaStreamNonBlocking = 1 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };

enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;

struct cudaDeviceProp {
    char name[256];
    int major, minor;
    int multiProcessorCount;
    size_t sharedMemPerBlockOptin, sharedMemPerMultiprocessor, reservedSharedMemPerBlock;
};

struct cudaFuncAttributes {
    int maxDynamicSharedSizeBytes;
};

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceReset();
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMallocHost(void **memory, size_t bytes);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int bytes);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *kernel);

#include "tests/cuda/shim/runtime.h"

namespace shim
{
/* A kernel and its arguments. A class with one virtual function compiles faster than std::function. */
struct kernel_call {
    virtual ~kernel_call() = default;
    virtual void run() const = 0; /* runs one thread through the kernel */
};

template <typename... Parameters> struct kernel_call_of final : kernel_call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> values;

    kernel_call_of(void (*kernel)(Parameters...), const Parameters &...value) : kernel(kernel), values(value...)
    {
    }
    void run() const override
    {
        std::apply(kernel, values);
    }
};

/* Launches a kernel, and takes ownership of `call`. */
cudaError_t launch_call(const cudaLaunchConfig_t &configuration, const void *kernel, const kernel_call *call);

template <typename T> void check_argument(const T &)
{
}
template <typename T> void check_argument(T *const &pointer)
{
    if (pointer && !is_device_memory(pointer, 1))
        die("an argument of a kernel is not a device pointer");
}
} // namespace shim

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *configuration, void (*kernel)(Parameters...),
                               Arguments &&...arguments)
{
    (shim::check_argument(static_cast<Parameters>(arguments)), ...);
    return shim::launch_call(*configuration, (const void *)kernel,
                             new shim::kernel_call_of<Parameters...>(kernel, static_cast<Parameters>(arguments)...));
}

template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int bytes)
{
    return cudaFuncSetAttribute((const void *)kernel, attribute, bytes);
}

template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(Parameters...))
{
    return cudaFuncGetAttributes(attributes, (const void *)kernel);
}

/* The begin and the end of section shared_memory. The linker defines these symbols. */
extern "C" {
extern char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));
}

#endif
