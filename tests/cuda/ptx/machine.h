/* machine: the data structures with which kernels run. A kernel is decoded into an array of instructions. Each warp has
 * a register file, which stores the values of a register's 32 lanes side by side. A lane's value has 4 bytes if the
 * register has at most 32 bits, otherwise 8 bytes. A predicate is one word of 32 bits with a bit for each lane.
 * Constants and special registers (%tid.x) are in the register file, too, but no instruction writes them. An
 * instruction can therefore find all of its operands in the register file. */
#ifndef TESTS_CUDA_PTX_MACHINE_H
#define TESTS_CUDA_PTX_MACHINE_H

#include "tests/cuda/ptx/emulator.h"
#include "tests/cuda/ptx/text.h"

#include <cstdint>
#include <memory>

namespace ptx
{
constexpr unsigned LANES = 32;
constexpr uint32_t ALL_LANES = ~0u;
constexpr unsigned MAX_OPERANDS = 16;
constexpr uint64_t SHARED_BEGIN = 1024; /* first address in state space .shared. A GPU reserves the first 1 KiB */

struct warp;
struct instruction;
using handler = void (*)(warp &, const instruction &);

/* Memory of the host that a kernel may access: the addresses from `begin` up to, but not including, `end`. */
struct range {
    uint64_t begin = 1, end = 0;
};

/* An address: the value of a register in each lane, plus a constant. */
struct reference {
    uint32_t at = 0;
    bool wide = false; /* the register has 64 bits */
    int64_t added = 0;
};

struct instruction {
    handler run = nullptr;          /* executes the instruction in the lanes warp.active, at least one */
    uint32_t at[MAX_OPERANDS] = {}; /* offset in bytes of each operand in the register file */
    uint32_t flips = 0;             /* bit n: operand n is a predicate to be negated */
    uint32_t guard_at = 0;          /* offset of the predicate of `@%p` */
    uint32_t guard_flip = 0;        /* mask that inverts the predicate: all bits set for `@!%p` */
    bool guarded = false;
    bool changes_path = false;         /* `run` may change the path's pc or lanes (warp.now), or the warp's state */
    bool may_pause = false;            /* if the order of warps is random, another warp may run after the
                                          instruction. True for accesses that may be to shared memory, atomic
                                          operations, copies, fences, and instructions with which lanes or warps
                                          meet */
    reference address, target;         /* memory operands. `target` is the destination of an asynchronous copy */
    space where = SPACE_GENERIC;       /* state space of the access */
    uint32_t parts = 1;                /* number of elements of a vector, number of matrices of ldmatrix and stmatrix,
                                          or number of bytes of an asynchronous copy's destination */
    int64_t number = 0;                /* index of a branch's target, offset of a loaded parameter, or number of the
                                          newest copy groups that a wait leaves pending */
    mutable range last;                /* the allocation that the last access to global memory was in */
    mutable uint64_t last_launch = 0;  /* number of the launch that set `last` */
    handler after = nullptr;           /* for a cvt with a source register wider than the source type: the conversion.
                                          `run` calls it after it has copied the lower half of the register */
    const statement *source = nullptr; /* the decoded statement, for messages */
};

/* A special register that the kernel reads, such as "tid.x". */
struct special {
    std::string name;
    uint32_t at;
};

struct kernel {
    entry source;
    struct module *owner = nullptr;
    std::vector<size_t> parameter_offsets;
    size_t parameter_bytes = 0;
    size_t static_shared_bytes = 0; /* dynamic shared memory is not included */
    /* The members below are set when the kernel is decoded. */
    bool decoded = false;
    struct body body;
    std::vector<instruction> code; /* the last instruction ends the thread */
    std::vector<char> file;        /* initial contents of the register file, without the values of special registers */
    std::vector<special> specials;
    size_t register_bytes = 0; /* size of the part of `file` with the registers that the kernel declares. Constants,
                                  special registers and copies for conversions (decode_narrowed) follow */
    size_t local_bytes = 0;    /* size of a thread's local memory */
};

struct variable_of_module {
    std::vector<char> memory; /* longer than the variable, which allows `first` to be aligned */
    char *first;
    size_t bytes;
};

struct module {
    struct file source;
    std::vector<std::unique_ptr<kernel>> kernels;
    std::map<std::string, variable_of_module> variables; /* variables in state spaces .global and .const, by name */
};

/* Lanes of a warp that execute the same instructions together. After a branch that only some lanes take, a warp has
 * several paths. */
struct path {
    uint32_t pc, lanes;
    bool waits; /* the path waits for other lanes of the warp */
};

/* Asynchronous copies that one instruction has started. `lanes` are the lanes whose copies have not arrived. */
struct pending_copy {
    uint32_t lanes;
    uint32_t bytes;             /* size of each lane's destination */
    uint32_t to[LANES];         /* destinations: addresses in state space .shared */
    uint64_t from[LANES];       /* sources: addresses of the host */
    uint32_t from_bytes[LANES]; /* bytes to copy. The rest of the destination becomes 0 */
    uint32_t group[LANES];
};

enum warp_state { RUNS, AT_BARRIER, ENDED };

struct block;

struct warp {
    struct block *block;
    unsigned number;
    warp_state state;
    uint32_t active; /* lanes that execute the current instruction */
    uint32_t alive;  /* lanes that have not ended */
    uint32_t ended;  /* lanes that have ended */
    path now;
    std::vector<path> others;
    char *file;
    char *local;            /* local memory of lane 0. Each lane has block.local_stride bytes */
    uint32_t groups[LANES]; /* number of groups of asynchronous copies that each lane has committed so far */
    std::vector<pending_copy> copies;

    template <typename T> T *lanes(uint32_t at)
    {
        return (T *)(file + at);
    }
};

/* The last write and the last read of two bytes of shared memory. races.cpp describes the values. */
struct access_record {
    uint32_t written, read;
};

struct launch {
    const struct kernel *kernel;
    const struct grid *grid;
    memory_test is_device_memory;
    std::vector<char> parameters;
    std::vector<range> known; /* allocations and variables that the kernel may access, as found so far */
    uint64_t number, random;
};

struct block {
    struct launch *launch;
    unsigned place[3];
    char *shared; /* address of the host that corresponds to SHARED_BEGIN */
    size_t shared_bytes;
    access_record *records;
    uint32_t epoch; /* increases at each barrier, and when a block begins */
    size_t local_stride;
    char *locals; /* local memory of the first thread */
    size_t locals_bytes;
    std::vector<warp> warps;
};

/* Ends the process. The message names the kernel, the instruction, the block and the thread. */
[[noreturn]] void fault(const warp &warp, const instruction &instruction, unsigned lane, const std::string &why);

unsigned random_below(launch &launch, unsigned n);

/* Returns the lowest lane of a set of lanes. The set must not be empty. */
static inline unsigned first_lane(uint32_t lanes)
{
    return (unsigned)__builtin_ctz(lanes);
}
} // namespace ptx

#endif
