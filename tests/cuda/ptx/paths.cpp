/* Control of threads. PTX ISA, "Control Flow Instructions". */
#include "tests/cuda/ptx/paths.h"

#include <algorithm>
#include <cstdio>

namespace ptx
{
bool meet(warp &warp, uint32_t wanted)
{
    if ((wanted & warp.alive & ~warp.active) == 0)
        return true;
    warp.others.push_back({warp.now.pc - 1, warp.active, true});
    warp.now.lanes &= ~warp.active;
    return false;
}

bool meet_masked(warp &warp, const instruction &i, unsigned operand)
{
    const uint32_t *masks = warp.lanes<uint32_t>(i.at[operand]);
    uint32_t mask = masks[first_lane(warp.active)];
    for (unsigned lane = 0; lane < LANES; lane++) {
        if (!(warp.active >> lane & 1))
            continue;
        if (masks[lane] != mask)
            fault(warp, i, lane, "lanes of a warp name different lanes to meet");
        if (!(mask >> lane & 1))
            fault(warp, i, lane, "a lane is not among those that it names to meet");
    }
    if (mask & warp.ended)
        fault(warp, i, first_lane(warp.active), "the instruction names lanes of the warp that have ended");
    return meet(warp, mask);
}

bool meet_whole(warp &warp, const instruction &i)
{
    if (warp.alive != ALL_LANES)
        fault(warp, i, first_lane(warp.active), "a whole warp must execute this, and some of its lanes have ended");
    return meet(warp, ALL_LANES);
}

uint32_t next_meeting(const warp &warp)
{
    uint32_t next = ~0u;
    for (const path &other : warp.others)
        if (other.pc >= warp.now.pc)
            next = std::min(next, other.pc);
    return next;
}

static void join(std::vector<path> &paths)
{
    std::sort(paths.begin(), paths.end(), [](const path &a, const path &b) { return a.pc < b.pc; });
    size_t kept = 0;
    for (size_t i = 1; i < paths.size(); i++) {
        if (paths[i].pc == paths[kept].pc) {
            paths[kept].lanes |= paths[i].lanes;
            paths[kept].waits = false;
        } else {
            paths[++kept] = paths[i];
        }
    }
    paths.resize(kept + 1);
}

void choose_path(warp &warp)
{
    if (warp.now.lanes)
        warp.others.push_back(warp.now);
    warp.now.lanes = 0;
    if (warp.others.empty()) {
        warp.state = ENDED;
        return;
    }
    join(warp.others);
    auto next = std::find_if(warp.others.begin(), warp.others.end(), [](const path &p) { return !p.waits; });
    if (next == warp.others.end()) {
        const path &waiting = warp.others.front();
        char text[160];
        snprintf(text, sizeof text,
                 "lanes 0x%08x of the warp wait here for others, which are at another instruction or "
                 "cannot come",
                 waiting.lanes);
        fault(warp, warp.block->launch->kernel->code[waiting.pc], first_lane(waiting.lanes), text);
    }
    warp.now = *next;
    warp.others.erase(next);
}

namespace
{
void branch(warp &warp, const instruction &i)
{
    if (warp.active == warp.now.lanes) {
        warp.now.pc = (uint32_t)i.number;
        return;
    }
    warp.others.push_back({(uint32_t)i.number, warp.active, false});
    warp.now.lanes &= ~warp.active;
}

/* Other paths may wait for the lanes that end here. Therefore all paths check again whether they must wait. */
void end(warp &warp, const instruction &i)
{
    for (const pending_copy &copy : warp.copies)
        if (copy.lanes & warp.active)
            fault(warp, i, first_lane(copy.lanes & warp.active),
                  "a thread ends and has not waited for its asynchronous copies");
    warp.alive &= ~warp.active;
    warp.ended |= warp.active;
    warp.now.lanes &= ~warp.active;
    for (path &other : warp.others)
        other.waits = false;
}

void trap(warp &warp, const instruction &i)
{
    fault(warp, i, first_lane(warp.active), "the kernel gives up: it executed trap");
}
} // namespace

bool decode_control(decoder &d, const statement &s, const words &words, instruction &i)
{
    i.changes_path = true;
    if (words[0] == "bra") {
        d.expect_operands(1, 1);
        i.number = d.label(s.operands[0]);
        i.run = branch;
        return words.size() == 1 || s.opcode == "bra.uni";
    }
    d.expect_operands(0, 0);
    i.run = words[0] == "trap" ? trap : end;
    return words.size() == 1 || s.opcode == "ret.uni";
}
} // namespace ptx
