#include "server/http/request_id.h"

#include "server/tracing/trace_context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"

static struct request_id_source source;

static const unsigned char trace_id[TRACE_ID_BYTES] = {0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6,
                                                       0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36};

static const char *id_of(const char *given, const unsigned char *trace)
{
    static struct request_id id;
    request_id_set(&id, &source, given, trace);
    return id.text;
}

static void expect_own(const char *given)
{
    const char *id = id_of(given, NULL);
    assert_int_equal(strlen(id), 32);
    assert_int_equal(strspn(id, "0123456789abcdef"), 32);
    assert_string_not_equal(id, TRACE);
    if (given)
        assert_string_not_equal(id, given);
}

static void test_valid_given_ids_are_kept_and_others_replaced(void **context)
{
    (void)context;
    char longest[REQUEST_ID_MAX_LENGTH + 2];
    memset(longest, '~', sizeof longest);
    longest[REQUEST_ID_MAX_LENGTH + 1] = '\0';
    expect_own(longest);
    longest[REQUEST_ID_MAX_LENGTH] = '\0';
    assert_string_equal(id_of(longest, NULL), longest);
    assert_string_equal(id_of("a", trace_id), "a");
    assert_string_equal(id_of("!~\"\\", NULL), "!~\"\\");
    expect_own("");
    expect_own("two words");
    expect_own("a\r\nSet-Cookie:b");
    expect_own("\x7f");
    expect_own("gr\xc3\xbc\xc3\x9f");
    assert_string_equal(id_of("two words", trace_id), TRACE);
    assert_string_equal(id_of(NULL, trace_id), TRACE);
}

static void test_own_ids_differ(void **context)
{
    (void)context;
    char first[REQUEST_ID_MAX_LENGTH + 1];
    snprintf(first, sizeof first, "%s", id_of(NULL, NULL));
    assert_string_not_equal(first, id_of(NULL, NULL));
    struct request_id_source another;
    request_id_source_init(&another);
    assert_true(another.seed != source.seed); /* another process would also begin with another seed */
}

int main(void)
{
    request_id_source_init(&source);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_given_ids_are_kept_and_others_replaced),
        cmocka_unit_test(test_own_ids_differ),
    };
    return cmocka_run_group_tests_name("request_id", tests, NULL, NULL);
}
