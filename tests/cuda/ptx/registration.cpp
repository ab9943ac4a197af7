/* registration: the functions that nvcc's host code calls to register kernels and to launch them. Together with the
 * runtime of the shim (shim/runtime.h), which simulates memory, streams and events, they replace NVIDIA's runtime. Each
 * launch runs in the PTX emulator.
 *
 * An object file of nvcc registers a fat binary, which contains the PTX of its kernels. For each kernel, it registers
 * the address of the host function that represents the kernel. NVIDIA documents neither these calls nor the format. The
 * toolkit's crt/host_runtime.h declares the calls.
 *
 * The environment variable PTX_ENTRIES names a file. Before a kernel runs for the first time in this process, its name
 * is appended to the file. */
#include "tests/cuda/ptx/emulator.h"
#include "tests/cuda/ptx/fat_binary.h"
#include "tests/cuda/shim/streams.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <memory>
#include <unistd.h>

/* The wrapper of a fat binary, which an object file registers. */
struct fat_wrapper {
    uint32_t magic, version;
    const char *data; /* the fat binary */
};

#define WRAPPER_MAGIC 0x466243b1u

struct binary {
    const char *data;
    ptx::module *module; /* NULL until a kernel of the binary is needed */
};

struct function {
    binary *from;
    std::string entry;
    const ptx::kernel *kernel = nullptr; /* NULL until the kernel is needed */
    bool ran = false;
};

/* Maps the addresses of host functions to kernels. The map is a local variable, because object files register kernels
 * before the variables of this file are initialised. */
static std::map<const void *, function> &functions()
{
    static std::map<const void *, function> all;
    return all;
}

[[noreturn]] static void die_of(const char *what, const char *name)
{
    fprintf(stderr, "CUDA on PTX: %s: %s\n", name, what);
    abort();
}

void shim::die(const char *what)
{
    die_of(what, "runtime");
}

static function &function_of(const void *stub)
{
    shim::guard lock(shim::mutex);
    auto found = functions().find(stub);
    if (found == functions().end())
        shim::die("the launched function is not a kernel");
    function &function = found->second;
    if (function.kernel)
        return function;
    binary *from = function.from;
    if (!from->module) {
        std::string text = ptx::newest_ptx(from->data);
        from->module = ptx::parse(text.data(), text.size());
    }
    function.kernel = ptx::find(from->module, function.entry.c_str());
    if (!function.kernel)
        die_of("the PTX has no kernel of this name", function.entry.c_str());
    return function;
}

size_t shim::static_shared_bytes(const void *kernel)
{
    return ptx::static_shared_bytes(function_of(kernel).kernel);
}

/* Appends the name of the kernel to the file PTX_ENTRIES. Each line is a single write, because several processes append
 * to the file. */
static void note_first_run(function &function)
{
    const char *path = getenv("PTX_ENTRIES");
    if (function.ran || !path)
        return;
    function.ran = true;
    std::string line = function.entry + "\n";
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line.data(), line.size()) != (ssize_t)line.size())
        die_of("the file of PTX_ENTRIES cannot be written", path);
    close(file);
}

static void run_launch(function &function, const shim::grid &grid, const std::vector<std::vector<char>> &values)
{
    std::vector<void *> arguments;
    for (auto &value : values)
        arguments.push_back((void *)value.data());
    note_first_run(function);
    const dim3 &blocks = grid.blocks, &threads = grid.threads;
    const ptx::grid emulated = {
        {blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z}, grid.shared_bytes, shim::seed_of_order()};
    ptx::run(function.kernel, emulated, arguments.data(), shim::is_device_memory);
}

/* Copies the values of the arguments, because the launch may run after the caller has changed them. */
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *configuration, const void *stub, void **arguments)
{
    function &function = function_of(stub);
    std::vector<std::vector<char>> values;
    for (size_t bytes : ptx::parameter_bytes(function.kernel)) {
        const char *value = (const char *)arguments[values.size()];
        values.emplace_back(value, value + bytes);
    }
    return shim::launch(*configuration, stub,
                        [&function, values](const shim::grid &grid) { run_launch(function, grid, values); });
}

/* ---- Functions that nvcc's host code calls when the library is loaded ---- */

extern "C" {
void **__cudaRegisterFatBinary(void *wrapper)
{
    const fat_wrapper *given = (const fat_wrapper *)wrapper;
    if (given->magic != WRAPPER_MAGIC)
        die_of("the magic number of its wrapper is wrong", "fat binary");
    return (void **)new binary{given->data, nullptr};
}

void __cudaRegisterFunction(void **registered, const char *stub, char *, const char *entry, int, uint3 *, uint3 *,
                            dim3 *, dim3 *, int *)
{
    functions()[stub] = {(binary *)registered, entry};
}

void __cudaRegisterFatBinaryEnd(void **)
{
}

void __cudaUnregisterFatBinary(void **)
{
}

char __cudaInitModule(void **)
{
    return 1;
}

/* ---- Functions that nvcc's host code calls for kernel<<<...>>>(...). The engine does not use this syntax ---- */

static cudaError_t die_in_stub()
{
    shim::die("a kernel is launched without cudaLaunchKernelEx");
}

cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *)
{
    return die_in_stub();
}

cudaError_t __cudaGetKernel(cudaKernel_t *, const void *)
{
    return die_in_stub();
}

cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t)
{
    return die_in_stub();
}

cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t)
{
    return die_in_stub();
}
}
