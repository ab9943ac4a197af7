#include "weights/weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define PATTERNS 65536

/* All patterns of 16 bits. They begin at index 1, an odd address. */
static unsigned char patterns[1 + 2 * PATTERNS];
static float converted[PATTERNS];

static void convert_all_patterns(enum weights_dtype dtype)
{
    for (unsigned i = 0; i < PATTERNS; i++) {
        patterns[1 + 2 * i] = (unsigned char)i;
        patterns[2 + 2 * i] = (unsigned char)(i >> 8);
    }
    struct weights_tensor tensor = {.name = "t",
                                    .dtype = dtype,
                                    .rank = 1,
                                    .shape = {PATTERNS},
                                    .elements = PATTERNS,
                                    .data = patterns + 1,
                                    .bytes = sizeof patterns - 1};
    weights_to_f32(&tensor, converted);
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns the value of the pattern by definition, in double. Beginning with the lowest bit, the pattern consists of
 * `mantissa_bits`, `exponent_bits`, and a sign. */
static double value_of(unsigned pattern, int exponent_bits, int mantissa_bits)
{
    unsigned exponent = pattern >> mantissa_bits & ((1u << exponent_bits) - 1);
    double fraction = (double)(pattern & ((1u << mantissa_bits) - 1)) / (double)(1u << mantissa_bits);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double sign = pattern >> 15 ? -1 : 1;
    if (exponent == (1u << exponent_bits) - 1)
        return fraction > 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias);
    return sign * ldexp(1 + fraction, (int)exponent - bias);
}

static void compare_all_patterns(int exponent_bits, int mantissa_bits)
{
    for (unsigned i = 0; i < PATTERNS; i++) {
        double expected = value_of(i, exponent_bits, mantissa_bits);
        if (isnan(expected) ? !isnan(converted[i])
                            : (double)converted[i] != expected || !signbit(converted[i]) != !signbit(expected))
            fail_msg("pattern %#06x: expected %a, found %a", i, expected, (double)converted[i]);
        if (isnan(expected)) /* the payload of NaN is kept */
            assert_int_equal(bits_of(converted[i]) >> (23 - mantissa_bits) & ((1u << mantissa_bits) - 1),
                             i & ((1u << mantissa_bits) - 1));
        assert_int_equal(bits_of(converted[i]) >> 31, i >> 15);
    }
}

static void converts_every_f16(void **state)
{
    (void)state;
    convert_all_patterns(WEIGHTS_F16);
    compare_all_patterns(5, 10);
    assert_true(converted[0x0001] == 0x1p-24f);
    assert_true(converted[0x03ff] == 0x1.ff8p-15f);
    assert_true(converted[0x0400] == 0x1p-14f);
    assert_true(converted[0x3c00] == 1.0f);
    assert_true(converted[0xc000] == -2.0f);
    assert_true(converted[0x7bff] == 65504.0f);
    assert_true(converted[0xfc00] == -INFINITY);
}

static void converts_every_bf16(void **state)
{
    (void)state;
    convert_all_patterns(WEIGHTS_BF16);
    compare_all_patterns(8, 7);
    for (unsigned i = 0; i < PATTERNS; i++)
        assert_int_equal(bits_of(converted[i]), i << 16);
}

static float convert_f64(double value)
{
    unsigned char bytes[1 + sizeof value];
    memcpy(bytes + 1, &value, sizeof value);
    struct weights_tensor tensor = {.dtype = WEIGHTS_F64, .elements = 1, .data = bytes + 1, .bytes = sizeof value};
    float out = -1;
    weights_to_f32(&tensor, &out);
    return out;
}

static void rounds_f64_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        double value;
        float expected;
    } cases[] = {
        {0.0, 0.0f},
        {1.0, 1.0f},
        {0.1, 0.1f},
        {0x1.000001p0, 0x1p0f},                   /* half way between two floats, rounds to the even one below */
        {0x1.000003p0, 0x1.000004p0f},            /* half way between two floats, rounds to the even one above */
        {0x1.0000010000001p0, 0x1.000002p0f},     /* above half way, rounds up */
        {0x1.fffffep127, 0x1.fffffep127f},        /* the largest float */
        {0x1.fffffefffffffp127, 0x1.fffffep127f}, /* below half way to 2^128, rounds down */
        {0x1.ffffffp127, INFINITY},               /* half way to 2^128, rounds to infinity */
        {1e300, INFINITY},
        {INFINITY, INFINITY},
        {0x1p-149, 0x1p-149f}, /* the smallest subnormal */
        {0x1p-150, 0.0f},      /* half of the smallest subnormal, rounds to 0 */
        {0x1.0000000000001p-150, 0x1p-149f},
        {0x1.8p-149, 0x1p-148f}, /* half way between subnormals, rounds to even */
        {5e-324, 0.0f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(bits_of(convert_f64(cases[i].value)), bits_of(cases[i].expected));
        assert_int_equal(bits_of(convert_f64(-cases[i].value)), bits_of(-cases[i].expected));
    }
    assert_true(isnan(convert_f64(NAN)));
}

