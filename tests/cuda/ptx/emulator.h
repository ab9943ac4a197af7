/* emulator: executes PTX, the assembly language that nvcc emits, on the CPU. Tests can therefore run the CUDA engine
 * without a GPU in two ways. The shim (tests/cuda/shim) runs the kernels as g++ compiles them. The emulator runs the
 * kernels as nvcc compiles them.
 *
 * The semantics are those of NVIDIA's manual "Parallel Thread Execution ISA". An instruction that the emulator does not
 * support ends the process at the first use of its kernel. Each of the following faults of a kernel also ends the
 * process. The message names the kernel, the instruction with its line in the PTX, the block and the thread:
 *     - an access outside of device memory, shared memory, local memory or the parameters
 *     - an access whose address is not a multiple of its width
 *     - an instruction of a whole warp (mma, ldmatrix) that some lanes do not reach
 *     - an instruction with a mask of lanes (shfl.sync, vote.sync, bar.warp.sync) that a lane outside of the mask
 *       executes, or that a lane in the mask does not reach
 *     - a barrier that some threads of the block do not reach, although they have not ended
 *     - a thread that ends before its asynchronous copies have arrived
 *     - accesses of two warps to the same bytes of shared memory, at least one of them a write, without a barrier
 *       between them (exceptions: races.cpp)
 * Data that a kernel reads before they are written have all bits set, which is a NaN in each format. This holds for
 * registers, and for shared and local memory. It also holds for the destination of an asynchronous copy until the
 * thread waits for the copy. The results of an integer division by 0 have all bits set, too.
 *
 * Threads of the host may call all functions for a module at the same time, except for `parse`. Their launches run one
 * after another. A barrier does not wait for threads of the kernel that have ended. All functions end the process when
 * a caller breaks a rule. */
#ifndef TESTS_CUDA_PTX_EMULATOR_H
#define TESTS_CUDA_PTX_EMULATOR_H

#include <cstddef>
#include <string>
#include <vector>

namespace ptx
{
struct module; /* the kernels and variables of one .ptx file */
struct kernel; /* a kernel (.entry). Its module owns the object */

/* Parses the text of a .ptx file, and copies it. `bytes` is the length without a final 0. The text need not end with a
 * 0. A module is never freed, because kernels that nvcc's host code registers exist until the process ends. */
module *parse(const char *text, size_t bytes);

/* The mangled names of all kernels, in the order of the text. */
std::vector<std::string> entries(const module *module);

/* Returns the kernel with the mangled name `entry`, or NULL if the module contains no such kernel. */
const kernel *find(const module *module, const char *entry);

/* Decodes all instructions of the kernel. The first launch also does so if necessary. */
void decode(const kernel *kernel);

/* Returns the number of bytes of shared memory that the kernel declares. The dynamic shared memory of a launch is not
 * included. */
size_t static_shared_bytes(const kernel *kernel);

/* Returns the maximum number of threads of a block (.maxntid), or 1024 if the kernel does not state it. */
unsigned most_threads(const kernel *kernel);

/* The sizes of the kernel's parameters in bytes, in their order. */
std::vector<size_t> parameter_bytes(const kernel *kernel);

/* Returns the memory of a variable that the module declares in state space .global or .const, or NULL if there is no
 * such variable. Only kernels of the module and callers of this function can access the memory. */
void *variable(module *module, const char *name, size_t *bytes);

struct grid {
    unsigned blocks[3], threads[3]; /* x, y, z */
    size_t dynamic_shared_bytes;
    /* The order in which blocks run, and the warps of a block:
     * - 0: Blocks run in the order of their numbers. The warps of a block take turns.
     * - Odd: Both orders are random. Another warp may run after each instruction with may_pause (machine.h). Examples
     *   are barriers, shuffles, votes and accesses to shared memory.
     * - Other even numbers: Blocks run in random order. The last warp that can continue runs as far as it can. */
    unsigned seed;
};

/* Returns whether a kernel may access these bytes of the host's memory. The result is true if a single allocation of
 * device memory contains all of them. */
using memory_test = bool (*)(const void *address, size_t bytes);

/* Runs all blocks of the grid, one after another. arguments[i] points to the value of parameter i. The caller must not
 * allocate or free device memory during the launch, because `run` caches the results of is_device_memory until the
 * launch ends. */
void run(const kernel *kernel, const grid &grid, void *const *arguments, memory_test is_device_memory);

/* The number of instructions that all threads of all launches have executed so far. */
unsigned long long executed();
} // namespace ptx

#endif
