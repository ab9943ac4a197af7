/* Finds races in shared memory. A record belongs to each pair of bytes. It describes the last write and the last read
 * of the pair: the number of the warp, and the epoch, which increases at each barrier. An access is a race if another
 * warp accessed the same bytes in the same epoch, and at least one of the two accesses is a write. Two atomic
 * operations never race with each other. Accesses to single bytes are not recorded, because the other byte of the pair
 * may belong to another warp. */
#include "tests/cuda/ptx/access.h"

namespace ptx
{
namespace
{
constexpr uint32_t SEVERAL = 63, ATOMIC = 62; /* instead of the number of a warp: several warps, an atomic operation */

struct records {
    access_record *of;
    uint32_t epoch, me;
};

template <unsigned elements> uint32_t read_one(const records &r, uint64_t first)
{
    uint32_t clash = 0;
    for (unsigned e = 0; e < elements; e++) {
        access_record &record = r.of[first + e];
        clash |= (record.written >= r.epoch) & (record.written != r.me);
        record.read = (record.read >= r.epoch) & (record.read != r.me) ? r.epoch | SEVERAL : r.me;
    }
    return clash;
}

template <unsigned elements> uint32_t write_one(const records &r, uint64_t first)
{
    uint32_t clash = 0;
    for (unsigned e = 0; e < elements; e++) {
        access_record &record = r.of[first + e];
        clash |= (record.written >= r.epoch) & (record.written != r.me);
        clash |= (record.read >= r.epoch) & (record.read != r.me);
        record.written = r.me;
    }
    return clash;
}

using note = uint32_t (*)(const records &, uint64_t);

template <unsigned elements> note note_of(access access)
{
    return access == READS ? read_one<elements> : write_one<elements>;
}
} // namespace

void note_accesses(warp &warp, const instruction &i, const uint64_t (&addresses)[LANES], unsigned bytes, access access)
{
    uint32_t epoch = warp.block->epoch << 6;
    records r = {warp.block->records, epoch, epoch | (access == ADDS_UP ? ATOMIC : warp.number)};
    if (bytes < 2)
        return;
    note note = bytes == 2   ? note_of<1>(access)
                : bytes == 4 ? note_of<2>(access)
                : bytes == 8 ? note_of<4>(access)
                             : note_of<8>(access);
    for (unsigned lane = 0; lane < LANES; lane++)
        if (warp.active >> lane & 1 && note(r, (addresses[lane] - SHARED_BEGIN) / 2))
            fault(warp, i, lane, "a race: another warp accessed the same shared memory since the last barrier");
}
} // namespace ptx
