/* launch: functions for tests with their own kernels: a stream, copies to and from the device, and launches. */
#ifndef TESTS_CUDA_LAUNCH_H
#define TESTS_CUDA_LAUNCH_H

#include "engine/cuda/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include <cmocka.h>
}

static cudaStream_t stream;

/* open_stream and close_stream are setup and teardown of a group of tests. */
static int open_stream(void **)
{
    cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (status != cudaSuccess)
        print_message("no stream: %s\n", cudaGetErrorString(status));
    return status == cudaSuccess ? 0 : -1;
}

static int close_stream(void **)
{
    return cudaStreamDestroy(stream) == cudaSuccess ? 0 : -1;
}

/* Allocates device memory, and copies `bytes` bytes to it. */
static void *to_device(const void *from, size_t bytes)
{
    void *memory;
    assert_int_equal(cudaMalloc(&memory, bytes), cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(memory, from, bytes, cudaMemcpyHostToDevice, stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess); /* the caller may overwrite `from` afterwards */
    return memory;
}

/* Copies device memory to the host, and frees the device memory. */
static void to_host(void *to, void *memory, size_t bytes)
{
    assert_int_equal(cudaMemcpyAsync(to, memory, bytes, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    cudaFree(memory);
}

/* Launches the kernel with a single block. */
template <typename... Parameters, typename... Arguments>
static void launch_block(void (*kernel)(Parameters...), unsigned threads, size_t shared_bytes, Arguments... arguments)
{
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = dim3(1);
    configuration.blockDim = dim3(threads);
    configuration.dynamicSmemBytes = shared_bytes;
    configuration.stream = stream;
    assert_int_equal(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes),
                     cudaSuccess);
    assert_int_equal(cudaLaunchKernelEx(&configuration, kernel, static_cast<Parameters>(arguments)...), cudaSuccess);
}

#endif
