/* Races in shared memory. There is a record for each pair of bytes. It says which warp wrote the bytes last, and which
 * warp read them, with the number of barriers that the program had seen by then. An access is a race if another warp's
 * access to the same bytes has the same number, and one of the two writes. Atomic operations are no races among
 * themselves. Single bytes are not recorded: their neighbours may belong to other warps. */
#include "tests/cuda/ptx/access.h"

namespace ptx
{
namespace
{
constexpr uint32_t SEVERAL = 63, ATOMIC = 62; /* in place of the number of a warp */

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
