/* lanes: implements most instructions as C++ functions of one lane's values, such as `float add(float, float)`. A
 * handler calls the function for all lanes in a loop, which the compiler vectorises. */
#ifndef TESTS_CUDA_PTX_LANES_H
#define TESTS_CUDA_PTX_LANES_H

#include "tests/cuda/ptx/machine.h"

#include <bit>
#include <type_traits>
#include <utility>

namespace ptx
{
/* Floating-point formats of 16 bits. C++ has no arithmetic for them. */
struct f16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};

/* The type in which a register stores a lane's value of type T. A narrower value is in the lower bits, and the upper
 * bits are 0. */
template <typename T> using stored = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

template <typename T> static inline T of_stored(stored<T> bits)
{
    if constexpr (sizeof(T) >= 4)
        return std::bit_cast<T>(bits);
    else if constexpr (sizeof(T) == 2)
        return std::bit_cast<T>((uint16_t)bits);
    else
        return std::bit_cast<T>((uint8_t)bits);
}

template <typename T> static inline stored<T> to_stored(T value)
{
    if constexpr (sizeof(T) >= 4)
        return std::bit_cast<stored<T>>(value);
    else if constexpr (sizeof(T) == 2)
        return std::bit_cast<uint16_t>(value);
    else
        return std::bit_cast<uint8_t>(value);
}

/* A source operand: of type T in each lane, or a predicate. */
template <typename T> struct source {
    const stored<T> *of;
    source(warp &warp, const instruction &i, unsigned operand) : of(warp.lanes<stored<T>>(i.at[operand]))
    {
    }
    T operator[](unsigned lane) const
    {
        return of_stored<T>(of[lane]);
    }
};

template <> struct source<bool> {
    uint32_t bits;
    source(warp &warp, const instruction &i, unsigned operand)
        : bits(*warp.lanes<uint32_t>(i.at[operand]) ^ (i.flips >> operand & 1 ? ~0u : 0))
    {
    }
    bool operator[](unsigned lane) const
    {
        return bits >> lane & 1;
    }
};

/* Bit n of the result is byte n, which is 0 or 1. */
static inline uint32_t pack_bits(const uint8_t (&bytes)[LANES])
{
    uint32_t bits = 0;
    for (unsigned i = 0; i < LANES; i += 8) {
        uint64_t eight;
        __builtin_memcpy(&eight, bytes + i, 8);
        bits |= (uint32_t)(eight * 0x0102040810204080u >> 56) << i;
    }
    return bits;
}

/* Writes a predicate's bits in the active lanes. */
static inline void put_bits(warp &warp, uint32_t at, uint32_t bits)
{
    uint32_t *to = warp.lanes<uint32_t>(at);
    *to = (*to & ~warp.active) | (bits & warp.active);
}

/* Writes values to a register in the active lanes. */
template <typename W> static inline void put_lanes(warp &warp, uint32_t at, const W (&values)[LANES])
{
    W *to = warp.lanes<W>(at);
    uint32_t active = warp.active;
    if (active == ALL_LANES) {
        __builtin_memcpy(to, values, sizeof values);
        return;
    }
    for (unsigned lane = 0; lane < LANES; lane++)
        to[lane] = active >> lane & 1 ? values[lane] : to[lane];
}

template <auto function, typename D, typename... S, size_t... n>
static inline void run_lanes(warp &warp, const instruction &i, std::index_sequence<n...>)
{
    auto loop = [&](auto... from) {
        if constexpr (std::is_same_v<D, bool>) {
            uint8_t results[LANES];
            for (unsigned lane = 0; lane < LANES; lane++)
                results[lane] = function(from[lane]...);
            put_bits(warp, i.at[0], pack_bits(results));
        } else {
            stored<D> results[LANES];
            for (unsigned lane = 0; lane < LANES; lane++)
                results[lane] = to_stored<D>(function(from[lane]...));
            put_lanes(warp, i.at[0], results);
        }
    };
    loop(source<S>(warp, i, n + 1)...);
}

/* The handler that runs `function` in each lane, and the storage of its operands, the destination first. 'p' is a
 * predicate, 'w' a word of 32 bits, and 'l' a long word of 64 bits. */
template <auto function, typename = decltype(function)> struct each_lane;

template <auto function, typename D, typename... S> struct each_lane<function, D (*)(S...)> {
    template <typename T> static constexpr char letter = std::is_same_v<T, bool> ? 'p' : sizeof(T) <= 4 ? 'w' : 'l';
    static constexpr char operands[] = {letter<D>, letter<S>..., 0};

    static void run(warp &warp, const instruction &i)
    {
        run_lanes<function, D, S...>(warp, i, std::index_sequence_for<S...>());
    }
};

/* The implementation of an instruction with all of its modifiers. A form_table finds it by the full name, such as
 * "add.rn.f32". */
struct form {
    handler run;
    const char *operands;
};

using form_table = std::map<std::string, form>;

template <auto function> static inline void add_form(form_table &table, const std::string &name)
{
    table[name] = {each_lane<function>::run, each_lane<function>::operands};
}

void add_integer_forms(form_table &table);
void add_float_forms(form_table &table);
void add_comparison_forms(form_table &table);
void add_conversion_forms(form_table &table);
} // namespace ptx

#endif
