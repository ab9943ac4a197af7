/* Names of kernels, the number of launches of each kernel, and the trace. */
#include "kernels.h"
#include "symbols.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <map>
#include <mutex>

static std::mutex mutex;
static std::map<const void *, uint64_t> launches;

/* Reads the name from the symbol table of the kernel's library. Kernels are static, so dladdr does not find their
 * names. */
static std::string mangled_name(const void *kernel)
{
    Dl_info found;
    std::string name;
    if (!dladdr(kernel, &found))
        shim::die("a kernel is in no library");
    uint64_t offset = (uint64_t)((const char *)kernel - (const char *)found.dli_fbase);
    shim::for_each_function(found.dli_fname, [&](const shim::symbol &symbol) {
        if (symbol.offset == offset && name.empty())
            name = symbol.name;
    });
    if (name.empty())
        shim::die("a kernel has no name, because the library was stripped");
    return name;
}

/* Returns the name of a kernel, such as "attend_tensor<__nv_bfloat16, 64, 2>". The name excludes the type of the result
 * and the parameters. */
static std::string name_of(const void *kernel)
{
    static std::map<const void *, std::string> known;
    auto found = known.find(kernel);
    if (found != known.end())
        return found->second;
    std::string name = mangled_name(kernel);
    char *plain = abi::__cxa_demangle(name.c_str(), NULL, NULL, NULL);
    if (plain)
        name = plain;
    free(plain);
    size_t begin = name.compare(0, 5, "void ") == 0 ? 5 : 0;
    return known[kernel] = name.substr(begin, name.find('(', begin) - begin);
}

void shim::count_launch(const void *kernel)
{
    std::lock_guard<std::mutex> lock(mutex);
    launches[kernel]++;
}

/* Returns the number of launches of all kernels whose names begin with `name`. */
extern "C" __attribute__((visibility("default"))) uint64_t shim_launches_of(const char *name)
{
    std::lock_guard<std::mutex> lock(mutex);
    uint64_t count = 0;
    for (auto &[kernel, times] : launches)
        if (name_of(kernel).compare(0, strlen(name), name) == 0)
            count += times;
    return count;
}

float shim::milliseconds_of_kernel(const void *kernel)
{
    const char *given = getenv("SHIM_KERNEL_MS"), *sign = given ? strchr(given, '=') : NULL;
    if (!given)
        return 4;
    if (!sign)
        return strtof(given, NULL);
    std::lock_guard<std::mutex> lock(mutex);
    bool named = name_of(kernel).compare(0, (size_t)(sign - given), given, (size_t)(sign - given)) == 0;
    return named ? strtof(sign + 1, NULL) : 0;
}

bool shim::is_traced()
{
    return getenv("SHIM_TRACE") != NULL;
}

void shim::trace(const char *format, ...)
{
    std::lock_guard<std::mutex> lock(mutex);
    static FILE *out = fopen(getenv("SHIM_TRACE"), "w");
    va_list arguments;
    if (!out)
        die("SHIM_TRACE names a file that cannot be written");
    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
    fflush(out);
}

void shim::trace_launch(const void *kernel, const grid &grid)
{
    std::string name;
    {
        std::lock_guard<std::mutex> lock(mutex);
        name = name_of(kernel);
    }
    const dim3 &blocks = grid.blocks, &threads = grid.threads;
    trace("kernel\t%s\t%u %u %u\t%u\t%zu\n", name.c_str(), blocks.x, blocks.y, blocks.z,
          threads.x * threads.y * threads.z, grid.shared_bytes);
}
