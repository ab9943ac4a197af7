#include "tests/cuda/ptx/access.h"

#include <algorithm>
#include <cstdio>

namespace ptx
{
namespace
{
std::string said(const char *what, uint64_t address, uint64_t bytes)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %llu bytes at 0x%llx", what, (unsigned long long)bytes,
             (unsigned long long)address);
    return text;
}

/* The largest number of bytes for which `test` is true. `test` is true for `least` bytes. */
template <typename T> uint64_t most_bytes(uint64_t least, T test)
{
    uint64_t good = least, step = least;
    while (step < (uint64_t)1 << 44 && test(good + step)) {
        good += step;
        step *= 2;
    }
    for (; step > 0; step /= 2)
        if (test(good + step))
            good += step;
    return good;
}

/* Finds the allocation that contains an access. Returns false if there is none. */
bool find_range(launch &launch, uint64_t address, uint64_t bytes, range *found)
{
    auto contains = [&](const range &range) { return address >= range.begin && address + bytes <= range.end; };
    for (const range &range : launch.known)
        if (contains(range)) {
            *found = range;
            return true;
        }
    auto allowed = [&](uint64_t at, uint64_t size) { return launch.is_device_memory((const void *)at, size); };
    if (!allowed(address, bytes))
        return false;
    uint64_t after = most_bytes(bytes, [&](uint64_t size) { return allowed(address, size); });
    uint64_t before = most_bytes(bytes, [&](uint64_t size) { return allowed(address + bytes - size, size); });
    *found = {address + bytes - before, address + after};
    launch.known.push_back(*found);
    return true;
}

void check_all_global(warp &warp, const instruction &i, const uint64_t (&addresses)[LANES], unsigned bytes)
{
    uint64_t least = addresses[0], most = addresses[0];
    for (unsigned lane = 1; lane < LANES; lane++) {
        least = std::min(least, addresses[lane]);
        most = std::max(most, addresses[lane]);
    }
    if (i.last_launch == warp.block->launch->number && least >= i.last.begin && most + bytes <= i.last.end &&
        most + bytes > most)
        return;
    for (unsigned lane = 0; lane < LANES; lane++)
        if (warp.active >> lane & 1)
            check_global(warp, i, lane, addresses[lane], bytes);
}

/* All generic addresses are addresses of the host, including those of shared and local memory. */
void check_generic(warp &warp, const instruction &i, uint64_t (&addresses)[LANES], unsigned bytes, access access)
{
    const block &block = *warp.block;
    uint64_t shared = (uint64_t)block.shared, local = (uint64_t)block.locals,
             parameters = (uint64_t)block.launch->parameters.data();
    uint32_t in_shared = 0, active = warp.active;
    uint64_t of_shared[LANES];
    for (unsigned lane = 0; lane < LANES; lane++) {
        uint64_t address = addresses[lane], mine = (uint64_t)warp.local + lane * block.local_stride;
        if (!(active >> lane & 1))
            continue;
        if (address - shared < block.shared_bytes) {
            in_shared |= 1u << lane;
        } else if (address - local < block.locals_bytes) {
            if (address < mine || address + bytes > mine + block.launch->kernel->local_bytes)
                fault(warp, i, lane, said("an access outside of the thread's local memory", address, bytes));
        } else if (address - parameters >= block.launch->parameters.size()) {
            check_global(warp, i, lane, address, bytes);
        }
    }
    if (!in_shared)
        return;
    unsigned some = first_lane(in_shared);
    for (unsigned lane = 0; lane < LANES; lane++)
        of_shared[lane] = addresses[in_shared >> lane & 1 ? lane : some] - shared + SHARED_BEGIN;
    warp.active = in_shared;
    check_shared(warp, i, of_shared, bytes, access);
    warp.active = active;
}

