/* redirect: makes the CUDA engine that `make cuda` builds for users call this library instead of NVIDIA's runtime.
 *
 * NVIDIA's runtime is linked into build/libengine_cuda.so. The engine does not export the runtime's functions. This
 * library replaces libcublasLt.so, which the engine needs. The dynamic linker therefore initialises this library after
 * it has mapped the engine, and before it initialises the engine. At this moment, this library overwrites the entry of
 * each function of the runtime with a jump. The jump leads to the function of the same name in this library. If this
 * library lacks the function, a call of it ends the process with a message that names the function. The addresses come
 * from the symbol tables of both libraries. Nothing else of the engine is changed. */
#include "tests/cuda/shim/runtime.h"
#include "tests/cuda/shim/symbols.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <map>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#define ENGINE "/libengine_cuda.so"

namespace
{
struct library {
    std::string path;
    char *base;
};

int is_engine(struct dl_phdr_info *info, size_t, void *found)
{
    size_t length = strlen(info->dlpi_name), wanted = strlen(ENGINE);
    if (length < wanted || strcmp(info->dlpi_name + length - wanted, ENGINE) != 0)
        return 0;
    *(library *)found = {info->dlpi_name, (char *)info->dlpi_addr};
    return 1;
}

bool is_of_runtime(const char *name)
{
    return strncmp(name, "cuda", 4) == 0 || strncmp(name, "__cuda", 6) == 0;
}

[[noreturn]] void die_of(const char *name)
{
    fprintf(stderr, "CUDA on PTX: the engine calls %s, which the shim's runtime lacks\n", name);
    abort();
}

/* Returns machine code that jumps to `target`. If `name` is not NULL, the code passes it as the first argument. */
std::string jump_to(const void *target, const char *name)
{
    std::string code;
    auto move = [&](const char *instruction, const void *value) {
        code += instruction;
        code.append((const char *)&value, sizeof value);
    };
    if (name)
        move("\x48\xbf", name);   /* movabs rdi */
    move("\x49\xbb", target);     /* movabs r11 */
    return code + "\x41\xff\xe3"; /* jmp r11 */
}

/* Returns a function that ends the process with a message that contains `name`. The function is never freed. */
const void *trap_of(const std::string &name)
{
    static char *room = nullptr;
    static size_t left = 0;
    std::string code = jump_to((const void *)die_of, strdup(name.c_str()));
    if (left < code.size()) {
        left = (size_t)1 << 20;
        room = (char *)mmap(NULL, left, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED)
            shim::die("there is no memory for code");
    }
    char *trap = room;
    memcpy(trap, code.data(), code.size());
    room += code.size();
    left -= code.size();
    return trap;
}

void allow(char *place, size_t bytes, int access)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), past = (uintptr_t)place % page;
    if (mprotect(place - past, past + bytes, access) != 0)
        shim::die("the engine's code cannot be changed");
}

void overwrite(char *place, const std::string &code)
{
    allow(place, code.size(), PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(place, code.data(), code.size());
    allow(place, code.size(), PROT_READ | PROT_EXEC);
}

__attribute__((constructor)) void redirect()
{
    library engine;
    Dl_info own;
    std::map<std::string, const void *> replacements;
    std::map<uint64_t, std::string> jumps; /* machine code of each jump, by its offset in the engine. Two functions may
                                              have the same offset */
    std::set<uint64_t> places;             /* offsets of all functions of the engine */
    size_t redirected = 0;
    if (dl_iterate_phdr(is_engine, &engine) == 0)
        shim::die("libengine_cuda.so was not loaded before this library");
    if (!dladdr((const void *)redirect, &own))
        shim::die("this library has no file");
    shim::for_each_function(own.dli_fname, [&](const shim::symbol &symbol) {
        if (is_of_runtime(symbol.name))
            replacements[symbol.name] = (char *)own.dli_fbase + symbol.offset;
    });
    shim::for_each_function(engine.path.c_str(), [&](const shim::symbol &symbol) {
        auto found = replacements.find(symbol.name);
        places.insert(symbol.offset);
        if (!is_of_runtime(symbol.name))
            return;
        if (found == replacements.end())
            jumps.emplace(symbol.offset, jump_to(trap_of(symbol.name), nullptr));
        else
            jumps[symbol.offset] = jump_to(found->second, nullptr);
        redirected += found != replacements.end();
    });
    if (redirected == 0)
        shim::die("libengine_cuda.so was stripped, or has no runtime");
    for (auto &[offset, jump] : jumps) {
        auto next = places.upper_bound(offset);
        if (next != places.end() && *next - offset < jump.size()) /* never true, because functions are aligned to 16
                                                                     bytes */
            shim::die("a function of the runtime has no room for a jump");
        overwrite(engine.base + offset, jump);
    }
}
} // namespace