static void copies_f32_bit_by_bit(void **state)
{
    (void)state;
    static const uint32_t bits[] = {0, 0x80000000, 1, 0x7f800000, 0x7fc00001, 0x7f800001, 0x3f800000};
    unsigned char bytes[1 + sizeof bits];
    memcpy(bytes + 1, bits, sizeof bits);
    float out[sizeof bits / sizeof *bits];
    struct weights_tensor tensor = {
        .dtype = WEIGHTS_F32, .elements = sizeof bits / sizeof *bits, .data = bytes + 1, .bytes = sizeof bits};
    weights_to_f32(&tensor, out);
    assert_memory_equal(out, bits, sizeof bits);
}

/* Converts two numbers of each type. In the first number all bits are set: -1, or the largest unsigned number. The
 * second number has different bytes, so that a wrong order of bytes is found. */
static void converts_integers_and_booleans_to_float32(void **state)
{
    (void)state;
    static const struct {
        enum weights_dtype dtype;
        float ones, number;
    } rows[] = {{WEIGHTS_I64, -1, 0x1p57f + 0x1p48f},
                {WEIGHTS_I32, -1, 16777728},
                {WEIGHTS_I16, -1, 256},
                {WEIGHTS_I8, -1, 0},
                {WEIGHTS_U64, 0x1p64f, 0x1p57f + 0x1p48f},
                {WEIGHTS_U32, 0x1p32f, 16777728},
                {WEIGHTS_U16, 65535, 256},
                {WEIGHTS_U8, 255, 0},
                {WEIGHTS_BOOL, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t size = weights_dtype_size(rows[i].dtype);
        unsigned char bytes[1 + 16] = {0};
        memset(bytes + 1, 0xff, size);
        bytes[1 + size + (size > 1 ? 1 : 0)] = size > 1; /* 256 in little-endian order, 0 for types of one byte */
        if (size > 2) {
            memset(bytes + 1 + size, 0, size);
            bytes[1 + size + size - 1] = size == 8 ? 2 : 1; /* larger types: 2^57 + 2^48, or 2^24 + 2^9 */
            bytes[1 + size + size - 2] = size == 8 ? 1 : 0;
            bytes[1 + size + 1] = size == 4 ? 2 : 0;
        }
        float out[2];
        struct weights_tensor tensor = {.dtype = rows[i].dtype, .elements = 2, .data = bytes + 1, .bytes = 2 * size};
        weights_to_f32(&tensor, out);
        print_message("%s %g %g\n", weights_dtype_name(rows[i].dtype), (double)out[0], (double)out[1]);
        assert_true(out[0] == rows[i].ones);
        assert_true(out[1] == rows[i].number);
    }
}

static void dtypes_have_names_and_sizes(void **state)
{
    (void)state;
    assert_string_equal(weights_dtype_name(WEIGHTS_F64), "F64");
    assert_string_equal(weights_dtype_name(WEIGHTS_BF16), "BF16");
    assert_string_equal(weights_dtype_name(WEIGHTS_BOOL), "BOOL");
    static const size_t sizes[] = {8, 4, 2, 2, 8, 4, 2, 1, 8, 4, 2, 1, 1};
    for (int dtype = 0; dtype < WEIGHTS_DTYPE_COUNT; dtype++)
        assert_int_equal(weights_dtype_size((enum weights_dtype)dtype), sizes[dtype]);
}

static void shapes_are_written_as_lists(void **state)
{
    (void)state;
    char text[64];
    const int64_t shape[] = {2, 32, INT64_MAX};
    assert_string_equal(weights_shape_text(0, shape, text, sizeof text), "[]");
    assert_string_equal(weights_shape_text(1, shape, text, sizeof text), "[2]");
    assert_string_equal(weights_shape_text(3, shape, text, sizeof text), "[2, 32, 9223372036854775807]");
    for (size_t size = 1; size < 12; size++) { /* a text that is cut also ends with a zero byte */
        memset(text, 'x', sizeof text);
        weights_shape_text(3, shape, text, size);
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, "[2, 32, 922", size - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(converts_every_f16),
        cmocka_unit_test(converts_every_bf16),
        cmocka_unit_test(rounds_f64_to_nearest_even),
        cmocka_unit_test(copies_f32_bit_by_bit),
        cmocka_unit_test(converts_integers_and_booleans_to_float32),
        cmocka_unit_test(dtypes_have_names_and_sizes),
        cmocka_unit_test(shapes_are_written_as_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
