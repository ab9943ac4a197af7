/* Integers, bits and predicates. PTX ISA, "Integer Arithmetic Instructions" and "Logic and Shift Instructions". Sums
 * and products wrap around, so they are computed in unsigned types. */
#include "tests/cuda/ptx/lanes.h"

namespace ptx
{
namespace
{
template <typename T> constexpr unsigned width_of = sizeof(T) * 8;
template <typename T> using plain = std::make_unsigned_t<T>;

/* The integer type with twice as many bits as T. */
template <typename T> struct twice;
template <> struct twice<int16_t> : std::type_identity<int32_t> {
};
template <> struct twice<uint16_t> : std::type_identity<uint32_t> {
};
template <> struct twice<int32_t> : std::type_identity<int64_t> {
};
template <> struct twice<uint32_t> : std::type_identity<uint64_t> {
};
template <> struct twice<int64_t> : std::type_identity<__int128> {
};
template <> struct twice<uint64_t> : std::type_identity<unsigned __int128> {
};
template <typename T> using wide = typename twice<T>::type;

template <typename T> T add(T a, T b)
{
    return (T)((plain<T>)a + (plain<T>)b);
}

template <typename T> T subtract(T a, T b)
{
    return (T)((plain<T>)a - (plain<T>)b);
}

template <typename T> T multiply_low(T a, T b)
{
    return (T)((wide<plain<T>>)(plain<T>)a * (plain<T>)b);
}

template <typename T> T multiply_high(T a, T b)
{
    return (T)((wide<T>)a * b >> width_of<T>);
}

template <typename T> wide<T> multiply_wide(T a, T b)
{
    return (wide<T>)a * b;
}

template <typename T> T multiply_add_low(T a, T b, T c)
{
    return add(multiply_low(a, b), c);
}

template <typename T> T multiply_add_high(T a, T b, T c)
{
    return add(multiply_high(a, b), c);
}

template <typename T> wide<T> multiply_add_wide(T a, T b, wide<T> c)
{
    return add(multiply_wide(a, b), c);
}

/* The result of a division by 0 is not defined. The emulator sets all of its bits. The quotient of the lowest number
 * and -1 overflows, and wraps around. */
template <typename T> T divide(T a, T b)
{
    if (b == 0)
        return (T) ~(plain<T>)0;
    if constexpr (std::is_signed_v<T>)
        if (b == -1)
            return subtract((T)0, a);
    return (T)(a / b);
}

template <typename T> T remainder(T a, T b)
{
    if (b == 0)
        return (T) ~(plain<T>)0;
    if constexpr (std::is_signed_v<T>)
        if (b == -1)
            return 0;
    return (T)(a % b);
}

template <typename T> T negate(T a)
{
    return subtract((T)0, a);
}

template <typename T> T absolute(T a)
{
    return a < 0 ? negate(a) : a;
}

template <typename T> T minimum(T a, T b)
{
    return a < b ? a : b;
}

template <typename T> T maximum(T a, T b)
{
    return a > b ? a : b;
}

template <typename T> T bits_and(T a, T b)
{
    return (T)(a & b);
}

template <typename T> T bits_or(T a, T b)
{
    return (T)(a | b);
}

template <typename T> T bits_xor(T a, T b)
{
    return (T)(a ^ b);
}

template <typename T> T bits_not(T a)
{
    if constexpr (std::is_same_v<T, bool>)
        return !a;
    else
        return (T)~a;
}

template <typename T> T copy(T a)
{
    return a;
}

/* Shifts by more than the width act like shifts by the width. */
template <typename T> T shift_left(T a, uint32_t by)
{
    return by >= width_of<T> ? 0 : (T)(a << by);
}

template <typename T> T shift_right(T a, uint32_t by)
{
    if (by >= width_of<T>)
        return a < 0 ? (T)-1 : 0;
    return (T)(a >> by);
}

/* shf.l shifts the 64 bits b:a to the left, and returns the upper 32 bits. shf.r shifts them to the right, and returns
 * the lower 32 bits. */
template <bool clamps> uint32_t funnel_left(uint32_t a, uint32_t b, uint32_t by)
{
    by = clamps ? minimum(by, 32u) : by % 32;
    return by == 0 ? b : by == 32 ? a : b << by | a >> (32 - by);
}

template <bool clamps> uint32_t funnel_right(uint32_t a, uint32_t b, uint32_t by)
{
    by = clamps ? minimum(by, 32u) : by % 32;
    return by == 0 ? a : by == 32 ? b : a >> by | b << (32 - by);
}

template <typename T> uint32_t count_ones(T a)
{
    return (uint32_t)std::popcount(a);
}

template <typename T> uint32_t count_leading_zeros(T a)
{
    return (uint32_t)std::countl_zero(a);
}

template <typename T> T reverse(T a)
{
    T reversed = 0;
    for (unsigned i = 0; i < width_of<T>; i++)
        reversed = (T)(reversed << 1 | (a >> i & 1));
    return reversed;
}

/* bfe returns `length` bits of a, beginning at `position`. An unsigned field is extended with zeros. A signed field is
 * extended with its highest bit, or with the highest bit of a if the field reaches beyond a. */
template <typename T> T extract(T a, uint32_t position, uint32_t length)
{
    position &= 255, length &= 255;
    const unsigned top = width_of<T> - 1;
    plain<T> bits = shift_right((plain<T>)a, position);
    if (length > top)
        length = width_of<T>;
    plain<T> kept = length == width_of<T> ? (plain<T>)~(plain<T>)0 : (plain<T>)(((plain<T>)1 << length) - 1);
    bool negative = std::is_signed_v<T> && length > 0 && (plain<T>)a >> minimum(position + length - 1, top) & 1;
    plain<T> there = position > top ? 0 : (plain<T>)~(plain<T>)0 >> position; /* mask of the field's bits that lie
                                                                                 within a */
    plain<T> found = bits & kept & there;
    return (T)(negative ? found | (plain<T>)~(kept & there) : found);
}

template <typename T> T insert(T a, T b, uint32_t position, uint32_t length)
{
    position &= 255, length &= 255;
    T field = length >= width_of<T> ? (T) ~(T)0 : (T)(((T)1 << length) - 1);
    T place = shift_left(field, position);
    return (T)((b & ~place) | (shift_left(a, position) & place));
}

/* prmt: each byte of the result is one of the eight bytes b:a, or eight copies of the sign bit of such a byte. */
uint32_t permute(uint32_t a, uint32_t b, uint32_t choice)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned one = choice >> i * 4 & 15;
        uint32_t byte = (uint32_t)(bytes >> (one & 7) * 8) & 255;
        result |= (one & 8 ? (byte & 128 ? 255u : 0) : byte) << i * 8;
    }
    return result;
}

