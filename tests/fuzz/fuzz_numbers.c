/* Fuzz target: numbers.h, which reads lists of numbers in a body without jansson. numbers_rest copies the body, with a
 * mark in place of each list. The numbers and the counts of elements must be those of jansson. The body must be JSON if
 * and only if the text with marks is JSON. Replacing each mark by its list must give the JSON of the body. */
#include "server/text/numbers.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BELOW 1000
#define NONE -100
#define MAX_LISTS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static json_t *parse(const char *text, size_t length)
{
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (json_is_object(json))
        return json;
    json_decref(json);
    return NULL;
}

/* A list as jansson reads it: its numbers in order, and the count of numbers up to the end of each list at depth
 * item_depth. */
struct expected {
    double *values;
    int64_t *ends, *lists;
    int64_t count, n_ends, columns;
    int item_depth;
    int64_t wrong_ids, wrong_floats;
    bool ragged; /* the innermost lists have different lengths. `columns` is the length of the first */
};

static void walk(struct expected *expected, const json_t *list, int depth)
{
    bool innermost = !json_is_array(json_array_get(list, 0));
    expected->lists[depth - 1]++;
    if (innermost) {
        expected->columns = expected->columns ? expected->columns : (int64_t)json_array_size(list);
        if (expected->columns != (int64_t)json_array_size(list))
            expected->ragged = true;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);

        if (!innermost) {
            walk(expected, value, depth + 1);
            continue;
        }
        bool id = json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) < BELOW;
        bool none = json_is_integer(value) && json_integer_value(value) == NONE;
        expected->wrong_ids += !id && !none;
        expected->wrong_floats += !isfinite((float)json_number_value(value));
        expected->values[expected->count++] = json_number_value(value);
    }
    if (depth == expected->item_depth)
        expected->ends[expected->n_ends++] = expected->count;
}

static int32_t id_of(double value)
{
    return value == NONE ? -1 : (int32_t)value;
}

static void compare(const struct numbers *numbers, const json_t *list, int item_depth, bool ids)
{
    size_t count = (size_t)numbers->count;
    int64_t lists[NUMBERS_DEPTH] = {0};
    struct expected expected = {.item_depth = item_depth, .lists = lists};
    struct numbers_target target = {.below = BELOW, .none = NONE, .item_depth = item_depth};
    int32_t *values = malloc(count * sizeof *values);
    expected.values = malloc(count * sizeof *expected.values);
    expected.ends = malloc(count * sizeof *expected.ends);
    target.ends = malloc((size_t)numbers->lists[item_depth - 1] * sizeof *target.ends);
    *(ids ? (void **)&target.ids : (void **)&target.floats) = values;
    walk(&expected, list, 1);
    target.sizes[numbers->depth - 1] = expected.columns;
    expect(expected.count == numbers->count, "other numbers than counted");
    expect(memcmp(lists, numbers->lists, sizeof lists) == 0, "other lists than counted");

    bool read = numbers_read(numbers, &target);
    int64_t wrong = ids ? expected.wrong_ids : expected.wrong_floats, n_wrong = 0;
    expect(read == (wrong == 0 && !expected.ragged), "numbers are right for one and wrong for the other");
    for (size_t i = 0; read && i < count; i++) {
        float wanted = (float)expected.values[i];

        expect(ids ? values[i] == id_of(expected.values[i]) : memcmp(&values[i], &wanted, sizeof wanted) == 0,
               "another number");
    }
    if (read)
        expect(memcmp(target.ends, expected.ends, (size_t)expected.n_ends * sizeof *target.ends) == 0, "other ends");
    target.n_wrong = &n_wrong;
    read = numbers_read(numbers, &target);
    expect(read == !expected.ragged && (!read || n_wrong == wrong), "more or fewer wrong numbers");
    if (read)
        expect(memcmp(target.ends, expected.ends, (size_t)expected.n_ends * sizeof *target.ends) == 0, "other ends");
    for (size_t i = 0; i < count; i += count / 4 + 1)
        expect(strtod(numbers_at(numbers, (int64_t)i), NULL) == expected.values[i], "another number's text");
    free(expected.values);
    free(expected.ends);
    free(target.ends);
    free(values);
}

static bool has_key(const struct numbers_place *place, const char *key)
{
    for (const char *const *known = place->keys; *known; known++)
        if (strcmp(*known, key) == 0)
            return true;
    return false;
}

