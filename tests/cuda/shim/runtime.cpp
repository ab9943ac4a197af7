/* Simulates devices, memory and launches. */
#include "faults.h"
#include "kernels.h"
#include "streams.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#define MAX_THREADS 1024
#define SHARED_BYTES (48 << 10)    /* bytes of shared memory that a kernel may use without cudaFuncSetAttribute */
#define RESERVED_SHARED_BYTES 1024 /* bytes of shared memory that CUDA reserves in each block */

struct allocation {
    size_t bytes;
    int device; /* number of the device, or PINNED for pinned memory of the host */
};

#define PINNED (-1)

std::recursive_mutex shim::mutex;
static std::map<const char *, allocation> allocations;
static std::map<int, unsigned> opened; /* number of threads that use the memory of each device */
/* The size that cudaFuncSetAttribute has set for each kernel and device. */
static std::map<std::pair<const void *, int>, int> shared_bytes;
static thread_local cudaError_t last_error;
static thread_local int chosen_device;

using shim::fail;
using shim::guard;
using shim::mutex;

cudaError_t shim::fail(cudaError_t error)
{
    return last_error = error;
}

int shim::current_device()
{
    return chosen_device;
}

shim::visit::visit(int device) : from(chosen_device)
{
    chosen_device = device;
}

shim::visit::~visit()
{
    chosen_device = from;
}

static bool is_within_one(const void *memory, size_t bytes, int device)
{
    guard lock(mutex);
    auto behind = allocations.upper_bound((const char *)memory);
    if (behind == allocations.begin())
        return false;
    --behind;
    return (const char *)memory + bytes <= behind->first + behind->second.bytes && behind->second.device == device;
}

/* Returns false for memory of another device than the current device. */
bool shim::is_device_memory(const void *memory, size_t bytes)
{
    return is_within_one(memory, bytes, chosen_device);
}

bool shim::is_pinned_memory(const void *memory, size_t bytes)
{
    return is_within_one(memory, bytes, PINNED);
}

void shim::open_memory()
{
    guard lock(mutex);
    if (opened[chosen_device]++ > 0)
        return;
    for (auto &[memory, allocation] : allocations)
        if (allocation.device == chosen_device)
            ASAN_UNPOISON_MEMORY_REGION(memory, allocation.bytes);
}

void shim::close_memory()
{
    guard lock(mutex);
    if (--opened[chosen_device] > 0)
        return;
    for (auto &[memory, allocation] : allocations)
        if (allocation.device == chosen_device)
            ASAN_POISON_MEMORY_REGION(memory, allocation.bytes);
}

static int setting(const char *name, int usual)
{
    const char *given = getenv(name);
    return given ? atoi(given) : usual;
}

/* SHIM_SHARED_KIB is the maximum shared memory of a kernel, in KiB. The default is 163, as in compute capability 8.0.
 * The maximum is 227 in 9.0 and 10.0, and 99 in 8.6, 8.9 and 12.0. */
static int most_shared_bytes()
{
    return setting("SHIM_SHARED_KIB", 163) << 10;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int bytes)
{
    guard lock(mutex);
    if (bytes < 0 || bytes + shim::static_shared_bytes(kernel) > (size_t)most_shared_bytes())
        return fail(cudaErrorInvalidValue);
    shared_bytes[{kernel, chosen_device}] = bytes;
    return cudaSuccess;
}

static size_t allowed_shared_memory(const void *kernel)
{
    guard lock(mutex);
    auto found = shared_bytes.find({kernel, chosen_device});
    return found == shared_bytes.end() ? SHARED_BYTES - shim::static_shared_bytes(kernel) : found->second;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *kernel)
{
    if (cudaError_t error = shim::fault(shim::call::kernel))
        return fail(error);
    attributes->maxDynamicSharedSizeBytes = (int)allowed_shared_memory(kernel);
    return cudaSuccess;
}

unsigned shim::seed_of_order()
{
    const char *given = getenv("SHIM_SEED");
    return given ? (unsigned)strtoul(given, nullptr, 10) : 0;
}

cudaError_t shim::launch(const cudaLaunchConfig_t &configuration, const void *kernel,
                         std::function<void(const grid &)> run)
{
    guard lock(mutex);
    if (cudaError_t error = fault(call::launch))
        return fail(error);
    const grid grid = {configuration.gridDim, configuration.blockDim, configuration.dynamicSmemBytes, kernel};
    size_t threads = (size_t)grid.threads.x * grid.threads.y * grid.threads.z;
    if (threads == 0 || threads > MAX_THREADS || grid.threads.z > 64 || threads % 32 != 0 || grid.blocks.x == 0 ||
        grid.blocks.x > 0x7fffffff || grid.blocks.y == 0 || grid.blocks.y > 65535 || grid.blocks.z == 0 ||
        grid.blocks.z > 65535)
        return fail(cudaErrorInvalidConfiguration);
    if (grid.shared_bytes > allowed_shared_memory(kernel))
        return fail(cudaErrorInvalidValue);
    count(LAUNCHES);
    count_launch(kernel);
    return enqueue(configuration.stream, [=] {
        if (grid.shared_bytes > allowed_shared_memory(kernel))
            die("a kernel's limit of shared memory was lowered while a launch, or a graph, needs it");
        if (is_traced())
            trace_launch(kernel, grid);
        else
            run(grid);
        pass(milliseconds_of_kernel(kernel));
    });
}

