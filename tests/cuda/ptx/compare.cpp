/* Comparisons and choices. PTX ISA, "Comparison and Selection Instructions". */
#include "tests/cuda/ptx/lanes.h"

#include <cfloat>
#include <cmath>

namespace ptx
{
namespace
{
enum relation { EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL };
enum combination { ALONE, WITH_AND, WITH_OR, WITH_XOR };

/* Ordered comparisons of floats, including NOT_EQUAL, are false if an operand is a NaN. */
template <relation how, typename T> bool holds(T a, T b)
{
    switch (how) {
    case EQUAL:
        return a == b;
    case NOT_EQUAL:
        return a != b && a == a && b == b;
    case LESS:
        return a < b;
    case LESS_EQUAL:
        return a <= b;
    case GREATER:
        return a > b;
    default:
        return a >= b;
    }
}

/* Unordered comparisons are true if an operand is a NaN. */
template <relation how, typename T> bool holds_or_nan(T a, T b)
{
    return holds<how>(a, b) || a != a || b != b;
}

template <typename T> bool are_numbers(T a, T b)
{
    return a == a && b == b;
}

template <typename T> bool is_nan(T a, T b)
{
    return !are_numbers(a, b);
}

/* A comparison. With .ftz, subnormal operands are first set to 0. */
template <auto compares, bool ftz, typename T> bool compare(T a, T b)
{
    if constexpr (ftz) {
        a = std::fabs(a) < FLT_MIN ? 0 : a;
        b = std::fabs(b) < FLT_MIN ? 0 : b;
    }
    return compares(a, b);
}

template <auto compares, bool ftz, combination how, typename T> bool combine(T a, T b, bool c)
{
    bool holds = compare<compares, ftz, T>(a, b);
    return how == WITH_AND ? holds && c : how == WITH_OR ? holds || c : holds != c;
}

template <auto compares, typename T, bool ftz = false>
void add_comparison(form_table &table, const std::string &relation, const std::string &type)
{
    std::string name = "setp." + relation, after = (ftz ? ".ftz." : ".") + type;
    add_form<compare<compares, ftz, T>>(table, name + after);
    add_form<combine<compares, ftz, WITH_AND, T>>(table, name + ".and" + after);
    add_form<combine<compares, ftz, WITH_OR, T>>(table, name + ".or" + after);
    add_form<combine<compares, ftz, WITH_XOR, T>>(table, name + ".xor" + after);
}

template <typename T> void add_equality(form_table &table, const std::string &type)
{
    add_comparison<holds<EQUAL, T>, T>(table, "eq", type);
    add_comparison<holds<NOT_EQUAL, T>, T>(table, "ne", type);
}

template <typename T> void add_order(form_table &table, const std::string &type, const char *const (&names)[4])
{
    add_comparison<holds<LESS, T>, T>(table, names[0], type);
    add_comparison<holds<LESS_EQUAL, T>, T>(table, names[1], type);
    add_comparison<holds<GREATER, T>, T>(table, names[2], type);
    add_comparison<holds<GREATER_EQUAL, T>, T>(table, names[3], type);
}

template <typename T> void add_integers(form_table &table, const std::string &type)
{
    add_equality<T>(table, type);
    add_order<T>(table, type, {"lt", "le", "gt", "ge"});
    if constexpr (std::is_unsigned_v<T>)
        add_order<T>(table, type, {"lo", "ls", "hi", "hs"});
}

template <typename T, bool ftz> void add_floats(form_table &table, const std::string &type)
{
    add_comparison<holds<EQUAL, T>, T, ftz>(table, "eq", type);
    add_comparison<holds<NOT_EQUAL, T>, T, ftz>(table, "ne", type);
    add_comparison<holds<LESS, T>, T, ftz>(table, "lt", type);
    add_comparison<holds<LESS_EQUAL, T>, T, ftz>(table, "le", type);
    add_comparison<holds<GREATER, T>, T, ftz>(table, "gt", type);
    add_comparison<holds<GREATER_EQUAL, T>, T, ftz>(table, "ge", type);
    add_comparison<holds_or_nan<EQUAL, T>, T, ftz>(table, "equ", type);
    add_comparison<holds_or_nan<NOT_EQUAL, T>, T, ftz>(table, "neu", type);
    add_comparison<holds_or_nan<LESS, T>, T, ftz>(table, "ltu", type);
    add_comparison<holds_or_nan<LESS_EQUAL, T>, T, ftz>(table, "leu", type);
    add_comparison<holds_or_nan<GREATER, T>, T, ftz>(table, "gtu", type);
    add_comparison<holds_or_nan<GREATER_EQUAL, T>, T, ftz>(table, "geu", type);
    add_comparison<are_numbers<T>, T, ftz>(table, "num", type);
    add_comparison<is_nan<T>, T, ftz>(table, "nan", type);
}

template <typename T> T choose(T a, T b, bool first)
{
    return first ? a : b;
}

template <typename T, typename C> T choose_by_sign(T a, T b, C c)
{
    return c >= 0 ? a : b;
}
} // namespace

void add_comparison_forms(form_table &table)
{
    add_integers<int16_t>(table, "s16");
    add_integers<uint16_t>(table, "u16");
    add_integers<int32_t>(table, "s32");
    add_integers<uint32_t>(table, "u32");
    add_integers<int64_t>(table, "s64");
    add_integers<uint64_t>(table, "u64");
    add_equality<uint16_t>(table, "b16");
    add_equality<uint32_t>(table, "b32");
    add_equality<uint64_t>(table, "b64");
    add_floats<float, false>(table, "f32");
    add_floats<float, true>(table, "f32");
    add_floats<double, false>(table, "f64");
    for (const char *type : {"b16", "u16", "s16", "b32", "u32", "s32", "f32"}) {
        add_form<choose<uint32_t>>(table, std::string("selp.") + type);
        add_form<choose_by_sign<uint32_t, int32_t>>(table, std::string("slct.") + type + ".s32");
        add_form<choose_by_sign<uint32_t, float>>(table, std::string("slct.") + type + ".f32");
    }
    for (const char *type : {"b64", "u64", "s64", "f64"})
        add_form<choose<uint64_t>>(table, std::string("selp.") + type);
}
} // namespace ptx
