/* machine: runs kernels. A kernel is decoded into an array of instructions. A warp has a file of registers. For each
 * register, the values of the 32 lanes lie side by side. A lane has 4 bytes if the register has at most 32 bits,
 * otherwise 8 bytes. A predicate is one word with a bit for each lane. Constants and special registers (%tid.x) are
 * registers of the same file, which no instruction writes. So an instruction has only registers as operands. */
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
constexpr unsigned MOST_OPERANDS = 16;
constexpr uint64_t SHARED_BEGIN = 1024; /* first address in state space .shared. A GPU reserves the 1 KiB below it */

struct warp;
struct instruction;
using handler = void (*)(warp &, const instruction &);

/* Memory of the host that a kernel may access, from one address to another. */
struct range {
    uint64_t begin = 1, end = 0;
};

/* An address: a register of each lane, plus a number. */
struct reference {
    uint32_t at = 0;
    bool wide = false; /* the register has 64 bits */
    int64_t added = 0;
};

struct instruction {
    handler run = nullptr;           /* executes it for warp.active, which has lanes */
    uint32_t at[MOST_OPERANDS] = {}; /* of each operand: its first byte in the file of registers */
    uint32_t flips = 0;              /* bit n: operand n is a predicate to be negated */
    uint32_t guard_at = 0;           /* the predicate of `@%p` */
    uint32_t guard_flip = 0;         /* all bits set for `@!%p` */
    bool guarded = false;
    bool changes_path = false;         /* run may change warp.pc, the lanes of the path, or stop the warp */
    bool may_pause = false;            /* other warps can see an effect of the instruction, so the order of warps
                                          matters. In a random order, another warp may run after it */
    reference address, target;         /* `target` is the destination of a copy */
    space where = SPACE_GENERIC;       /* of an access */
    uint32_t parts = 1;                /* of a vector: its elements. Of ldmatrix: its matrices. Of a copy: the bytes of
                                          its destination */
    int64_t number = 0;                /* of a branch: the index of its target. Of a load of a parameter: the offset. Of
                                          a wait for copies: the number of newest groups that may still be on their
                                          way */
    mutable range last;                /* where the last access was found to be allowed */
    mutable uint64_t last_launch = 0;  /* the launch that `last` belongs to */
    handler after = nullptr;           /* of a cvt with a register wider than its source: the conversion. `run` calls it
                                          after it has copied the lower half of the register */
    const statement *source = nullptr; /* for messages */
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
    size_t static_shared_bytes = 0; /* without dynamic shared memory */
    /* The members below are set when the kernel is decoded. */
    bool decoded = false;
    struct body body;
    std::vector<instruction> code; /* the last one ends the thread */
    std::vector<char> file;        /* the registers before a block begins, except the special registers */
    std::vector<special> specials;
    size_t register_bytes = 0; /* bytes of `file` with the registers that instructions write. Constants follow */
    size_t local_bytes = 0;    /* of a thread */
};

struct variable_of_module {
    std::vector<char> memory; /* longer than the variable, so that `first` can be aligned */
    char *first;
    size_t bytes;
};

struct module {
    struct file source;
    std::vector<std::unique_ptr<kernel>> kernels;
    std::map<std::string, variable_of_module> variables; /* .global and .const */
};

/* Lanes of a warp at one instruction. The lanes of a warp may be divided into several paths. */
struct path {
    uint32_t pc, lanes;
    bool waits; /* for other lanes of the warp */
};

/* Asynchronous copies that one instruction has started, of the lanes whose data has not arrived. */
struct pending_copy {
    uint32_t lanes;
    uint32_t bytes;             /* of the destination */
    uint32_t to[LANES];         /* addresses in shared memory */
    uint64_t from[LANES];       /* of the host */
    uint32_t from_bytes[LANES]; /* the rest becomes zeros */
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
    uint32_t ended;  /* lanes that have */
    path now;
    std::vector<path> others;
    char *file;
    char *local;            /* of lane 0. Each lane has block.local_stride bytes */
    uint32_t groups[LANES]; /* of asynchronous copies, committed so far */
    std::vector<pending_copy> copies;

    template <typename T> T *lanes(uint32_t at)
    {
        return (T *)(file + at);
    }
};

/* Who accessed two bytes of shared memory since the last barrier. See races.cpp. */
struct access_record {
    uint32_t written, read;
};

struct launch {
    const struct kernel *kernel;
    const struct grid *grid;
    memory_test is_device_memory;
    std::vector<char> parameters;
    std::vector<range> known; /* allocations that a kernel accessed */
    uint64_t number, random;
};

struct block {
    struct launch *launch;
    unsigned place[3];
    char *shared; /* of the host. Addresses begin at SHARED_BEGIN */
    size_t shared_bytes;
    access_record *records;
    uint32_t epoch; /* counts barriers */
    size_t local_stride;
    char *locals; /* of the first thread */
    size_t locals_bytes;
    std::vector<warp> warps;
};

/* Ends the process. The message names the kernel, the instruction, the block and the thread. */
[[noreturn]] void fault(const warp &warp, const instruction &instruction, unsigned lane, const std::string &why);

unsigned random_below(launch &launch, unsigned n);

/* The lowest lane of a set, which is not empty. */
static inline unsigned first_lane(uint32_t lanes)
{
    return (unsigned)__builtin_ctz(lanes);
}
} // namespace ptx

#endif
