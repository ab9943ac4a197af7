/* Asynchronous copies to shared memory. PTX ISA, "cp.async". Until the thread waits for a copy, all bits of the
 * destination are set. The source is read only when the thread waits. */
#include "tests/cuda/ptx/access.h"
#include "tests/cuda/ptx/decode.h"

#include <cstring>

namespace ptx
{
namespace
{
/* Operand 0 is the number of bytes to copy. Operand 1 is a predicate that is true if the source is ignored. i.parts is
 * the size of the destination in bytes. */
void start(warp &warp, const instruction &i)
{
    uint64_t to[LANES];
    pending_copy copy;
    copy.lanes = warp.active;
    copy.bytes = i.parts;
    source<uint32_t> bytes(warp, i, 0);
    uint32_t ignored = source<bool>(warp, i, 1).bits;
    find_addresses(warp, i.target, to);
    check_alignment(warp, i, to, i.parts);
    for (unsigned lane = 0; lane < LANES; lane++)
        copy.to[lane] = (uint32_t)to[lane];
    check_shared(warp, i, to, i.parts, WRITES);
    find_addresses(warp, i.address, copy.from);
    check_alignment(warp, i, copy.from, i.parts);
    for (unsigned lane = 0; lane < LANES; lane++) {
        if (!(warp.active >> lane & 1))
            continue;
        copy.from_bytes[lane] = ignored >> lane & 1 ? 0 : bytes[lane];
        copy.group[lane] = warp.groups[lane];
        if (copy.from_bytes[lane] > i.parts)
            fault(warp, i, lane, "an asynchronous copy has more bytes than its destination");
        if (copy.from_bytes[lane] > 0)
            check_global(warp, i, lane, copy.from[lane], copy.from_bytes[lane]);
        memset((void *)to[lane], 0xff, i.parts);
    }
    warp.copies.push_back(copy);
}

void commit(warp &warp, const instruction &)
{
    for (unsigned lane = 0; lane < LANES; lane++)
        warp.groups[lane] += warp.active >> lane & 1;
}

void land(warp &warp, const instruction &i, pending_copy &copy, uint32_t lanes)
{
    uint64_t to[LANES];
    uint32_t active = warp.active;
    warp.active = lanes;
    for (unsigned lane = 0; lane < LANES; lane++)
        to[lane] = copy.to[lanes >> lane & 1 ? lane : first_lane(lanes)];
    check_shared(warp, i, to, copy.bytes, WRITES);
    warp.active = active;
    for (unsigned lane = 0; lane < LANES; lane++) {
        if (!(lanes >> lane & 1))
            continue;
        memset((void *)to[lane], 0, copy.bytes);
        memcpy((void *)to[lane], (const void *)copy.from[lane], copy.from_bytes[lane]);
    }
    copy.lanes &= ~lanes;
}

/* i.number is the number of the newest groups that may remain pending. If i.number is negative, all copies must arrive,
 * even copies without a group. */
void wait(warp &warp, const instruction &i)
{
    size_t kept = 0;
    for (size_t n = 0; n < warp.copies.size(); n++) {
        pending_copy &copy = warp.copies[n];
        uint32_t lanes = copy.lanes & warp.active, landing = 0;
        for (unsigned lane = 0; lane < LANES; lane++)
            landing |= (uint32_t)(i.number < 0 || copy.group[lane] + i.number < warp.groups[lane]) << lane;
        if (lanes & landing)
            land(warp, i, copy, lanes & landing);
        if (copy.lanes && kept++ != n)
            warp.copies[kept - 1] = copy;
    }
    warp.copies.resize(kept);
}

bool decode_start(decoder &d, const statement &s, const words &words, instruction &i)
{
    size_t shared = 3; /* index of "shared" in cp.async.ca.shared.global */
    if (words.size() < 5 || (words[2] != "ca" && words[2] != "cg") || words[shared].substr(0, 6) != "shared" ||
        words[shared + 1] != "global")
        return false;
    for (size_t n = shared + 2; n < words.size(); n++)
        if (words[n].substr(0, 4) != "L2::")
            return false;
    d.expect_operands(3, 4);
    i.parts = (uint32_t)d.number(s.operands[2]);
    if (i.parts != 16 && (words[2] == "cg" || (i.parts != 4 && i.parts != 8)))
        d.refuse("an asynchronous copy of another size than 4, 8 or 16 bytes");
    i.target = d.address(s.operands[0]);
    i.address = d.address(s.operands[1]);
    operand no, all;
    all.bits = i.parts;
    bool has_predicate = s.operands.size() > 3 && d.storage_of(s.operands[3], 'w') == 'p';
    d.put(i, 0, s.operands.size() > 3 && !has_predicate ? s.operands[3] : all, 'w');
    d.put(i, 1, has_predicate ? s.operands[3] : no, 'p');
    i.where = SPACE_GLOBAL;
    i.run = start;
    return true;
}
} // namespace

bool decode_copy(decoder &d, const statement &s, const words &words, instruction &i)
{
    i.may_pause = true;
    if (words.size() < 3 || words[1] != "async")
        return false;
    if (s.opcode == "cp.async.commit_group") {
        d.expect_operands(0, 0);
        i.run = commit;
    } else if (s.opcode == "cp.async.wait_group") {
        d.expect_operands(1, 1);
        i.number = (int64_t)d.number(s.operands[0]);
        i.run = wait;
    } else if (s.opcode == "cp.async.wait_all") {
        d.expect_operands(0, 0);
        i.number = -1;
        i.run = wait;
    } else {
        return decode_start(d, s, words, i);
    }
    return true;
}
} // namespace ptx