/* Replaces the marks in `json` by their lists. Aborts if a list under a key of `place` has no mark. Returns the number
 * of marks. */
static size_t restore(json_t *json, int depth, const struct numbers_place *place, const struct numbers *numbers,
                      size_t count)
{
    const char *key;
    json_t *value;
    size_t i, n = 0;
    json_object_foreach (json, key, value) {
        bool named = depth >= place->least_depth && has_key(place, key);

        if (named && json_is_array(value)) {
            const json_t *mark = json_array_get(value, 0);

            expect(json_array_size(value) == 1 && json_is_integer(mark), "a list at the place has no mark");
            expect(json_integer_value(mark) < (json_int_t)count, "a mark of no list");
            const struct numbers *list = &numbers[json_integer_value(mark)];
            json_object_set_new(json, key, json_loadb(list->text, list->length, 0, NULL));
            n++;
        } else if (depth < place->most_depth) {
            n += restore(value, depth + 1, place, numbers, count);
        }
    }
    json_array_foreach (json, i, value) {
        if (depth < place->most_depth)
            n += restore(value, depth + 1, place, numbers, count);
    }
    return n;
}

static void compare_text(const struct numbers *numbers)
{
    json_t *list = json_loadb(numbers->text, numbers->length, 0, NULL);
    expect(list != NULL, "the list is no JSON");
    for (int depth = 1; depth <= numbers->depth; depth++) {
        compare(numbers, list, depth, true);
        compare(numbers, list, depth, false);
    }
    json_decref(list);
}

static void look(const char *body, size_t size, struct numbers_place place, size_t most)
{
    char rest[NUMBERS_REST];
    struct numbers numbers[MAX_LISTS];
    size_t n = numbers_find(body, size, place, numbers, most);
    if (n == 0)
        return;
    size_t length = numbers_rest(numbers, n, body, size, rest);
    expect(n <= most && length <= sizeof rest, "too many, or too much beside them");
    for (size_t i = 0; i < n; i++)
        compare_text(&numbers[i]);
    json_t *whole = parse(body, size), *restored = parse(rest, length);
    expect(!whole == !restored, "one is JSON and the other not");
    if (whole) {
        expect(restore(restored, 1, &place, numbers, n) == n, "not as many marks as lists");
        expect(json_equal(whole, restored), "not what stood there");
    }
    json_decref(whole);
    json_decref(restored);
}

/* Adds the number of values in `value` to counts->values. Raises counts->longest to the number of elements of the
 * longest list or object, down to the depth NUMBERS_DEPTH. */
static void count(const json_t *value, int depth, struct numbers_counts *counts)
{
    int64_t elements = (int64_t)(json_array_size(value) + json_object_size(value));
    const char *key;
    json_t *element;
    size_t i;
    if (elements == 0) {
        counts->values++;
        return;
    }
    if (depth <= NUMBERS_DEPTH && elements > counts->longest)
        counts->longest = elements;
    json_array_foreach (value, i, element)
        count(element, depth + 1, counts);
    json_object_foreach ((json_t *)value, key, element)
        count(element, depth + 1, counts);
}

/* numbers_count must find the list "inputs" of the body, and count its elements. A body with an escape is not compared,
 * because the escape may be in the key. */
static void compare_counts(const char *body, size_t size)
{
    struct numbers_counts counts = numbers_count(body, size, "inputs");
    struct numbers_counts expected = {0};
    json_t *whole = parse(body, size), *list = json_object_get(whole, "inputs");
    if (json_is_array(list) && json_array_size(list) > 0 && !memchr(body, '\\', size)) {
        expected.elements = (int64_t)json_array_size(list);
        count(list, 1, &expected);
        expect(counts.elements == expected.elements && counts.longest == expected.longest &&
                   counts.values == expected.values,
               "other elements than counted");
    }
    json_decref(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    compare_counts((const char *)data, size);
    static const char *const inputs[] = {"inputs", "embeddings", NULL}, *const tensors[] = {"data", NULL};
    look((const char *)data, size, (struct numbers_place){inputs, 1, 1}, MAX_LISTS);
    look((const char *)data, size, (struct numbers_place){inputs, 1, 2}, MAX_LISTS);
    look((const char *)data, size, (struct numbers_place){tensors, 3, 3}, MAX_LISTS);
    return 0;
}