void check_bounds(const warp &warp, const instruction &i, const uint64_t (&addresses)[LANES], unsigned bytes,
                  uint64_t begin, uint64_t end, const char *what)
{
    uint64_t least = addresses[0], most = addresses[0];
    for (unsigned lane = 1; lane < LANES; lane++) {
        least = std::min(least, addresses[lane]);
        most = std::max(most, addresses[lane]);
    }
    if (least >= begin && most < end && end - most >= bytes)
        return;
    for (unsigned lane = 0; lane < LANES; lane++)
        if (addresses[lane] < begin || addresses[lane] >= end || end - addresses[lane] < bytes)
            fault(warp, i, lane, said(what, addresses[lane], bytes));
}
} // namespace

void find_addresses(warp &warp, const reference &reference, uint64_t (&addresses)[LANES])
{
    if (reference.wide) {
        const uint64_t *base = warp.lanes<uint64_t>(reference.at);
        for (unsigned lane = 0; lane < LANES; lane++)
            addresses[lane] = base[lane] + (uint64_t)reference.added;
    } else {
        const uint32_t *base = warp.lanes<uint32_t>(reference.at);
        for (unsigned lane = 0; lane < LANES; lane++)
            addresses[lane] = (uint32_t)(base[lane] + (uint32_t)reference.added);
    }
    if (warp.active == ALL_LANES)
        return;
    uint64_t some = addresses[first_lane(warp.active)];
    uint32_t active = warp.active;
    for (unsigned lane = 0; lane < LANES; lane++)
        addresses[lane] = active >> lane & 1 ? addresses[lane] : some;
}

void check_alignment(const warp &warp, const instruction &i, const uint64_t (&addresses)[LANES], unsigned bytes)
{
    uint64_t all = 0;
    for (unsigned lane = 0; lane < LANES; lane++)
        all |= addresses[lane];
    if (all % bytes == 0)
        return;
    for (unsigned lane = 0; lane < LANES; lane++)
        if (addresses[lane] % bytes != 0)
            fault(warp, i, lane, said("an address is not aligned", addresses[lane], bytes));
}

void check_global(const warp &warp, const instruction &i, unsigned lane, uint64_t address, uint64_t bytes)
{
    launch &launch = *warp.block->launch;
    if (i.last_launch == launch.number && address >= i.last.begin && address + bytes <= i.last.end &&
        address + bytes > address)
        return;
    if (!find_range(launch, address, bytes, &i.last))
        fault(warp, i, lane, said("an access outside of device memory", address, bytes));
    i.last_launch = launch.number;
}

void check_shared(warp &warp, const instruction &i, uint64_t (&addresses)[LANES], unsigned bytes, access access)
{
    const block &block = *warp.block;
    check_bounds(warp, i, addresses, bytes, SHARED_BEGIN, SHARED_BEGIN + block.shared_bytes,
                 "an access outside of shared memory");
    note_accesses(warp, i, addresses, bytes, access);
    for (unsigned lane = 0; lane < LANES; lane++)
        addresses[lane] += (uint64_t)block.shared - SHARED_BEGIN;
}

void check_access(warp &warp, const instruction &i, uint64_t (&addresses)[LANES], unsigned bytes, access access)
{
    const block &block = *warp.block;
    check_alignment(warp, i, addresses, bytes);
    switch (i.where) {
    case SPACE_GENERIC:
        return check_generic(warp, i, addresses, bytes, access);
    case SPACE_SHARED:
        return check_shared(warp, i, addresses, bytes, access);
    case SPACE_LOCAL:
        check_bounds(warp, i, addresses, bytes, 0, block.launch->kernel->local_bytes,
                     "an access outside of the thread's local memory");
        for (unsigned lane = 0; lane < LANES; lane++)
            addresses[lane] += (uint64_t)warp.local + lane * block.local_stride;
        return;
    case SPACE_PARAM:
        check_bounds(warp, i, addresses, bytes, 0, block.launch->kernel->parameter_bytes,
                     "an access outside of the parameters");
        for (unsigned lane = 0; lane < LANES; lane++)
            addresses[lane] += (uint64_t)block.launch->parameters.data();
        return;
    default:
        return check_all_global(warp, i, addresses, bytes);
    }
}
} // namespace ptx
