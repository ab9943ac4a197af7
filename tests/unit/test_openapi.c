/* Tests that /openapi.json describes exactly the routes of the tables, and says whether a route requires a key. */
#include "server/dialects/dialects.h"
#include "server/dialects/openapi.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

static json_t *document(void)
{
    size_t length;
    const char *text = openapi_text(&length);
    json_error_t error;
    json_t *found = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!found)
        fail_msg("openapi.json: line %d: %s", error.line, error.text);
    return found;
}

/* Copies a path of the document to `out` in the form of the tables of routes, with {} instead of {model}. */
static void table_path(const char *path, char *out)
{
    for (; *path; path++) {
        *out++ = *path;
        if (*path == '{') {
            path = strchr(path, '}');
            assert_non_null(path);
            *out++ = '}';
        }
    }
    *out = '\0';
}

/* Returns the operation of the document that describes the route, or NULL. */
static json_t *operation_of(json_t *paths, const char *method, const char *path)
{
    const char *name;
    json_t *item;
    json_object_foreach (paths, name, item) {
        char found[256];
        assert_true(strlen(name) < sizeof found);
        table_path(name, found);
        if (strcmp(found, path) != 0)
            continue;
        const char *verb;
        json_t *operation;
        json_object_foreach (item, verb, operation)
            if (strcasecmp(verb, method) == 0)
                return operation;
    }
    return NULL;
}

static void test_each_route_is_described(void **state)
{
    (void)state;
    json_t *json = document(), *paths = json_object_get(json, "paths");
    int wrong = 0;
    for (size_t i = 0; routes_at(all_dialects, i); i++) {
        const struct route *route = routes_at(all_dialects, i);
        if (operation_of(paths, route->method, route->path))
            continue;
        fprintf(stderr, "openapi.json lacks %s %s\n", route->method, route->path);
        wrong++;
    }
    json_decref(json);
    assert_int_equal(wrong, 0);
}

static const struct route *route_of(const char *method, const char *path)
{
    for (size_t i = 0; routes_at(all_dialects, i); i++) {
        const struct route *route = routes_at(all_dialects, i);
        if (strcasecmp(route->method, method) == 0 && strcmp(route->path, path) == 0)
            return route;
    }
    return NULL;
}

static void test_each_description_has_a_route(void **state)
{
    (void)state;
    json_t *json = document(), *item;
    const char *path;
    int wrong = 0;
    json_object_foreach (json_object_get(json, "paths"), path, item) {
        const char *method;
        json_t *operation;
        char found[256];
        table_path(path, found);
        json_object_foreach (item, method, operation) {
            if (route_of(method, found))
                continue;
            fprintf(stderr, "openapi.json has %s %s, but no table of routes has it\n", method, path);
            wrong++;
        }
    }
    json_decref(json);
    assert_int_equal(wrong, 0);
}

/* The description of an open route, which requires no key, has an empty list `security`, and no answer 401. The
 * description of a route with a body has a requestBody. */
static void test_descriptions_name_required_keys_and_bodies(void **state)
{
    (void)state;
    json_t *json = document(), *paths = json_object_get(json, "paths");
    int wrong = 0;
    for (size_t i = 0; routes_at(all_dialects, i); i++) {
        const struct route *route = routes_at(all_dialects, i);
        const json_t *operation = operation_of(paths, route->method, route->path);
        const json_t *security = json_object_get(operation, "security");
        const json_t *refused = json_object_get(json_object_get(operation, "responses"), "401");
        bool open = json_is_array(security) && json_array_size(security) == 0;
        if (open == route->open && !refused == route->open &&
            !json_object_get(operation, "requestBody") == (route->accepts == ACCEPTS_NONE))
            continue;
        fprintf(stderr, "openapi.json: %s %s: security, 401 or requestBody is wrong\n", route->method, route->path);
        wrong++;
    }
    json_decref(json);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_route_is_described),
        cmocka_unit_test(test_each_description_has_a_route),
        cmocka_unit_test(test_descriptions_name_required_keys_and_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
