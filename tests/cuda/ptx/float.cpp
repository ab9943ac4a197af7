/* Floating point. PTX ISA, "Floating-Point Instructions". If an operation on .f32 gives a NaN, the NaN has the bits
 * 0x7fffffff. The exceptions are neg, abs and copysign, which change only the sign. For approximations (.approx), the
 * manual states only the maximum error. The emulator computes them with the functions of the C++ library. A GPU may
 * give other bits, so no test of the engine may rely on these bits. */
#include "tests/cuda/ptx/lanes.h"

#include <cfloat>
#include <cmath>
#include <limits>

namespace ptx
{
namespace
{
enum rounding { NEAREST, TO_ZERO, DOWN, UP };

const float INFINITE = std::numeric_limits<float>::infinity();

float canonical(float x)
{
    return x != x ? std::bit_cast<float>(0x7fffffffu) : x;
}

/* .ftz: a subnormal number counts as 0 with its sign. */
template <bool ftz> float flush(float x)
{
    return ftz && std::fabs(x) < FLT_MIN ? std::copysign(0.0f, x) : x;
}

/* With .sat, the result is limited to the range from 0 to 1. A NaN becomes 0. */
template <bool sat> float saturate(float x)
{
    if (!sat)
        return x;
    return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
}

/* Returns the sum of `high` and `low`, rounded in direction `way`. |low| must be less than about |high| / 2^53. Only
 * the sign of `low` matters then. */
template <rounding way> float round_sum(double high, double low)
{
    float nearest = (float)high;
    if (way == NEAREST || std::isnan(nearest) || std::isinf(high))
        return nearest;
    double rest = high - (double)nearest; /* exact if `nearest` is finite. Otherwise only its sign is correct */
    double sign = rest != 0 ? rest : low;
    bool up = way == UP || (way == TO_ZERO && std::signbit(high));
    if (up && sign > 0)
        return std::nextafterf(nearest, INFINITE);
    if (!up && sign < 0)
        return std::nextafterf(nearest, -INFINITE);
    return nearest;
}

/* Returns a + b, rounded in direction `way`. The rounding error of the sum in double comes from Knuth's TwoSum. If
 * numbers of opposite sign add up to 0, the result is -0 for DOWN, otherwise +0. */
template <rounding way> float add_exactly(double a, double b)
{
    double sum = a + b, part = sum - a;
    if (way == DOWN && sum == 0 && std::signbit(a) != std::signbit(b))
        return -0.0f;
    if (std::isinf(sum))
        return (float)sum;
    return round_sum<way>(sum, (a - (sum - part)) + (b - part));
}

template <rounding way, bool ftz, bool sat> float finish(float x)
{
    return saturate<sat>(flush<ftz>(canonical(x)));
}

template <rounding way, bool ftz, bool sat> float add(float a, float b)
{
    a = flush<ftz>(a), b = flush<ftz>(b);
    return finish<way, ftz, sat>(way == NEAREST ? a + b : add_exactly<way>(a, b));
}

template <rounding way, bool ftz, bool sat> float subtract(float a, float b)
{
    return add<way, ftz, sat>(a, -b);
}

template <rounding way, bool ftz, bool sat> float multiply(float a, float b)
{
    a = flush<ftz>(a), b = flush<ftz>(b);
    return finish<way, ftz, sat>(way == NEAREST ? a * b : round_sum<way>((double)a * b, 0));
}

/* The product of two floats is exact in double. */
template <rounding way, bool ftz, bool sat> float multiply_add(float a, float b, float c)
{
    a = flush<ftz>(a), b = flush<ftz>(b), c = flush<ftz>(c);
    return finish<way, ftz, sat>(way == NEAREST ? std::fmaf(a, b, c) : add_exactly<way>((double)a * b, c));
}

template <rounding way, bool ftz, bool> float divide(float a, float b)
{
    a = flush<ftz>(a), b = flush<ftz>(b);
    float nearest = a / b;
    if (way == NEAREST || !std::isfinite(nearest) || nearest == 0)
        return finish<way, ftz, false>(nearest);
    double rest = std::fma(-(double)nearest, (double)b, (double)a) / b; /* its sign says on which side of `nearest` the
                                                                           exact quotient is */
    return finish<way, ftz, false>(round_sum<way>((double)nearest, rest));
}

template <rounding way, bool ftz, bool> float reciprocal(float a)
{
    return divide<way, ftz, false>(1, a);
}

template <rounding way, bool ftz, bool> float square_root(float a)
{
    a = flush<ftz>(a);
    float nearest = std::sqrt(a);
    if (way == NEAREST || !(nearest > 0) || std::isinf(nearest))
        return finish<way, ftz, false>(nearest);
    return finish<way, ftz, false>(round_sum<way>(nearest, (double)a - (double)nearest * nearest));
}

/* div.approx multiplies by the reciprocal of the divisor. If the magnitude of the divisor is above 2^126, the
 * reciprocal is subnormal and counts as 0. The quotient is 0 then, or NaN if the dividend is infinite. */
template <bool ftz> float divide_approximately(float a, float b)
{
    a = flush<ftz>(a), b = flush<ftz>(b);
    if (std::fabs(b) > 0x1p126f && std::isfinite(b))
        return std::isinf(a) ? canonical(NAN) : canonical(a * 0.0f);
    return flush<ftz>(canonical(a / b));
}

template <bool ftz> float divide_fully(float a, float b)
{
    return flush<ftz>(canonical(flush<ftz>(a) / flush<ftz>(b)));
}

template <bool ftz> float reciprocal_root(float a)
{
    return flush<ftz>(canonical((float)(1 / std::sqrt((double)flush<ftz>(a)))));
}

template <bool ftz> float power_of_two(float a)
{
    return flush<ftz>(canonical(std::exp2f(flush<ftz>(a))));
}

template <bool ftz> float logarithm(float a)
{
    return flush<ftz>(canonical(std::log2f(flush<ftz>(a))));
}

template <bool ftz> float sine(float a)
{
    return flush<ftz>(canonical(std::sin(flush<ftz>(a))));
}

template <bool ftz> float cosine(float a)
{
    return flush<ftz>(canonical(std::cos(flush<ftz>(a))));
}

float tangent(float a)
{
    return canonical(std::tanh(a));
}

/* If one operand is a NaN, the result is the other operand. With .NaN, the result is a NaN. -0 is less than +0. */
template <bool ftz, bool nan> float minimum(float a, float b)
{
    a = flush<ftz>(a), b = flush<ftz>(b);
    if (a != a || b != b)
        return nan ? canonical(NAN) : canonical(a != a ? b : a);
    return a < b || (a == b && std::signbit(a)) ? a : b;
}

template <bool ftz, bool nan> float maximum(float a, float b)
{
    a = flush<ftz>(a), b = flush<ftz>(b);
    if (a != a || b != b)
        return nan ? canonical(NAN) : canonical(a != a ? b : a);
    return a > b || (a == b && !std::signbit(a)) ? a : b;
}

template <bool ftz> float negate(float a)
{
    return std::bit_cast<float>(std::bit_cast<uint32_t>(flush<ftz>(a)) ^ 0x80000000u);
}

template <bool ftz> float absolute(float a)
{
    return std::fabs(flush<ftz>(a));
}

/* copysign: the sign of a with the magnitude of b. */
float copy_sign(float a, float b)
{
    return std::copysign(b, a);
}

enum test { FINITE, INFINITY_ITSELF, NUMBER, NOT_A_NUMBER, NORMAL, SUBNORMAL };

template <test kind> bool is(float a)
{
    uint32_t size = std::bit_cast<uint32_t>(a) & 0x7fffffff;
    switch (kind) {
    case FINITE:
        return size < 0x7f800000;
    case INFINITY_ITSELF:
        return size == 0x7f800000;
    case NUMBER:
        return size <= 0x7f800000;
    case NOT_A_NUMBER:
        return size > 0x7f800000;
    case NORMAL:
        return size >= 0x00800000 && size < 0x7f800000;
    default:
        return size > 0 && size < 0x00800000;
    }
}

/* Only these arithmetic operations on doubles exist, because the kernels use doubles only to reduce the angles of sines
 * and cosines. */
double add_doubles(double a, double b)
{
    return a + b;
}

double subtract_doubles(double a, double b)
{
    return a - b;
}

double multiply_doubles(double a, double b)
{
    return a * b;
}

double divide_doubles(double a, double b)
{
    return a / b;
}

double multiply_add_doubles(double a, double b, double c)
{
    return std::fma(a, b, c);
}

/* These macros add instructions to `table`, with and without .ftz. ADD_ROUNDINGS adds an instruction for each of the
 * four roundings. Without a suffix, the rounding is .rn, to the nearest. ADD_SATURATED adds sums and products with
 * .sat. */
#define ADD_ROUNDING(function, name, way, suffix)                                      \
    add_form<function<way, false, false>>(table, std::string(name) + suffix + ".f32"); \
    add_form<function<way, true, false>>(table, std::string(name) + suffix + ".ftz.f32")

#define ADD_ROUNDINGS(function, name)             \
    ADD_ROUNDING(function, name, NEAREST, ".rn"); \
    ADD_ROUNDING(function, name, TO_ZERO, ".rz"); \
    ADD_ROUNDING(function, name, DOWN, ".rm");    \
    ADD_ROUNDING(function, name, UP, ".rp")

#define ADD_SATURATED(function, name, suffix)                                                 \
    add_form<function<NEAREST, false, true>>(table, std::string(name) + suffix + ".sat.f32"); \
    add_form<function<NEAREST, true, true>>(table, std::string(name) + suffix + ".ftz.sat.f32")

#define ADD_FLUSHED(function, name)                \
    add_form<function<false>>(table, name ".f32"); \
    add_form<function<true>>(table, name ".ftz.f32")
} // namespace

void add_float_forms(form_table &table)
{
    ADD_ROUNDINGS(add, "add");
    ADD_ROUNDINGS(subtract, "sub");
    ADD_ROUNDINGS(multiply, "mul");
    ADD_ROUNDING(add, "add", NEAREST, "");
    ADD_ROUNDING(subtract, "sub", NEAREST, "");
    ADD_ROUNDING(multiply, "mul", NEAREST, "");
    ADD_ROUNDINGS(multiply_add, "fma");
    for (const char *suffix : {"", ".rn"}) {
        ADD_SATURATED(add, "add", suffix);
        ADD_SATURATED(subtract, "sub", suffix);
        ADD_SATURATED(multiply, "mul", suffix);
    }
    ADD_SATURATED(multiply_add, "fma", ".rn");
    ADD_ROUNDINGS(divide, "div");
    ADD_ROUNDINGS(reciprocal, "rcp");
    ADD_ROUNDINGS(square_root, "sqrt");
    ADD_FLUSHED(divide_approximately, "div.approx");
    ADD_FLUSHED(divide_fully, "div.full");
    add_form<reciprocal<NEAREST, false, false>>(table, "rcp.approx.f32");
    add_form<reciprocal<NEAREST, true, false>>(table, "rcp.approx.ftz.f32");
    add_form<square_root<NEAREST, false, false>>(table, "sqrt.approx.f32");
    add_form<square_root<NEAREST, true, false>>(table, "sqrt.approx.ftz.f32");
    ADD_FLUSHED(reciprocal_root, "rsqrt.approx");
    ADD_FLUSHED(power_of_two, "ex2.approx");
    ADD_FLUSHED(logarithm, "lg2.approx");
    ADD_FLUSHED(sine, "sin.approx");
    ADD_FLUSHED(cosine, "cos.approx");
    add_form<tangent>(table, "tanh.approx.f32");
    ADD_FLUSHED(negate, "neg");
    ADD_FLUSHED(absolute, "abs");
    add_form<minimum<false, false>>(table, "min.f32");
    add_form<minimum<true, false>>(table, "min.ftz.f32");
    add_form<minimum<false, true>>(table, "min.NaN.f32");
    add_form<minimum<true, true>>(table, "min.ftz.NaN.f32");
    add_form<maximum<false, false>>(table, "max.f32");
    add_form<maximum<true, false>>(table, "max.ftz.f32");
    add_form<maximum<false, true>>(table, "max.NaN.f32");
    add_form<maximum<true, true>>(table, "max.ftz.NaN.f32");
    add_form<copy_sign>(table, "copysign.f32");
    add_form<is<FINITE>>(table, "testp.finite.f32");
    add_form<is<INFINITY_ITSELF>>(table, "testp.infinite.f32");
    add_form<is<NUMBER>>(table, "testp.number.f32");
    add_form<is<NOT_A_NUMBER>>(table, "testp.notanumber.f32");
    add_form<is<NORMAL>>(table, "testp.normal.f32");
    add_form<is<SUBNORMAL>>(table, "testp.subnormal.f32");
    for (const char *rounding : {"", ".rn"}) {
        add_form<add_doubles>(table, std::string("add") + rounding + ".f64");
        add_form<subtract_doubles>(table, std::string("sub") + rounding + ".f64");
        add_form<multiply_doubles>(table, std::string("mul") + rounding + ".f64");
    }
    add_form<divide_doubles>(table, "div.rn.f64");
    add_form<multiply_add_doubles>(table, "fma.rn.f64");
}
} // namespace ptx
