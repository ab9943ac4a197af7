/* Tests of the list of ignored keys, which is the value of a header: only characters that a header may contain, no name
 * twice, and a limited length. */
#include "server/text/ignored_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void expect_list(const char *const *names, const char *list)
{
    struct ignored_keys keys = {.length = 0};
    for (; *names; names++)
        ignored_keys_add(&keys, *names);
    assert_string_equal(keys.list, list);
    assert_int_equal(keys.length, strlen(list));
}
#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void names_are_listed_in_order_and_once(void **state)
{
    (void)state;
    expect_list(NAMES("parameters"), "parameters");
    expect_list(NAMES("b", "a", "b", "ab", "a"), "b, a, ab");
}

/* RFC 9110: the value of a header field consists of visible characters, spaces and tabs. A line break would end the
 * field. */
static void bytes_that_a_header_must_not_have_are_escaped(void **state)
{
    (void)state;
    expect_list(NAMES("a b", "c,d", "100%", "x\r\nSet-Cookie: y", "\xC3\xA9", "\x7F"),
                "a%20b, c%2Cd, 100%25, x%0D%0ASet-Cookie:%20y, %C3%A9, %7F");
}

static void an_empty_name_is_two_quotation_marks(void **state)
{
    (void)state;
    expect_list(NAMES("", "a", "", "b"), "\"\", a, b");
}

static void long_names_and_many_names_become_one_mark(void **state)
{
    (void)state;
    char name[300];
    struct ignored_keys keys = {.length = 0};
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    expect_list(NAMES(name), "...");
    expect_list(NAMES("a", name, "b"), "a, ...");
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "key_%d", i);
        ignored_keys_add(&keys, name);
        assert_int_equal(keys.length, strlen(keys.list));
        assert_true(keys.length < IGNORED_KEYS_BYTES);
    }
    assert_memory_equal(keys.list, "key_0, key_1, ", 14);
    assert_string_equal(keys.list + keys.length - 5, ", ...");
}

/* Tries every length up to the limit, because mistakes affect the last bytes of the list. */
static void names_of_every_length_stay_within_the_buffer(void **state)
{
    (void)state;
    char name[IGNORED_KEYS_BYTES + 8];
    for (size_t length = 1; length < sizeof name; length++) {
        for (size_t before = 0; before < 2; before++) {
            struct {
                struct ignored_keys keys;
                char guard[16];
            } guarded = {.guard = "untouched"};

            memset(name, 'x', length);
            name[length] = '\0';
            if (before)
                ignored_keys_add(&guarded.keys, "before");
            ignored_keys_add(&guarded.keys, name);
            ignored_keys_add(&guarded.keys, "behind");
            ignored_keys_add(&guarded.keys, "last");
            assert_int_equal(guarded.keys.length, strlen(guarded.keys.list));
            assert_true(strstr(guarded.keys.list, name) || strstr(guarded.keys.list, "..."));
            assert_string_equal(guarded.guard, "untouched");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_listed_in_order_and_once),
        cmocka_unit_test(bytes_that_a_header_must_not_have_are_escaped),
        cmocka_unit_test(an_empty_name_is_two_quotation_marks),
        cmocka_unit_test(long_names_and_many_names_become_one_mark),
        cmocka_unit_test(names_of_every_length_stay_within_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
