/* Tests of the route that is found for a path and a method, and of the JSON of failures. */
#include "server/dialects/dialects.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void expect_route(const char *method, const char *path, const char *found)
{
    struct route_match match;
    routes_find(all_dialects, method, path, &match);
    assert_non_null(match.dialect);
    assert_int_equal(match.route != NULL, found != NULL);
    if (found)
        assert_string_equal(match.route->path, found);
}

static void paths_must_match_exactly(void **state)
{
    (void)state;
    expect_route("POST", "/", "/");
    expect_route("POST", "/embed", "/embed");
    expect_route("POST", "/embed_all", "/embed_all");
    expect_route("GET", "/health/live", "/health/live");
    expect_route("POST", "/embed/", NULL);
    expect_route("POST", "/Embed", NULL);
    expect_route("POST", "", NULL);
    expect_route("POST", "//", NULL);
    expect_route("POST", "/health/live/x", NULL);
}

static void a_wrong_method_lists_the_allowed_ones(void **state)
{
    (void)state;
    struct route_match match;
    expect_route("HEAD", "/health", "/health");
    expect_route("HEAD", "/embed", NULL);
    expect_route("post", "/embed", NULL);
    routes_find(all_dialects, "BREW", "/health", &match);
    assert_true(match.path_known);
    assert_null(match.route);
    assert_string_equal(match.allow, "GET, HEAD, OPTIONS");
    routes_find(all_dialects, "GET", "/nothing", &match);
    assert_false(match.path_known);
    assert_string_equal(match.allow, "");
}

static void failures_have_the_native_shape(void **state)
{
    (void)state;
    struct route_match match;
    struct failure failure;
    struct writer writer = {0};
    routes_find(all_dialects, "GET", "/nothing", &match);
    failure_set(&failure, FAILURE_INVALID, "a \"%s\"", "quote");
    match.dialect->write_failure(&writer, &failure);
    writer_bytes(&writer, "", 1);
    assert_string_equal(writer.data, "{\"error\":\"a \\\"quote\\\"\",\"error_type\":\"Validation\"}");
    writer_free(&writer);
    for (int kind = FAILURE_NONE + 1; kind < FAILURE_COUNT; kind++) {
        assert_in_range(failure_status((enum failure_kind)kind), 400, 599);
        assert_in_range(*failure_type((enum failure_kind)kind), 'A', 'Z'); /* the name begins with a capital letter */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_must_match_exactly),
        cmocka_unit_test(a_wrong_method_lists_the_allowed_ones),
        cmocka_unit_test(failures_have_the_native_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
