#include "server/http/request_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

static struct request_id_source source;

static const char *id_of(const char *given, const char *traceparent)
{
    static struct request_id id;
    request_id_set(&id, &source, given, traceparent);
    return id.text;
}

static void expect_own(const char *given, const char *traceparent)
{
    const char *id = id_of(given, traceparent);
    assert_int_equal(strlen(id), 32);
    assert_int_equal(strspn(id, "0123456789abcdef"), 32);
    assert_string_not_equal(id, TRACE);
    if (given)
        assert_string_not_equal(id, given);
}

static void test_given(void **context)
{
    (void)context;
    char longest[REQUEST_ID_MOST + 2];
    memset(longest, '~', sizeof longest);
    longest[REQUEST_ID_MOST + 1] = '\0';
    expect_own(longest, NULL);
    longest[REQUEST_ID_MOST] = '\0';
    assert_string_equal(id_of(longest, NULL), longest);
    assert_string_equal(id_of("a", "00-" TRACE "-" SPAN "-01"), "a");
    assert_string_equal(id_of("!~\"\\", NULL), "!~\"\\");
    expect_own("", NULL);
    expect_own("two words", NULL);
    expect_own("a\r\nSet-Cookie:b", NULL);
    expect_own("\x7f", NULL);
    expect_own("gr\xc3\xbc\xc3\x9f", NULL);
    assert_string_equal(id_of("two words", "00-" TRACE "-" SPAN "-01"), TRACE);
}

/* As https://www.w3.org/TR/trace-context/ has it. */
static void test_traceparent(void **context)
{
    (void)context;
    static const char *const valid[] = {"00-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-00",
                                        "cc-" TRACE "-" SPAN "-01-what-the-future-will-be-like"};
    static const char *const invalid[] = {"",
                                          "00",
                                          "00-" TRACE,
                                          "00-" TRACE "-" SPAN "-0",
                                          "00-" TRACE "-" SPAN "-01-more",
                                          "ff-" TRACE "-" SPAN "-01",
                                          "0x-" TRACE "-" SPAN "-01",
                                          "00-00000000000000000000000000000000-" SPAN "-01",
                                          "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
                                          "00_" TRACE "-" SPAN "-01",
                                          "00-" TRACE "_" SPAN "-01",
                                          "00-" TRACE "-" SPAN "_01",
                                          "00-" TRACE "-g0f067aa0ba902b7-01",
                                          "00-" TRACE "-" SPAN "-0g"};
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
        assert_string_equal(id_of(NULL, valid[i]), TRACE);
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        expect_own(NULL, invalid[i]);
}

static void test_own_ids_differ(void **context)
{
    (void)context;
    char first[REQUEST_ID_MOST + 1];
    snprintf(first, sizeof first, "%s", id_of(NULL, NULL));
    assert_string_not_equal(first, id_of(NULL, NULL));
    struct request_id_source another;
    request_id_source_init(&another);
    assert_true(another.seed != source.seed); /* another process */
}

int main(void)
{
    request_id_source_init(&source);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_traceparent),
        cmocka_unit_test(test_own_ids_differ),
    };
    return cmocka_run_group_tests_name("request_id", tests, NULL, NULL);
}
