/* Device memory, streams and launches. */
#include "threads.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#define MOST_THREADS 1024
#define SHARED_BYTES (48 << 10) /* that a kernel has without asking for more */

struct shim_stream {
    std::vector<std::function<void()>> work;
};

static std::recursive_mutex mutex;
static std::map<const char *, size_t> allocations;
static cudaError_t last_error;

typedef std::lock_guard<std::recursive_mutex> guard;

static cudaError_t fail(cudaError_t error)
{
    return last_error = error;
}

bool shim::is_device_memory(const void *memory, size_t bytes)
{
    guard lock(mutex);
    auto behind = allocations.upper_bound((const char *)memory);
    if (behind == allocations.begin())
        return false;
    --behind;
    return (const char *)memory + bytes <= behind->first + behind->second;
}

/* While work of a stream runs, device memory may be touched. */
static void run_work(shim_stream *stream)
{
    for (auto &allocation : allocations)
        ASAN_UNPOISON_MEMORY_REGION(allocation.first, allocation.second);
    for (auto &work : stream->work)
        work();
    stream->work.clear();
    for (auto &allocation : allocations)
        ASAN_POISON_MEMORY_REGION(allocation.first, allocation.second);
}

cudaError_t shim::enqueue(cudaStream_t stream, std::function<void()> work)
{
    guard lock(mutex);
    if (!stream)
        die("the default stream is used");
    stream->work.push_back(std::move(work));
    return cudaSuccess;
}

cudaError_t shim::launch(const cudaLaunchConfig_t &configuration, std::function<void()> body)
{
    dim3 grid = configuration.gridDim, block = configuration.blockDim;
    size_t threads = (size_t)block.x * block.y * block.z;
    if (threads == 0 || threads > MOST_THREADS || block.z > 64 || threads % 32 != 0 || grid.x == 0 ||
        grid.x > 0x7fffffff || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535)
        return fail(cudaErrorInvalidConfiguration);
    if (configuration.dynamicSmemBytes > SHARED_BYTES)
        return fail(cudaErrorInvalidValue);
    return enqueue(configuration.stream, [=] { run_grid(grid, block, body); });
}

/* SHIM_DEVICES: as many as this; 1. */
cudaError_t cudaGetDeviceCount(int *count)
{
    const char *given = getenv("SHIM_DEVICES");
    int devices = given ? atoi(given) : 1;
    if (devices == 0)
        return fail(cudaErrorNoDevice);
    *count = devices;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int)
{
    *properties = {};
    snprintf(properties->name, sizeof properties->name, "shim");
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    default:
        return "an error of the shim";
    }
}

cudaError_t cudaGetLastError()
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

/* SHIM_MEMORY: bytes that the device has; a gibibyte. */
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    guard lock(mutex);
    const char *given = getenv("SHIM_MEMORY");
    size_t left = given ? strtoull(given, nullptr, 10) : (size_t)1 << 30;
    for (auto &allocation : allocations)
        left -= std::min(left, allocation.second);
    *memory = nullptr;
    if (bytes > left || posix_memalign(memory, 256, bytes ? bytes : 1) != 0)
        return fail(cudaErrorMemoryAllocation);
    memset(*memory, 0xff, bytes);
    allocations[(char *)*memory] = bytes;
    ASAN_POISON_MEMORY_REGION(*memory, bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    guard lock(mutex);
    auto found = allocations.find((char *)memory);
    if (!memory)
        return cudaSuccess;
    if (found == allocations.end())
        return fail(cudaErrorInvalidValue);
    ASAN_UNPOISON_MEMORY_REGION(memory, found->second);
    allocations.erase(found);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    return *memory ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *memory)
{
    free(memory);
    return cudaSuccess;
}

/* What is copied to the host is not there before the stream is waited for. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    bool up = kind == cudaMemcpyHostToDevice;
    if (shim::is_device_memory(to, bytes) != up || shim::is_device_memory(from, bytes) == up)
        return fail(cudaErrorInvalidValue);
    if (!up)
        memset(to, 0xff, bytes);
    return shim::enqueue(stream, [=] { memcpy(to, from, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    *stream = new shim_stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    guard lock(mutex);
    run_work(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaStreamSynchronize(stream);
    delete stream;
    return cudaSuccess;
}
