/* emulator: executes PTX, the assembly language that nvcc emits, on the CPU. So tests can run the CUDA engine in two
 * ways. The shim executes the kernels as g++ compiled them, the emulator executes them as nvcc compiled them.
 *
 * Its semantics are those of NVIDIA's manual "Parallel Thread Execution ISA". An instruction that the emulator does not
 * know ends the process, at the first use of its kernel. So does each of these faults of a kernel, with a message that
 * names the kernel, the instruction with its line in the PTX, the block and the thread:
 *     - an access outside of device memory, shared memory, local memory or the parameters
 *     - an access whose address is not a multiple of its width
 *     - an instruction of a whole warp (mma, ldmatrix) that some lanes do not reach
 *     - an instruction with a mask of lanes (shfl.sync, vote.sync, bar.warp.sync) that a lane executes although the
 *       mask does not name it, or that a lane in the mask does not reach
 *     - a barrier that some threads of the block do not reach
 *     - a thread that ends before its asynchronous copies have arrived
 *     - two warps that access the same bytes of shared memory without a barrier between them, one of them writing.
 * Data that a kernel reads before they are written have all bits set, which is a NaN in each format. This holds for
 * registers, and for shared and local memory. It also holds for the destination of an asynchronous copy until the
 * thread waits for the copy. The results of an integer division by 0 have all bits set, too.
 *
 * Threads may use a module at the same time, except for parse. Their launches run one after another. Threads of a
 * kernel that have ended do not count at a barrier. All functions end the process when a caller breaks a rule. */
#ifndef TESTS_CUDA_PTX_EMULATOR_H
#define TESTS_CUDA_PTX_EMULATOR_H

#include <cstddef>
#include <string>
#include <vector>

namespace ptx
{
struct module; /* the text of one .ptx file */
struct kernel; /* one entry of a module, which owns it */

/* Reads a module. The text is copied. `bytes` does not count a final 0, which may be missing. A module is never freed,
 * because the modules that a program registers with the CUDA runtime stay, too. */
module *parse(const char *text, size_t bytes);

/* The mangled names of all kernels, in the order of the text. */
std::vector<std::string> entries(const module *module);

/* The kernel with that mangled name. NULL: no such entry. */
const kernel *find(const module *module, const char *entry);

/* Decodes all instructions of the kernel, as its first launch does. */
void decode(const kernel *kernel);

/* Bytes of shared memory that the kernel declares itself, beside those of the launch. */
size_t static_shared_bytes(const kernel *kernel);

/* Most threads of a block (.maxntid). 1024 if the kernel does not say. */
unsigned most_threads(const kernel *kernel);

/* The sizes of the kernel's parameters in bytes, in their order. */
std::vector<size_t> parameter_bytes(const kernel *kernel);

/* The memory of a variable that the module declares in state space .global or .const. Only its own module and
 * callers of this function reach it. NULL: no such variable. */
void *variable(module *module, const char *name, size_t *bytes);

struct grid {
    unsigned blocks[3], threads[3]; /* x, y, z */
    size_t dynamic_shared_bytes;
    /* The order of the warps of a block, and of the blocks:
     * - 0: in turn.
     * - Odd: random. Another warp may run after each instruction whose effect other warps can see (may_pause in
     *   machine.h). Examples are barriers, shuffles, votes and accesses to shared memory.
     * - Other even numbers: the last warp that can continue runs as far as it can. */
    unsigned seed;
};

/* Says whether a kernel may access these bytes of the host's memory: they are in one allocation of device memory. */
using memory_test = bool (*)(const void *address, size_t bytes);

/* Runs all blocks of the grid, one after the other. arguments[i] points to parameter i. No device memory is allocated
 * or freed during the launch. So `run` remembers the answers of is_device_memory until the launch ends. */
void run(const kernel *kernel, const grid &grid, void *const *arguments, memory_test is_device_memory);

/* The number of instructions that all threads of all launches have executed so far. */
unsigned long long executed();
} // namespace ptx

#endif
