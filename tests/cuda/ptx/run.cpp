/* Runs launches. The blocks run one after another, and one warp of a block runs at a time. */
#include "tests/cuda/ptx/paths.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>

namespace ptx
{
namespace
{
unsigned long long instructions; /* number of instructions that all threads have executed so far */

/* Memory that later launches reuse. Its address is a multiple of 4096. */
struct memory {
    char *first = nullptr;
    size_t bytes = 0;

    char *at_least(size_t wanted)
    {
        if (bytes >= wanted)
            return first;
        free(first);
        bytes = (wanted + 4095) / 4096 * 4096;
        first = (char *)aligned_alloc(4096, bytes);
        if (!first) {
            fprintf(stderr, "PTX emulator: no memory for %zu bytes\n", bytes);
            abort();
        }
        memset(first, 0, bytes);
        return first;
    }
};

constexpr uint32_t LAST_EPOCH = (1u << 26) - 1; /* a record stores the epoch in 26 bits */

struct state {
    std::mutex one_at_a_time;
    memory shared, records, files, locals;
    uint32_t epoch = 0;
    uint64_t launches = 0;
} global;

uint32_t value_of(const special &special, const block &block, unsigned thread)
{
    const grid &grid = *block.launch->grid;
    const unsigned *size = grid.threads;
    unsigned lane = thread % LANES, axis = (unsigned)(special.name.back() - 'x');
    unsigned place[3] = {thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]};
    if (special.name.substr(0, 4) == "tid.")
        return place[axis];
    if (special.name.substr(0, 5) == "ntid.")
        return size[axis];
    if (special.name.substr(0, 6) == "ctaid.")
        return block.place[axis];
    if (special.name.substr(0, 7) == "nctaid.")
        return grid.blocks[axis];
    if (special.name == "laneid")
        return lane;
    if (special.name == "warpid")
        return thread / LANES;
    if (special.name == "dynamic_smem_size")
        return (uint32_t)grid.dynamic_shared_bytes;
    if (special.name == "total_smem_size")
        return (uint32_t)block.shared_bytes;
    uint32_t equal = 1u << lane, below = equal - 1;
    std::string which = special.name.substr(special.name.size() - 2);
    return which == "eq"   ? equal
           : which == "lt" ? below
           : which == "le" ? below | equal
           : which == "ge" ? ~below
                           : ~(below | equal);
}

void fill_special(warp &warp, const special &special)
{
    for (unsigned lane = 0; lane < LANES; lane++)
        warp.lanes<uint32_t>(special.at)[lane] = value_of(special, *warp.block, warp.number * LANES + lane);
}

void begin_block(block &block, unsigned threads)
{
    const kernel &kernel = *block.launch->kernel;
    size_t local_bytes = block.local_stride * threads;
    block.epoch = ++global.epoch;
    memset(block.shared, 0xff, block.shared_bytes);
    memset(block.locals, 0xff, local_bytes);
    for (warp &warp : block.warps) {
        unsigned first = warp.number * LANES, lanes = std::min(threads - first, LANES);
        warp.state = RUNS;
        warp.alive = lanes == LANES ? ALL_LANES : (1u << lanes) - 1;
        warp.ended = 0;
        warp.now = {0, warp.alive, false};
        warp.others.clear();
        warp.copies.clear();
        memset(warp.groups, 0, sizeof warp.groups);
        memset(warp.file, 0xff, kernel.register_bytes);
        for (const special &special : kernel.specials)
            if (special.name.substr(0, 6) == "ctaid.")
                fill_special(warp, special);
    }
}

/* Fills in the registers that are the same in all blocks: constants, and most special registers. */
void begin_launch(block &block)
{
    const kernel &kernel = *block.launch->kernel;
    for (warp &warp : block.warps) {
        warp.block = &block;
        memcpy(warp.file, kernel.file.data(), kernel.file.size());
        for (const special &special : kernel.specials)
            fill_special(warp, special);
    }
}

/* Runs the warp until it comes to a barrier, ends, or gives way to another warp. */
void run_warp(warp &warp)
{
    const instruction *code = warp.block->launch->kernel->code.data();
    launch &launch = *warp.block->launch;
    bool pauses = launch.grid->seed % 2;
    unsigned long long executed = 0;
    uint32_t meeting = next_meeting(warp);
    while (warp.state == RUNS) {
        if (warp.now.pc == meeting) {
            choose_path(warp);
            meeting = next_meeting(warp);
        }
        const instruction &i = code[warp.now.pc++];
        uint32_t lanes = warp.now.lanes;
        executed += (unsigned)__builtin_popcount(lanes);
        if (i.guarded) {
            lanes &= *warp.lanes<uint32_t>(i.guard_at) ^ i.guard_flip;
            if (!lanes)
                continue;
        }
        warp.active = lanes;
        i.run(warp, i);
        if (i.changes_path && (!warp.others.empty() || !warp.now.lanes)) {
            if (warp.state == RUNS)
                choose_path(warp);
            meeting = next_meeting(warp);
        }
        if (pauses && i.may_pause && random_below(launch, 4) == 0)
            break;
    }
    instructions += executed;
}

/* Lets all warps continue, after all warps that have not ended have reached a barrier. It is a fault if they wait at
 * different barriers. */
void release(block &block)
{
    const warp *some = nullptr;
    for (warp &warp : block.warps) {
        if (warp.state != AT_BARRIER)
            continue;
        if (some && warp.now.pc != some->now.pc)
            fault(warp, block.launch->kernel->code[warp.now.pc - 1], first_lane(warp.now.lanes),
                  "warps of a block meet at different barriers, the other one is in line " +
                      std::to_string(block.launch->kernel->code[some->now.pc - 1].source->line));
        some = &warp;
        warp.state = RUNS;
    }
    block.epoch = ++global.epoch;
}

/* The warp that runs next, or NULL if none can run. */
warp *next_warp(block &block, size_t *turn)
{
    unsigned seed = block.launch->grid->seed, running = 0;
    for (const warp &warp : block.warps)
        running += warp.state == RUNS;
    if (running == 0)
        return nullptr;
    unsigned skipped = seed % 2 ? random_below(*block.launch, running) : 0;
    for (size_t n = 0; n < block.warps.size(); n++) {
        size_t place = seed == 0 ? (*turn + n) % block.warps.size() : seed % 2 ? n : block.warps.size() - 1 - n;
        if (block.warps[place].state != RUNS || skipped-- > 0)
            continue;
        *turn = place + 1;
        return &block.warps[place];
    }
    return nullptr;
}

void run_block(block &block, unsigned threads)
{
    size_t turn = 0;
    begin_block(block, threads);
    for (;;) {
        warp *next = next_warp(block, &turn);
        if (next) {
            run_warp(*next);
            continue;
        }
        bool some = false;
        for (const warp &warp : block.warps)
            some |= warp.state == AT_BARRIER;
        if (!some)
            return;
        release(block);
    }
}

void check_grid(const kernel &kernel, const grid &grid)
{
    uint64_t threads = (uint64_t)grid.threads[0] * grid.threads[1] * grid.threads[2];
    if (threads == 0 || threads > most_threads(&kernel))
        refuse(kernel.source.name, 0, "",
               "a launch with " + std::to_string(threads) + " threads of a block, and the kernel allows " +
                   std::to_string(most_threads(&kernel)));
}

std::vector<char> copy_parameters(const kernel &kernel, void *const *arguments)
{
    /* The 16 additional bytes ensure that the vector has an address even without parameters. */
    std::vector<char> parameters(kernel.parameter_bytes + 16);
    for (size_t i = 0; i < kernel.source.parameters.size(); i++)
        memcpy(parameters.data() + kernel.parameter_offsets[i], arguments[i], kernel.source.parameters[i].bytes);
    return parameters;
}

/* Returns the numbers of all blocks in the order that the seed determines. */
std::vector<uint64_t> order_of(launch &launch)
{
    const grid &grid = *launch.grid;
    std::vector<uint64_t> order((uint64_t)grid.blocks[0] * grid.blocks[1] * grid.blocks[2]);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); grid.seed != 0 && i > 1; i--)
        std::swap(order[i - 1], order[random_below(launch, (unsigned)i)]);
    return order;
}
} // namespace

