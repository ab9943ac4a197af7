/* native_expect: calls routes, and checks that they succeed or fail. Include this header in one file of a program. */
#ifndef TESTS_UNIT_NATIVE_EXPECT_H
#define TESTS_UNIT_NATIVE_EXPECT_H

#include "tests/http/native_call.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <jansson.h>

/* Calls a route that must succeed. Returns a new reference to its answer. */
static inline json_t *expect_answer(const char *path, const char *body)
{
    struct request request;
    fake_reset();
    if (native_call(path, body, strlen(body), &request) != 0)
        print_error("%s %s: %s\n", path, body, request.failure.error.message);
    assert_int_equal(request.failure.kind, FAILURE_NONE);
    json_t *json = json_loadb(request.answer.data, request.answer.length, JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    request_close(&request);
    return json;
}

/* Calls a route that must fail with a failure of this kind and with this message. */
static inline void expect_failure(const char *path, const char *body, enum failure_kind kind, const char *message)
{
    struct request request;
    fake_reset();
    assert_int_equal(native_call(path, body, strlen(body), &request), -1);
    assert_int_equal(request.failure.kind, kind);
    assert_string_equal(request.failure.error.message, message);
    request_close(&request);
}

static inline int native_setup(void **state)
{
    (void)state;
    native_open();
    return 0;
}

static inline int native_teardown(void **state)
{
    (void)state;
    native_close();
    return 0;
}

#endif
