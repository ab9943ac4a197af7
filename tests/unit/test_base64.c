/* Tests of the decoder of base64: texts with line breaks, with and without padding, and texts that are not base64. */
#include "server/text/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Decodes the text. The blocks of the text and of the result have no surplus bytes, so that the address sanitizer finds
 * accesses beyond them. */
static bool read_text(const char *text, size_t length, char *found, size_t *size)
{
    char *copy = malloc(length ? length : 1);
    unsigned char *out = malloc(BASE64_MAX_BYTES(length));
    memcpy(copy, text, length);
    bool valid = base64_read(copy, length, out, size);
    if (valid)
        memcpy(found, out, *size);
    free(copy);
    free(out);
    return valid;
}

/* The first texts come from RFC 4648, section 10. */
static void base64_texts_are_decoded_to_their_bytes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"Zg==", "f"},
        {"Zm8=", "fo"},
        {"Zm9v", "foo"},
        {"Zm9vYg==", "foob"},
        {"Zm9vYmE=", "fooba"},
        {"Zm9vYmFy", "foobar"},
        {"Zg", "f"},
        {"Zm9vYmE", "fooba"},
        {" Z\r\nm9\tv\n", "foo"},
        {"Zm8\n=\n", "fo"},
        {"+/+/", "\xfb\xff\xbf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char found[64];
        size_t size;
        assert_true(read_text(cases[i][0], strlen(cases[i][0]), found, &size));
        assert_int_equal(size, strlen(cases[i][1]));
        assert_memory_equal(found, cases[i][1], size);
    }
}

static void the_first_wrong_character_is_reported(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t at;
    } cases[] = {
        {"Zm9v*", 4}, {"-m9v", 0},  {"Zm9vYg===", 8}, {"Zm8==", 4},    {"Zm9v=", 4}, {"=", 0},
        {"Z", 1},     {"Zm9vY", 5}, {"Zg=", 3},       {"Zg==Zg==", 4}, {"Zm8=a", 4}, {"Zm\xc3\xa4", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char found[64];
        size_t at;
        assert_false(read_text(cases[i].text, strlen(cases[i].text), found, &at));
        if (at != cases[i].at)
            fail_msg("%s: character %zu", cases[i].text, at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_texts_are_decoded_to_their_bytes),
        cmocka_unit_test(the_first_wrong_character_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
