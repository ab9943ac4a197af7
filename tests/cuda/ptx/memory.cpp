/* Loads, stores and atomic operations. PTX ISA, "Data Movement and Conversion Instructions" and "Parallel
 * Synchronization and Communication Instructions". Caches are not simulated, so modifiers for caches have no effect. */
#include "tests/cuda/ptx/access.h"
#include "tests/cuda/ptx/decode.h"

#include <algorithm>
#include <cstring>

namespace ptx
{
namespace
{
/* Loads elements of type T into registers whose lanes have type W. A narrower element is extended with its sign if T is
 * signed, otherwise with zeros. */
template <typename T, typename W> void load(warp &warp, const instruction &i)
{
    uint64_t addresses[LANES];
    find_addresses(warp, i.address, addresses);
    check_access(warp, i, addresses, (unsigned)sizeof(T) * i.parts, READS);
    /* A destination register may also contain the address. Therefore all elements are read before the first register is
     * written. */
    W values[4][LANES];
    for (unsigned part = 0; part < i.parts; part++)
        for (unsigned lane = 0; lane < LANES; lane++)
            values[part][lane] = (W)((const T *)addresses[lane])[part];
    for (unsigned part = 0; part < i.parts; part++)
        put_lanes(warp, i.at[part], values[part]);
}

template <typename T, typename W> void store(warp &warp, const instruction &i)
{
    uint64_t addresses[LANES];
    find_addresses(warp, i.address, addresses);
    check_access(warp, i, addresses, (unsigned)sizeof(T) * i.parts, WRITES);
    uint32_t active = warp.active;
    for (unsigned part = 0; part < i.parts; part++) {
        const W *values = warp.lanes<W>(i.at[part]);
        for (unsigned lane = 0; lane < LANES; lane++)
            if (active >> lane & 1)
                ((T *)addresses[lane])[part] = (T)values[lane];
    }
}

/* Loads a parameter at a constant offset. The value is the same for all lanes. */
template <typename T, typename W> void load_parameter(warp &warp, const instruction &i)
{
    const T *from = (const T *)(warp.block->launch->parameters.data() + i.number);
    for (unsigned part = 0; part < i.parts; part++) {
        W values[LANES];
        std::fill(values, values + LANES, (W)from[part]);
        put_lanes(warp, i.at[part], values);
    }
}

struct transfer {
    handler load[2], store[2], parameter[2]; /* handlers for registers of 32 bits and of 64 bits */
};

template <typename T>
constexpr transfer transfer_of = {{load<T, uint32_t>, load<T, uint64_t>},
                                  {store<T, uint32_t>, store<T, uint64_t>},
                                  {load_parameter<T, uint32_t>, load_parameter<T, uint64_t>}};

const transfer *find_transfer(const std::string &type)
{
    bool has_sign = type[0] == 's';
    switch (type_bits(type)) {
    case 8:
        return has_sign ? &transfer_of<int8_t> : &transfer_of<uint8_t>;
    case 16:
        return has_sign ? &transfer_of<int16_t> : &transfer_of<uint16_t>;
    case 32:
        return has_sign ? &transfer_of<int32_t> : &transfer_of<uint32_t>;
    case 64:
        return &transfer_of<uint64_t>;
    default:
        return nullptr;
    }
}

/* Returns whether a modifier of loads and stores has no effect in the emulator, because it concerns only the memory
 * order or the caches. */
bool is_idle(const std::string &word)
{
    static const char *const idle[] = {"weak",
                                       "relaxed",
                                       "acquire",
                                       "release",
                                       "acq_rel",
                                       "volatile",
                                       "cta",
                                       "cluster",
                                       "gpu",
                                       "sys",
                                       "nc",
                                       "ca",
                                       "cg",
                                       "cs",
                                       "cv",
                                       "lu",
                                       "wb",
                                       "wt",
                                       "L1::evict_last",
                                       "L1::no_allocate",
                                       "L1::evict_first",
                                       "L2::64B",
                                       "L2::128B",
                                       "L2::256B"};
    return std::any_of(std::begin(idle), std::end(idle), [&](const char *one) { return word == one; });
}

bool read_space(const std::string &word, space *where)
{
    static const std::map<std::string, space> spaces = {{"global", SPACE_GLOBAL},      {"shared", SPACE_SHARED},
                                                        {"shared::cta", SPACE_SHARED}, {"local", SPACE_LOCAL},
                                                        {"param", SPACE_PARAM},        {"const", SPACE_CONST}};
    auto found = spaces.find(word);
    if (found == spaces.end())
        return false;
    *where = found->second;
    return true;
}

bool decode_transfer(decoder &d, const statement &s, const words &words, instruction &i)
{
    const transfer *transfer = find_transfer(words.back());
    bool loads = words[0] == "ld" || words[0] == "ldu";
    d.expect_operands(2, 2);
    for (size_t n = 1; n + 1 < words.size(); n++) {
        if (words[n] == "v2" || words[n] == "v4")
            i.parts = (uint32_t)(words[n][1] - '0');
        else if (!read_space(words[n], &i.where) && !is_idle(words[n]))
            return false;
    }
    const operand &address = s.operands[loads ? 1 : 0];
    std::vector<operand> data = d.parts_of(s.operands[loads ? 0 : 1]);
    if (!transfer || data.size() != i.parts)
        return false;
    i.address = d.address(address);
    i.may_pause = i.where == SPACE_SHARED || i.where == SPACE_GENERIC;
    char narrow = type_bits(words.back()) == 64 ? 'l' : 'w', storage = 'w';
    for (const operand &part : data)
        storage = d.storage_of(part, storage == 'l' ? 'l' : narrow);
    for (unsigned part = 0; part < i.parts; part++)
        (loads ? d.put_destination(i, part, data[part], storage) : d.put(i, part, data[part], storage));
    i.run = (loads ? transfer->load : transfer->store)[storage == 'l'];
    if (loads && i.where == SPACE_PARAM && address.base_is_name) {
        uint64_t at = d.names.at(address.name) + address.bits, bytes = type_bits(words.back()) / 8 * i.parts;
        if (at % bytes != 0 || at + bytes > d.kernel.parameter_bytes)
            d.refuse("an access outside of the parameters, or not aligned");
        i.number = (int64_t)at;
        i.run = transfer->parameter[storage == 'l'];
    }
    return true;
}

/* ---- Atomic operations. The lanes execute them one after another */
template <typename T> using operation = T (*)(T old, T b, T c);

template <typename T> T sum_of(T old, T b, T)
{
    if constexpr (std::is_integral_v<T>)
        return (T)((std::make_unsigned_t<T>)old + (std::make_unsigned_t<T>)b);
    else
        return old + b;
}

template <typename T> T least_of(T old, T b, T)
{
    return std::min(old, b);
}

template <typename T> T most_of(T old, T b, T)
{
    return std::max(old, b);
}

template <typename T> T and_of(T old, T b, T)
{
    return old & b;
}

template <typename T> T or_of(T old, T b, T)
{
    return old | b;
}

template <typename T> T xor_of(T old, T b, T)
{
    return old ^ b;
}

template <typename T> T exchanged(T, T b, T)
{
    return b;
}

template <typename T> T exchanged_if_equal(T old, T b, T c)
{
    return old == b ? c : old;
}

template <typename T> T counted_up(T old, T b, T)
{
    return old >= b ? 0 : old + 1;
}

template <typename T> T counted_down(T old, T b, T)
{
    return old == 0 || old > b ? b : old - 1;
}

template <auto function, typename T> void change(warp &warp, const instruction &i)
{
    uint64_t addresses[LANES];
    stored<T> results[LANES] = {};
    find_addresses(warp, i.address, addresses);
    check_access(warp, i, addresses, sizeof(T), ADDS_UP);
    source<T> b(warp, i, 1), c(warp, i, 2);
    for (unsigned lane = 0; lane < LANES; lane++) {
        if (!(warp.active >> lane & 1))
            continue;
        T *to = (T *)addresses[lane], old = *to;
        *to = function(old, b[lane], c[lane]);
        results[lane] = to_stored<T>(old);
    }
    put_lanes(warp, i.at[0], results);
}

using changes = std::map<std::string, handler>;

template <typename T> void add_arithmetic(changes &table, const std::string &type)
{
    table["add." + type] = change<sum_of<T>, T>;
    table["min." + type] = change<least_of<T>, T>;
    table["max." + type] = change<most_of<T>, T>;
}

template <typename T> void add_bits(changes &table, const std::string &type)
{
    table["and." + type] = change<and_of<T>, T>;
    table["or." + type] = change<or_of<T>, T>;
    table["xor." + type] = change<xor_of<T>, T>;
    table["exch." + type] = change<exchanged<T>, T>;
    table["cas." + type] = change<exchanged_if_equal<T>, T>;
}

changes all_changes()
{
    changes table;
    add_arithmetic<uint32_t>(table, "u32");
    add_arithmetic<int32_t>(table, "s32");
    add_arithmetic<uint64_t>(table, "u64");
    add_arithmetic<int64_t>(table, "s64");
    add_bits<uint32_t>(table, "b32");
    add_bits<uint64_t>(table, "b64");
    table["add.f32"] = change<sum_of<float>, float>;
    table["add.f64"] = change<sum_of<double>, double>;
    table["inc.u32"] = change<counted_up<uint32_t>, uint32_t>;
    table["dec.u32"] = change<counted_down<uint32_t>, uint32_t>;
    return table;
}

/* atom writes the old value to a register, red discards it. */
bool decode_atomic(decoder &d, const statement &s, const words &words, instruction &i)
{
    static const changes table = all_changes();
    bool keeps = words[0] == "atom";
    for (size_t n = 1; n + 2 < words.size(); n++)
        if (!read_space(words[n], &i.where) && !is_idle(words[n]))
            return false;
    auto found = table.find(words[words.size() - 2] + "." + words.back());
    if (found == table.end())
        return false;
    char storage = type_bits(words.back()) == 64 ? 'l' : 'w';
    size_t sources = words[words.size() - 2] == "cas" ? 2 : 1;
    d.expect_operands(keeps + 1 + sources, keeps + 1 + sources);
    operand sink;
    sink.kind = operand::REGISTER;
    sink.name = "_";
    d.put_destination(i, 0, keeps ? s.operands[0] : sink, storage);
    i.address = d.address(s.operands[keeps]);
    d.put(i, 1, s.operands[keeps + 1], storage);
    d.put(i, 2, s.operands[keeps + sources], storage);
    i.run = found->second;
    i.may_pause = true;
    return true;
}

void do_nothing(warp &, const instruction &)
{
}

/* ---- cvta: generic addresses are addresses of the host, even in shared and local memory */
template <bool to_generic> void move_shared(warp &warp, const instruction &i)
{
    uint64_t apart = (uint64_t)warp.block->shared - SHARED_BEGIN, results[LANES];
    source<uint64_t> from(warp, i, 1);
    for (unsigned lane = 0; lane < LANES; lane++)
        results[lane] = to_generic ? from[lane] + apart : from[lane] - apart;
    put_lanes(warp, i.at[0], results);
}

template <bool to_generic> void move_local(warp &warp, const instruction &i)
{
    uint64_t first = (uint64_t)warp.local, stride = warp.block->local_stride, results[LANES];
    source<uint64_t> from(warp, i, 1);
    for (unsigned lane = 0; lane < LANES; lane++)
        results[lane] = to_generic ? from[lane] + first + lane * stride : from[lane] - first - lane * stride;
    put_lanes(warp, i.at[0], results);
}

void move_parameter(warp &warp, const instruction &i)
{
    uint64_t results[LANES];
    source<uint64_t> from(warp, i, 1);
    for (unsigned lane = 0; lane < LANES; lane++)
        results[lane] = from[lane] + (uint64_t)warp.block->launch->parameters.data();
    put_lanes(warp, i.at[0], results);
}

void move_same(warp &warp, const instruction &i)
{
    uint64_t results[LANES];
    memcpy(results, warp.lanes<uint64_t>(i.at[1]), sizeof results);
    put_lanes(warp, i.at[0], results);
}

bool decode_generic(decoder &d, const statement &s, const words &words, instruction &i)
{
    bool to_generic = words[1] != "to";
    space where;
    if (words.size() != (to_generic ? 3 : 4) || words.back() != "u64" || !read_space(words[to_generic ? 1 : 2], &where))
        return false;
    d.expect_operands(2, 2);
    d.put_destination(i, 0, s.operands[0], 'l');
    d.put(i, 1, s.operands[1], 'l');
    if (where == SPACE_SHARED)
        i.run = to_generic ? move_shared<true> : move_shared<false>;
    else if (where == SPACE_LOCAL)
        i.run = to_generic ? move_local<true> : move_local<false>;
    else if (where == SPACE_PARAM)
        i.run = to_generic ? move_parameter : nullptr;
    else
        i.run = move_same;
    return i.run;
}
} // namespace

bool decode_memory(decoder &d, const statement &s, const words &words, instruction &i)
{
    if (words[0] == "atom" || words[0] == "red")
        return words.size() > 2 && decode_atomic(d, s, words, i);
    if (words[0] == "cvta")
        return words.size() > 2 && decode_generic(d, s, words, i);
    if (words[0] != "membar" && words[0] != "fence" && words[0] != "prefetch")
        return decode_transfer(d, s, words, i);
    i.run = do_nothing;
    i.may_pause = true;
    return true;
}
} // namespace ptx