/* lop3: bit n of `table` is the result for the input bits a, b and c whose binary number abc is n. */
uint32_t look_up(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t result = 0;
    for (unsigned n = 0; n < 8; n++)
        if (table >> n & 1)
            result |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
    return result;
}

template <typename T> void add_arithmetic(form_table &table, const std::string &type)
{
    add_form<add<T>>(table, "add." + type);
    add_form<subtract<T>>(table, "sub." + type);
    add_form<multiply_low<T>>(table, "mul.lo." + type);
    add_form<multiply_high<T>>(table, "mul.hi." + type);
    add_form<multiply_add_low<T>>(table, "mad.lo." + type);
    add_form<multiply_add_high<T>>(table, "mad.hi." + type);
    add_form<divide<T>>(table, "div." + type);
    add_form<remainder<T>>(table, "rem." + type);
    add_form<minimum<T>>(table, "min." + type);
    add_form<maximum<T>>(table, "max." + type);
    add_form<shift_right<T>>(table, "shr." + type);
    if constexpr (std::is_signed_v<T>) {
        add_form<negate<T>>(table, "neg." + type);
        add_form<absolute<T>>(table, "abs." + type);
    }
    if constexpr (sizeof(T) < 8) {
        add_form<multiply_wide<T>>(table, "mul.wide." + type);
        add_form<multiply_add_wide<T>>(table, "mad.wide." + type);
    }
    if constexpr (sizeof(T) > 2)
        add_form<extract<T>>(table, "bfe." + type);
}

template <typename T> void add_logic(form_table &table, const std::string &type)
{
    add_form<bits_and<T>>(table, "and." + type);
    add_form<bits_or<T>>(table, "or." + type);
    add_form<bits_xor<T>>(table, "xor." + type);
    add_form<bits_not<T>>(table, "not." + type);
}

template <typename T> void add_bits(form_table &table, const std::string &type)
{
    add_logic<T>(table, type);
    add_form<shift_left<T>>(table, "shl." + type);
    add_form<shift_right<T>>(table, "shr." + type);
    if constexpr (sizeof(T) > 2) {
        add_form<count_ones<T>>(table, "popc." + type);
        add_form<count_leading_zeros<T>>(table, "clz." + type);
        add_form<reverse<T>>(table, "brev." + type);
        add_form<insert<T>>(table, "bfi." + type);
    }
}
} // namespace

void add_integer_forms(form_table &table)
{
    add_arithmetic<int16_t>(table, "s16");
    add_arithmetic<uint16_t>(table, "u16");
    add_arithmetic<int32_t>(table, "s32");
    add_arithmetic<uint32_t>(table, "u32");
    add_arithmetic<int64_t>(table, "s64");
    add_arithmetic<uint64_t>(table, "u64");
    add_bits<uint16_t>(table, "b16");
    add_bits<uint32_t>(table, "b32");
    add_bits<uint64_t>(table, "b64");
    add_logic<bool>(table, "pred");
    add_form<funnel_left<true>>(table, "shf.l.clamp.b32");
    add_form<funnel_left<false>>(table, "shf.l.wrap.b32");
    add_form<funnel_right<true>>(table, "shf.r.clamp.b32");
    add_form<funnel_right<false>>(table, "shf.r.wrap.b32");
    add_form<permute>(table, "prmt.b32");
    add_form<look_up>(table, "lop3.b32");
    add_form<copy<bool>>(table, "mov.pred");
    for (const char *type : {"b16", "u16", "s16", "b32", "u32", "s32", "f32"})
        add_form<copy<uint32_t>>(table, std::string("mov.") + type);
    for (const char *type : {"b64", "u64", "s64", "f64"})
        add_form<copy<uint64_t>>(table, std::string("mov.") + type);
}
} // namespace ptx
