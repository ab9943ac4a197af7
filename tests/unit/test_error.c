#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define LIMIT (sizeof((struct error *)0)->message - 1)

static void sets_a_message_and_returns_minus_one(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(error_set(&error, "%s: expected %d", "dim", 3), -1);
    assert_string_equal(error.message, "dim: expected 3");
}

static void puts_the_place_in_front(void **state)
{
    (void)state;
    struct error error;
    error_set(&error, "is missing");
    assert_int_equal(error_prefix(&error, "tensor '%s'", "a"), -1);
    assert_int_equal(error_prefix(&error, "file"), -1);
    assert_string_equal(error.message, "file: tensor 'a': is missing");
}

static void a_message_can_contain_its_former_text(void **state)
{
    (void)state;
    struct error error;
    error_set(&error, "inner");
    error_set(&error, "outer (%s)", error.message);
    assert_string_equal(error.message, "outer (inner)");
}

static void a_long_place_leaves_room_for_the_reason(void **state)
{
    (void)state;
    char path[2000];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    struct error error;
    error_set(&error, "is missing");
    error_prefix(&error, "%s", path);
    assert_non_null(strstr(error.message, "ppp: is missing"));
}

/* Each text repeats one character of 1 to 4 bytes. The texts are cut at each position between and within the
 * characters. */
static void cuts_between_characters(void **state)
{
    (void)state;
    static const char *const characters[] = {"a", "é", "€", "𝄞"};
    for (size_t c = 0; c < 4; c++)
        for (size_t shift = 0; shift < 4; shift++) {
            size_t width = strlen(characters[c]);
            char text[1200];
            memset(text, 'x', shift);
            size_t length = shift;
            while (length + width < sizeof text) {
                memcpy(text + length, characters[c], width);
                length += width;
            }
            text[length] = '\0';
            struct error error;
            error_set(&error, "%s", text);
            assert_int_equal(strlen(error.message), LIMIT - (LIMIT - shift) % width);
            assert_memory_equal(error.message, text, strlen(error.message));
        }
}

static void a_message_of_the_maximum_length_is_not_cut(void **state)
{
    (void)state;
    char text[LIMIT + 1];
    memset(text, 'x', LIMIT - 2);
    memcpy(text + LIMIT - 2, "é", 3);
    struct error error;
    error_set(&error, "%s", text);
    assert_string_equal(error.message, text);
}

static void shows_invalid_utf8_as_question_marks(void **state)
{
    (void)state;
    static const struct {
        const char *found, *shown;
    } cases[] = {
        {"a\xff"
         "b",
         "a?b"},
        {"\x80", "?"},                    /* a continuation byte without a first byte */
        {"\xc3", "?"},                    /* cut off */
        {"\xe2\x82", "??"},               /* cut off */
        {"\xc0\xaf", "??"},               /* overlong */
        {"\xe0\x9f\xbf", "???"},          /* overlong */
        {"\xf0\x8f\xbf\xbf", "????"},     /* overlong */
        {"\xed\xa0\x80", "???"},          /* a surrogate */
        {"\xf4\x90\x80\x80", "????"},     /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", "????"},     /* beyond U+10FFFF */
        {"\xed\x9f\xbf", "\xed\x9f\xbf"}, /* U+D7FF, the last character before the surrogates */
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"naïve 字 𝄞", "naïve 字 𝄞"},
    };
    struct error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        error_set(&error, "%s", cases[i].found);
        assert_string_equal(error.message, cases[i].shown);
    }
}

static void control_characters_cannot_forge_a_line(void **state)
{
    (void)state;
    struct error error;
    error_set(&error, "%s",
              "a\nb\rc\033[2Jd\x7f\xc2\x9b"
              "e\tf");
    assert_string_equal(error.message, "a?b?c?[2Jd???e?f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_a_message_and_returns_minus_one),
        cmocka_unit_test(puts_the_place_in_front),
        cmocka_unit_test(a_message_can_contain_its_former_text),
        cmocka_unit_test(a_long_place_leaves_room_for_the_reason),
        cmocka_unit_test(cuts_between_characters),
        cmocka_unit_test(a_message_of_the_maximum_length_is_not_cut),
        cmocka_unit_test(shows_invalid_utf8_as_question_marks),
        cmocka_unit_test(control_characters_cannot_forge_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
