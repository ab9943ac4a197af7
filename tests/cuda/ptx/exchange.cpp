/* Instructions that synchronise the lanes of a warp, and barriers of a block. PTX ISA, "shfl.sync", "vote.sync",
 * "redux.sync", "activemask", "bar.warp.sync", "bar". */
#include "tests/cuda/ptx/paths.h"

#include <algorithm>
#include <cstring>

namespace ptx
{
namespace
{
enum shuffle_mode { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BUTTERFLY, SHUFFLE_INDEX };

/* Operands: result, predicate, value, distance or lane, clamp and segments, mask of lanes. If the source lane does not
 * execute the instruction, the result is undefined. The emulator sets all of its bits. */
template <shuffle_mode mode> void shuffle(warp &warp, const instruction &i)
{
    if (!meet_masked(warp, i, 5))
        return;
    source<uint32_t> value(warp, i, 2), distance(warp, i, 3), limits(warp, i, 4);
    uint32_t results[LANES];
    uint8_t inside[LANES];
    for (int lane = 0; lane < (int)LANES; lane++) {
        int clamp = limits[(unsigned)lane] & 31, segment = limits[(unsigned)lane] >> 8 & 31;
        int by = distance[(unsigned)lane] & 31, last = (lane & segment) | (clamp & ~segment), from;
        switch (mode) {
        case SHUFFLE_UP:
            from = lane - by;
            inside[lane] = from >= last;
            break;
        case SHUFFLE_DOWN:
            from = lane + by;
            inside[lane] = from <= last;
            break;
        case SHUFFLE_BUTTERFLY:
            from = lane ^ by;
            inside[lane] = from <= last;
            break;
        default:
            from = (lane & segment) | (by & ~segment);
            inside[lane] = from <= last;
        }
        unsigned source = (unsigned)(inside[lane] ? from : lane);
        results[lane] = warp.active >> source & 1 ? value[source] : ~0u;
    }
    put_bits(warp, i.at[1], pack_bits(inside));
    put_lanes(warp, i.at[0], results);
}

enum vote_mode { VOTE_ANY, VOTE_ALL, VOTE_UNIFORM, VOTE_BALLOT };

/* Operands: result, predicate, mask of lanes. */
template <vote_mode mode> void vote(warp &warp, const instruction &i)
{
    if (!meet_masked(warp, i, 2))
        return;
    uint32_t yes = source<bool>(warp, i, 1).bits & warp.active;
    if (mode == VOTE_BALLOT) {
        uint32_t results[LANES];
        std::fill(results, results + LANES, yes);
        return put_lanes(warp, i.at[0], results);
    }
    bool result = mode == VOTE_ANY ? yes != 0 : mode == VOTE_ALL ? yes == warp.active : yes == warp.active || yes == 0;
    put_bits(warp, i.at[0], result ? ALL_LANES : 0);
}

enum reduction { SUM, MIN, MAX, AND, OR, XOR };

/* Operands: result, value, mask of lanes. */
template <reduction how, typename T> void reduce(warp &warp, const instruction &i)
{
    if (!meet_masked(warp, i, 2))
        return;
    source<T> value(warp, i, 1);
    T sum = value[first_lane(warp.active)];
    for (unsigned lane = first_lane(warp.active) + 1; lane < LANES; lane++) {
        T next = value[lane];
        if (!(warp.active >> lane & 1))
            continue;
        sum = how == SUM   ? (T)((uint32_t)sum + (uint32_t)next)
              : how == MIN ? std::min(sum, next)
              : how == MAX ? std::max(sum, next)
              : how == AND ? (T)(sum & next)
              : how == OR  ? (T)(sum | next)
                           : (T)(sum ^ next);
    }
    uint32_t results[LANES];
    std::fill(results, results + LANES, (uint32_t)sum);
    put_lanes(warp, i.at[0], results);
}

void synchronize_warp(warp &warp, const instruction &i)
{
    meet_masked(warp, i, 0);
}

void read_active(warp &warp, const instruction &i)
{
    uint32_t results[LANES];
    std::fill(results, results + LANES, warp.active);
    put_lanes(warp, i.at[0], results);
}

/* All lanes of the warp that have not ended reach the barrier together (.aligned). */
void arrive(warp &warp, const instruction &i)
{
    if (meet(warp, warp.alive))
        warp.state = AT_BARRIER;
    (void)i;
}

const std::map<std::string, handler> reductions = {
    {"redux.sync.add.u32", reduce<SUM, uint32_t>}, {"redux.sync.add.s32", reduce<SUM, int32_t>},
    {"redux.sync.min.u32", reduce<MIN, uint32_t>}, {"redux.sync.min.s32", reduce<MIN, int32_t>},
    {"redux.sync.max.u32", reduce<MAX, uint32_t>}, {"redux.sync.max.s32", reduce<MAX, int32_t>},
    {"redux.sync.and.b32", reduce<AND, uint32_t>}, {"redux.sync.or.b32", reduce<OR, uint32_t>},
    {"redux.sync.xor.b32", reduce<XOR, uint32_t>}};

const std::map<std::string, handler> shuffles = {{"shfl.sync.up.b32", shuffle<SHUFFLE_UP>},
                                                 {"shfl.sync.down.b32", shuffle<SHUFFLE_DOWN>},
                                                 {"shfl.sync.bfly.b32", shuffle<SHUFFLE_BUTTERFLY>},
                                                 {"shfl.sync.idx.b32", shuffle<SHUFFLE_INDEX>}};

const std::map<std::string, handler> votes = {{"vote.sync.any.pred", vote<VOTE_ANY>},
                                              {"vote.sync.all.pred", vote<VOTE_ALL>},
                                              {"vote.sync.uni.pred", vote<VOTE_UNIFORM>},
                                              {"vote.sync.ballot.b32", vote<VOTE_BALLOT>}};

handler find(const std::map<std::string, handler> &table, const std::string &name)
{
    auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

bool decode_shuffle(decoder &d, const statement &s, instruction &i)
{
    i.run = find(shuffles, s.opcode);
    d.expect_operands(5, 5);
    std::vector<operand> results = d.parts_of(s.operands[0]);
    operand none;
    none.kind = operand::REGISTER;
    none.name = "_";
    d.put_destination(i, 0, results[0], 'w');
    d.put_destination(i, 1, results.size() > 1 ? results[1] : none, 'p');
    for (unsigned n = 1; n < 5; n++)
        d.put(i, n + 1, s.operands[n], 'w');
    return i.run;
}

bool decode_barrier(decoder &d, const statement &s, const words &words, instruction &i)
{
    if (s.opcode == "bar.warp.sync") {
        d.expect_operands(1, 1);
        d.put(i, 0, s.operands[0], 'w');
        i.run = synchronize_warp;
        return true;
    }
    bool known = s.opcode == "bar.sync" || s.opcode == "bar.cta.sync" || s.opcode == "barrier.sync.aligned" ||
                 s.opcode == "barrier.cta.sync.aligned";
    if (!known)
        return false;
    d.expect_operands(1, 1); /* barriers of only some threads, which have a thread count, are not supported */
    i.run = arrive;
    (void)words;
    return true;
}
} // namespace

bool decode_exchange(decoder &d, const statement &s, const words &words, instruction &i)
{
    i.changes_path = i.may_pause = true;
    if (words[0] == "shfl")
        return decode_shuffle(d, s, i);
    if (words[0] == "bar" || words[0] == "barrier")
        return decode_barrier(d, s, words, i);
    if (s.opcode == "activemask.b32") {
        d.expect_operands(1, 1);
        d.put_destination(i, 0, s.operands[0], 'w');
        i.run = read_active;
        return true;
    }
    d.expect_operands(3, 3);
    bool votes_bits = words.back() == "b32" && words[0] == "vote";
    i.run = find(words[0] == "vote" ? votes : reductions, s.opcode);
    d.put_destination(i, 0, s.operands[0], words[0] == "redux" || votes_bits ? 'w' : 'p');
    d.put(i, 1, s.operands[1], words[0] == "redux" ? 'w' : 'p');
    d.put(i, 2, s.operands[2], 'w');
    return i.run;
}
} // namespace ptx