unsigned random_below(launch &launch, unsigned n)
{
    launch.random = launch.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((launch.random >> 33) % n);
}

unsigned long long executed()
{
    return instructions;
}

void fault(const warp &warp, const instruction &instruction, unsigned lane, const std::string &why)
{
    const block &block = *warp.block;
    const launch &launch = *block.launch;
    fprintf(stderr, "PTX emulator: %s, line %d, block (%u, %u, %u), thread %u: %s\n    %s\n",
            launch.kernel->source.name.c_str(), instruction.source->line, block.place[0], block.place[1],
            block.place[2], warp.number * LANES + lane, why.c_str(), instruction.source->text.c_str());
    abort();
}

void run(const kernel *kernel, const grid &grid, void *const *arguments, memory_test is_device_memory)
{
    std::lock_guard<std::mutex> lock(global.one_at_a_time);
    decode(kernel);
    check_grid(*kernel, grid);
    unsigned threads = grid.threads[0] * grid.threads[1] * grid.threads[2], warps = (threads + LANES - 1) / LANES;
    launch launch = {kernel,   &grid, is_device_memory, copy_parameters(*kernel, arguments), {}, ++global.launches,
                     grid.seed};
    for (const auto &[name, variable] : kernel->owner->variables)
        launch.known.push_back({(uint64_t)variable.first, (uint64_t)variable.first + variable.bytes});
    block block = {};
    block.launch = &launch;
    block.shared_bytes = (kernel->static_shared_bytes + 127) / 128 * 128 * (grid.dynamic_shared_bytes > 0);
    block.shared_bytes = std::max(block.shared_bytes, kernel->static_shared_bytes) + grid.dynamic_shared_bytes;
    block.shared = global.shared.at_least(block.shared_bytes + 1);
    block.records = (access_record *)global.records.at_least((block.shared_bytes / 2 + 1) * sizeof(access_record));
    block.local_stride = (kernel->local_bytes + 15) / 16 * 16;
    block.locals_bytes = block.local_stride * warps * LANES;
    block.locals = global.locals.at_least(block.locals_bytes + 1);
    block.warps.resize(warps);
    size_t file_bytes = (kernel->file.size() + 63) / 64 * 64;
    char *files = global.files.at_least(file_bytes * warps);
    for (unsigned i = 0; i < warps; i++) {
        block.warps[i].number = i;
        block.warps[i].file = files + i * file_bytes;
        block.warps[i].local = block.locals + i * LANES * block.local_stride;
    }
    begin_launch(block);
    for (uint64_t place : order_of(launch)) {
        /* A block passes far fewer than LAST_EPOCH / 2 barriers. So the epoch does not exceed LAST_EPOCH before the
         * next block. */
        if (global.epoch > LAST_EPOCH / 2) {
            memset(global.records.first, 0, global.records.bytes);
            global.epoch = 0;
        }
        block.place[0] = (unsigned)(place % grid.blocks[0]);
        block.place[1] = (unsigned)(place / grid.blocks[0] % grid.blocks[1]);
        block.place[2] = (unsigned)(place / grid.blocks[0] / grid.blocks[1]);
        run_block(block, threads);
    }
}
} // namespace ptx
