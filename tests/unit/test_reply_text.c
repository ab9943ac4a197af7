/* Tests of the functions that write parts of an answer's text: floats, integers, strings and base64. */
#include "server/text/float_text.h"
#include "server/text/writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void expect_round_trip(float value)
{
    char text[F32_TEXT + 1];
    text[write_f32(text, value)] = '\0';
    float back = strtof(text, NULL);
    if (memcmp(&back, &value, sizeof value) != 0)
        print_error("%.9g was written %s\n", (double)value, text);
    assert_memory_equal(&back, &value, sizeof value);
}

static void floats_read_back_the_same(void **state)
{
    (void)state;
    uint32_t bits = 1;
    for (uint32_t exponent = 0; exponent < 255; exponent++) { /* near each power of two, including subnormals */
        for (uint32_t near = 0; near < 64; near++) {
            expect_round_trip(from_bits((exponent << 23) + near));
            expect_round_trip(from_bits((exponent << 23) + 0x7FFFFF - near));
            expect_round_trip(from_bits(0x80000000u | ((exponent << 23) + 0x400000 + near)));
        }
    }
    for (int i = 0; i < 1000000; i++) {
        bits = bits * 1664525u + 1013904223u;
        if (isfinite(from_bits(bits)))
            expect_round_trip(from_bits(bits));
    }
}

/* Copies the digits of a number such as -0.00125 or 1.25e-03, without zeros at either end. */
static void digits_of(const char *text, char digits[F32_TEXT + 1])
{
    size_t n = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text >= '0' && *text <= '9' && (n > 0 || *text != '0'))
            digits[n++] = *text;
    }
    while (n > 0 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
}

/* Expects the digits of the shortest text of printf that reads back as the same float. The found text may also be
 * shorter. printf writes only the nearest text of a length. The floats above a power of two are twice as far apart as
 * those below, so a shorter text that is not the nearest may suffice. */
static void expect_shortest(float value)
{
    char text[F32_TEXT + 1], wanted[32], found_digits[F32_TEXT + 1], wanted_digits[F32_TEXT + 1];
    int precision = 0;
    text[write_f32(text, value)] = '\0';
    do
        snprintf(wanted, sizeof wanted, "%.*e", precision, (double)value);
    while (precision++ < 9 && strtof(wanted, NULL) != value);
    digits_of(text, found_digits);
    digits_of(wanted, wanted_digits);
    if (strlen(found_digits) != strlen(wanted_digits))
        assert_true(strlen(found_digits) < strlen(wanted_digits));
    else
        assert_string_equal(found_digits, wanted_digits);
}

static void floats_are_shortest(void **state)
{
    (void)state;
    uint32_t bits = 1;
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        for (uint32_t near = 0; near < 8; near++) {
            if (exponent + near > 0)
                expect_shortest(from_bits((exponent << 23) + near));
            expect_shortest(from_bits((exponent << 23) + 0x7FFFFF - near));
        }
    }
    for (int i = 0; i < 50000; i++) {
        bits = bits * 1664525u + 1013904223u;
        if (isfinite(from_bits(bits)))
            expect_shortest(from_bits(bits));
    }
    for (int i = 1; i < 20000; i++)
        expect_shortest((float)i / 1000);
}

static void floats_are_brief_and_json(void **state)
{
    (void)state;
    static const struct {
        float value;
        const char *text;
    } cases[] = {
        {0, "0.0"},
        {-0.0f, "-0.0"},
        {1, "1.0"},
        {-1, "-1.0"},
        {0.1f, "0.1"},
        {100, "100.0"},
        {0.5f, "0.5"},
        {16777216, "16777216.0"},
        {1e-5f, "0.00001"},
        {1e9f, "1.0e+09"},
        {123456789, "123456790.0"},
        {1234.5f, "1234.5"},
        {33554432.5f, "33554432.0"},
        {9.5367431640625e-07f, "9.536743e-07"},
        {1e-45f, "1.0e-45"},
        {1.17549435e-38f, "1.1754944e-38"},
        {0.3f, "0.3"},
        {3.4028234664e38f, "3.4028235e+38"},
        {-2.5e-7f, "-2.5e-07"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[F32_TEXT + 1];
        json_t *json;

        text[write_f32(text, cases[i].value)] = '\0';
        assert_string_equal(text, cases[i].text);
        json = json_loads(text, JSON_DECODE_ANY, NULL);
        assert_true(json_is_real(json));
        json_decref(json);
    }
}

static void expect_written(struct writer *writer, const char *expected)
{
    writer_bytes(writer, "", 1);
    assert_false(writer->failed);
    assert_string_equal(writer->data, expected);
    writer_free(writer);
}

static void strings_are_escaped_and_valid(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *expected;
    } cases[] = {
        {"", 0, "\"\""},
        {"a\"b\\c", 5, "\"a\\\"b\\\\c\""},
        {"\n\t\r\b\f\x01\x1F\x7F", 8, "\"\\n\\t\\r\\b\\f\\u0001\\u001f\\u007f\""},
        {"a\0b", 3, "\"a\\u0000b\""},
        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9, "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
        {"\xFFz", 2, "\"\xEF\xBF\xBDz\""},
        {"\xC3", 1, "\"\xEF\xBF\xBD\""},
        {"\xE2\x82", 2, "\"\xEF\xBF\xBD\""},             /* an incomplete character becomes one U+FFFD */
        {"\xC0\xAF", 2, "\"\xEF\xBF\xBD\xEF\xBF\xBD\""}, /* overlong */
        {"\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},                 /* a surrogate */
        {"\xF4\x90\x80\x80", 4, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""}, /* beyond U+10FFFF */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct writer writer = {0};

        writer_string(&writer, cases[i].bytes, cases[i].length);
        expect_written(&writer, cases[i].expected);
    }
}

static void integers_are_written_exactly(void **state)
{
    (void)state;
    struct writer writer = {0};
    writer_integer(&writer, 0);
    writer_text(&writer, " ");
    writer_integer(&writer, INT64_MIN);
    writer_text(&writer, " ");
    writer_integer(&writer, INT64_MAX);
    expect_written(&writer, "0 -9223372036854775808 9223372036854775807");
}

static void base64_is_little_endian(void **state)
{
    (void)state;
    static const struct {
        int64_t count;
        const char *expected;
    } cases[] = {{0, "\"\""}, {1, "\"AACAPw==\""}, {2, "\"AACAPwAAAMA=\""}, {3, "\"AACAPwAAAMDbD0lA\""}};
    const float values[] = {1, -2, 3.14159274f};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct writer writer = {0};

        writer_base64(&writer, values, cases[i].count);
        expect_written(&writer, cases[i].expected);
    }
}

static void long_lists_of_floats_are_complete(void **state)
{
    (void)state;
    struct writer writer = {0};
    float values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = (float)i / 7;
    writer_floats(&writer, values, 1000);
    json_t *json = json_loadb(writer.data, writer.length, 0, NULL);
    assert_int_equal(json_array_size(json), 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_true((float)json_number_value(json_array_get(json, i)) == values[i]);
    json_decref(json);
    writer_free(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_read_back_the_same),         cmocka_unit_test(floats_are_shortest),
        cmocka_unit_test(floats_are_brief_and_json),         cmocka_unit_test(strings_are_escaped_and_valid),
        cmocka_unit_test(integers_are_written_exactly),      cmocka_unit_test(base64_is_little_endian),
        cmocka_unit_test(long_lists_of_floats_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
