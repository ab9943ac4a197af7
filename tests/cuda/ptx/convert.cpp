/* Conversions. PTX ISA, "Data Movement and Conversion Instructions: cvt". Without .sat, a conversion to a narrower
 * integer drops the upper bits. Floats are rounded as the instruction says. In a conversion to an integer type, a float
 * outside of the type's range becomes the nearest integer of this range, and a NaN becomes 0. */
#include "tests/cuda/ptx/half.h"

#include <cfloat>
#include <cmath>
#include <limits>

namespace ptx
{
namespace
{
enum rounding { NEAREST, TO_ZERO, DOWN, UP };

template <typename D, typename S> D cut(S x)
{
    return (D)x;
}

/* Saturates to the range of D. */
template <typename D, typename S> D clamp_integer(S x)
{
    using wide = __int128;
    wide least = std::numeric_limits<D>::min(), most = std::numeric_limits<D>::max(), value = x;
    return (D)(value < least ? least : value > most ? most : value);
}

template <rounding way, typename F> F round_whole(F x)
{
    switch (way) {
    case NEAREST:
        return std::rint(x); /* ties to even, the processor's default mode */
    case TO_ZERO:
        return std::trunc(x);
    case DOWN:
        return std::floor(x);
    default:
        return std::ceil(x);
    }
}

template <bool ftz, typename F> F flush(F x)
{
    return ftz && std::fabs(x) < FLT_MIN ? std::copysign((F)0, x) : x;
}

/* The limits `first` and `behind` are 0 or powers of two, so they are exact as floats. */
template <typename D, typename F, rounding way, bool ftz> D to_integer(F x)
{
    constexpr F behind = (F)((unsigned __int128)std::numeric_limits<D>::max() + 1);
    constexpr F first = (F)std::numeric_limits<D>::min();
    F whole = round_whole<way>(flush<ftz>(x));
    if (!(whole >= first))
        return whole != whole ? 0 : std::numeric_limits<D>::min();
    return whole >= behind ? std::numeric_limits<D>::max() : (D)whole;
}

template <rounding way, bool ftz, bool sat> float to_whole(float x)
{
    float whole = round_whole<way>(flush<ftz>(x));
    if (sat)
        return whole > 0 ? (whole < 1 ? whole : 1.0f) : 0.0f;
    return whole != whole ? std::bit_cast<float>(0x7fffffffu) : whole;
}

template <bool ftz> float saturate(float x)
{
    x = flush<ftz>(x);
    return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
}

/* Converts an integer to a float with rounding `way`. The nearest float is compared with the integer in wide integers,
 * which represent both numbers exactly. */
template <typename S, rounding way> float to_nearby(S x)
{
    float nearest = (float)x;
    __int128 exact = x, found = (__int128)nearest;
    bool up = way == UP || (way == TO_ZERO && x < 0);
    if (way == NEAREST || exact == found || up != (exact > found))
        return nearest;
    return std::nextafterf(nearest,
                           up ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity());
}

template <typename S> double to_double(S x)
{
    return (double)x;
}

template <bool to_zero> float narrow(double x)
{
    float nearest = (float)x;
    if (x != x)
        return std::bit_cast<float>(0x7fffffffu);
    if (to_zero && std::fabs((double)nearest) > std::fabs(x))
        return std::nextafterf(nearest, 0.0f);
    return nearest;
}

template <typename H> float widen(H x)
{
    float wide = to_float(x);
    return wide != wide ? std::bit_cast<float>(0x7fffffffu) : wide;
}

template <bool to_zero> bf16 narrow_to_bf16(float x)
{
    return to_bf16<to_zero>(x);
}

template <bool to_zero> f16 narrow_to_f16(float x)
{
    return to_f16<to_zero>(x);
}

/* cvt.….bf16x2.f32 d, a, b: a becomes the upper half of d. */
template <bool to_zero> uint32_t pair_of_bf16(float a, float b)
{
    return (uint32_t)to_bf16<to_zero>(a).bits << 16 | to_bf16<to_zero>(b).bits;
}

template <bool to_zero> uint32_t pair_of_f16(float a, float b)
{
    return (uint32_t)to_f16<to_zero>(a).bits << 16 | to_f16<to_zero>(b).bits;
}

/* TF32 has ten bits of fraction, in the upper bits of a float. */
enum tf32_rounding { TIES_EVEN, TIES_AWAY, CUT };

template <tf32_rounding way> uint32_t to_tf32(float x)
{
    uint32_t bits = std::bit_cast<uint32_t>(x);
    if (x != x)
        return 0x7fffffff;
    if (std::isinf(x) || way == CUT)
        return bits & ~0x1fffu;
    return (bits + (way == TIES_AWAY ? 0x1000u : 0xfffu + (bits >> 13 & 1))) & ~0x1fffu;
}

/* Adds the conversions from one integer type to another. */
template <typename D, typename S> void add_integers(form_table &table, const std::string &to, const std::string &from)
{
    add_form<cut<D, S>>(table, "cvt." + to + "." + from);
    add_form<clamp_integer<D, S>>(table, "cvt.sat." + to + "." + from);
}

template <typename D> void add_from_integers(form_table &table, const std::string &to)
{
    add_integers<D, uint8_t>(table, to, "u8");
    add_integers<D, int8_t>(table, to, "s8");
    add_integers<D, uint16_t>(table, to, "u16");
    add_integers<D, int16_t>(table, to, "s16");
    add_integers<D, uint32_t>(table, to, "u32");
    add_integers<D, int32_t>(table, to, "s32");
    add_integers<D, uint64_t>(table, to, "u64");
    add_integers<D, int64_t>(table, to, "s64");
}

template <typename S> void add_from_integer(form_table &table, const std::string &from)
{
    add_form<to_nearby<S, NEAREST>>(table, "cvt.rn.f32." + from);
    add_form<to_nearby<S, TO_ZERO>>(table, "cvt.rz.f32." + from);
    add_form<to_nearby<S, DOWN>>(table, "cvt.rm.f32." + from);
    add_form<to_nearby<S, UP>>(table, "cvt.rp.f32." + from);
    add_form<to_double<S>>(table, "cvt.rn.f64." + from);
}

template <typename D, rounding way>
void add_to_integer(form_table &table, const std::string &way_name, const std::string &to)
{
    std::string name = "cvt." + way_name;
    add_form<to_integer<D, float, way, false>>(table, name + "." + to + ".f32");
    add_form<to_integer<D, float, way, true>>(table, name + ".ftz." + to + ".f32");
    add_form<to_integer<D, double, way, false>>(table, name + "." + to + ".f64");
}

template <rounding way> void add_whole(form_table &table, const std::string &way_name)
{
    std::string name = "cvt." + way_name;
    add_to_integer<int32_t, way>(table, way_name, "s32");
    add_to_integer<uint32_t, way>(table, way_name, "u32");
    add_to_integer<int64_t, way>(table, way_name, "s64");
    add_to_integer<uint64_t, way>(table, way_name, "u64");
    add_form<to_whole<way, false, false>>(table, name + ".f32.f32");
    add_form<to_whole<way, true, false>>(table, name + ".ftz.f32.f32");
    add_form<to_whole<way, false, true>>(table, name + ".sat.f32.f32");
    add_form<to_whole<way, true, true>>(table, name + ".ftz.sat.f32.f32");
}
} // namespace

void add_conversion_forms(form_table &table)
{
    add_from_integers<uint8_t>(table, "u8");
    add_from_integers<int8_t>(table, "s8");
    add_from_integers<uint16_t>(table, "u16");
    add_from_integers<int16_t>(table, "s16");
    add_from_integers<uint32_t>(table, "u32");
    add_from_integers<int32_t>(table, "s32");
    add_from_integers<uint64_t>(table, "u64");
    add_from_integers<int64_t>(table, "s64");
    add_from_integer<uint8_t>(table, "u8");
    add_from_integer<int8_t>(table, "s8");
    add_from_integer<uint16_t>(table, "u16");
    add_from_integer<int16_t>(table, "s16");
    add_from_integer<uint32_t>(table, "u32");
    add_from_integer<int32_t>(table, "s32");
    add_from_integer<uint64_t>(table, "u64");
    add_from_integer<int64_t>(table, "s64");
    add_whole<NEAREST>(table, "rni");
    add_whole<TO_ZERO>(table, "rzi");
    add_whole<DOWN>(table, "rmi");
    add_whole<UP>(table, "rpi");
    add_form<saturate<false>>(table, "cvt.sat.f32.f32");
    add_form<saturate<true>>(table, "cvt.ftz.sat.f32.f32");
    add_form<to_double<float>>(table, "cvt.f64.f32");
    add_form<narrow<false>>(table, "cvt.rn.f32.f64");
    add_form<narrow<true>>(table, "cvt.rz.f32.f64");
    add_form<widen<bf16>>(table, "cvt.f32.bf16");
    add_form<widen<f16>>(table, "cvt.f32.f16");
    add_form<narrow_to_bf16<false>>(table, "cvt.rn.bf16.f32");
    add_form<narrow_to_bf16<true>>(table, "cvt.rz.bf16.f32");
    add_form<narrow_to_f16<false>>(table, "cvt.rn.f16.f32");
    add_form<narrow_to_f16<true>>(table, "cvt.rz.f16.f32");
    add_form<pair_of_bf16<false>>(table, "cvt.rn.bf16x2.f32");
    add_form<pair_of_bf16<true>>(table, "cvt.rz.bf16x2.f32");
    add_form<pair_of_f16<false>>(table, "cvt.rn.f16x2.f32");
    add_form<pair_of_f16<true>>(table, "cvt.rz.f16x2.f32");
    add_form<to_tf32<TIES_EVEN>>(table, "cvt.rn.tf32.f32");
    add_form<to_tf32<TIES_AWAY>>(table, "cvt.rna.tf32.f32");
    add_form<to_tf32<CUT>>(table, "cvt.rz.tf32.f32");
}
} // namespace ptx