/* SHIM_DEVICES is the number of devices. The default is 1. */
static int device_count()
{
    return setting("SHIM_DEVICES", 1);
}

/* SHIM_DRIVER is the newest version of CUDA that the driver supports. The default is the version of the toolkit. */
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = setting("SHIM_DRIVER", CUDART_VERSION);
    return cudaSuccess;
}

/* A driver supports toolkits of its own major version, and older ones. */
cudaError_t cudaGetDeviceCount(int *count)
{
    int driver;
    cudaDriverGetVersion(&driver);
    if (driver / 1000 < CUDART_VERSION / 1000)
        return fail(cudaErrorInsufficientDriver);
    if (device_count() == 0)
        return fail(cudaErrorNoDevice);
    *count = device_count();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= device_count())
        return fail(cudaErrorInvalidDevice);
    shim::visit there(device);
    if (cudaError_t error = shim::fault(shim::call::choose))
        return fail(error);
    there.from = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = chosen_device;
    return cudaSuccess;
}

cudaError_t cudaDeviceReset()
{
    guard lock(mutex);
    for (auto at = allocations.begin(); at != allocations.end();) {
        auto [memory, allocation] = *at;
        if (allocation.device != chosen_device) {
            ++at;
            continue;
        }
        ASAN_UNPOISON_MEMORY_REGION(memory, allocation.bytes);
        free((void *)memory);
        at = allocations.erase(at);
    }
    shim::drop_work();
    shim::mend(chosen_device);
    return cudaSuccess;
}

/* SHIM_PROCESSORS is the number of multiprocessors. The default is 1. */
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int)
{
    *properties = {};
    properties->multiProcessorCount = setting("SHIM_PROCESSORS", 1);
    properties->sharedMemPerBlockOptin = most_shared_bytes();
    properties->reservedSharedMemPerBlock = RESERVED_SHARED_BYTES;
    properties->sharedMemPerMultiprocessor = most_shared_bytes() + RESERVED_SHARED_BYTES;
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
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorNoKernelImageForDevice:
        return "no kernel image is available for execution on the device";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    case cudaErrorNotSupported:
        return "operation not supported";
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

/* SHIM_MEMORY is the number of bytes of each device. The default is 1 GiB. */
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    guard lock(mutex);
    const char *given = getenv("SHIM_MEMORY");
    size_t left = given ? strtoull(given, nullptr, 10) : (size_t)1 << 30;
    *memory = nullptr;
    if (cudaError_t error = shim::refuse_in_capture())
        return error;
    if (cudaError_t error = shim::fault(shim::call::malloc))
        return fail(error);
    for (auto &[other, allocation] : allocations)
        if (allocation.device == chosen_device)
            left -= std::min(left, allocation.bytes);
    if (bytes > left || posix_memalign(memory, 256, bytes ? bytes : 1) != 0)
        return fail(cudaErrorMemoryAllocation);
    memset(*memory, 0xff, bytes);
    allocations[(char *)*memory] = {bytes, chosen_device};
    if (opened[chosen_device] == 0)
        ASAN_POISON_MEMORY_REGION(*memory, bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    guard lock(mutex);
    auto found = allocations.find((char *)memory);
    if (!memory)
        return cudaSuccess;
    if (cudaError_t error = shim::refuse_in_capture())
        return error;
    if (cudaError_t error = shim::fault(shim::call::free)) /* on a broken device, cudaDeviceReset frees the memory */
        return fail(error);
    if (found == allocations.end() || found->second.device == PINNED)
        return fail(cudaErrorInvalidValue);
    shim::visit there(found->second.device);
    shim::run_work(); /* cudaFree waits for the device */
    found = allocations.find((char *)memory);
    ASAN_UNPOISON_MEMORY_REGION(memory, found->second.bytes);
    allocations.erase(found);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    guard lock(mutex);
    *memory = nullptr;
    if (cudaError_t error = shim::refuse_in_capture())
        return error;
    if (cudaError_t error = shim::fault(shim::call::host))
        return fail(error);
    *memory = malloc(bytes ? bytes : 1);
    if (!*memory)
        return fail(cudaErrorMemoryAllocation);
    allocations[(char *)*memory] = {bytes, PINNED};
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    guard lock(mutex);
    if (!memory)
        return cudaSuccess;
    if (cudaError_t error = shim::refuse_in_capture())
        return error;
    if (allocations.erase((char *)memory) == 0)
        return fail(cudaErrorInvalidValue);
    free(memory);
    return cudaSuccess;
}
