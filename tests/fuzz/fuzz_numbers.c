/* Lists of numbers that are read without jansson, against jansson: what is found is JSON exactly when the body with an
 * empty list in its place is, and it has the same lists and the same numbers. */
#include "server/numbers.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BELOW 1000

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

/* What jansson makes of the list: numbers in order, and how many there are at the end of each list of item_depth. */
struct expected {
    double *values;
    int64_t *ends, *lists;
    int64_t count, n_ends, columns;
    int item_depth;
    bool ids, floats; /* all are, and floats in lists of `columns` */
};

static void walk(struct expected *expected, const json_t *list, int depth)
{
    bool innermost = !json_is_array(json_array_get(list, 0));

    expected->lists[depth - 1]++;
    if (innermost) {
        expected->columns = expected->columns ? expected->columns : (int64_t)json_array_size(list);
        expected->floats = expected->floats && expected->columns == (int64_t)json_array_size(list);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);

        if (!innermost) {
            walk(expected, value, depth + 1);
            continue;
        }
        expected->ids = expected->ids && json_is_integer(value) && json_integer_value(value) >= 0 &&
                        json_integer_value(value) < BELOW;
        expected->floats = expected->floats && isfinite((float)json_number_value(value));
        expected->values[expected->count++] = json_number_value(value);
    }
    if (depth == expected->item_depth)
        expected->ends[expected->n_ends++] = expected->count;
}

static void compare(const struct numbers *numbers, const json_t *list, int item_depth, bool ids)
{
    size_t count = (size_t)numbers->count;
    int64_t lists[NUMBERS_DEPTH] = {0};
    struct expected expected = {.item_depth = item_depth, .lists = lists, .ids = true, .floats = true};
    struct numbers_target target = {.below = BELOW, .item_depth = item_depth};
    int32_t *values = malloc(count * sizeof *values);

    expected.values = malloc(count * sizeof *expected.values);
    expected.ends = malloc(count * sizeof *expected.ends);
    target.ends = malloc((size_t)numbers->lists[item_depth - 1] * sizeof *target.ends);
    *(ids ? (void **)&target.ids : (void **)&target.floats) = values;
    walk(&expected, list, 1);
    target.columns = expected.columns;
    expect(expected.count == numbers->count, "other numbers than counted");
    expect(memcmp(lists, numbers->lists, sizeof lists) == 0, "other lists than counted");

    bool read = numbers_read(numbers, &target);
    expect(read == (ids ? expected.ids : expected.floats), "numbers are right for one and wrong for the other");
    for (size_t i = 0; read && i < count; i++) {
        float wanted = (float)expected.values[i];

        expect(ids ? values[i] == (int32_t)expected.values[i] : memcmp(&values[i], &wanted, sizeof wanted) == 0,
               "another number");
    }
    if (read)
        expect(memcmp(target.ends, expected.ends, (size_t)expected.n_ends * sizeof *target.ends) == 0, "other ends");
    free(expected.values);
    free(expected.ends);
    free(target.ends);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *body = (const char *)data;
    char rest[NUMBERS_REST + 2];
    struct numbers numbers;

    if (!numbers_find(body, size, "inputs", "embeddings", &numbers))
        return 0;
    expect(numbers.text >= body && numbers.length <= size - (size_t)(numbers.text - body), "outside the body");
    json_t *whole = parse(body, size);
    json_t *without = parse(rest, numbers_rest(&numbers, body, size, rest));
    expect(!whole == !without, "one is JSON and the other not");
    if (whole) {
        json_t *text = json_loadb(numbers.text, numbers.length, 0, NULL);

        expect(text != NULL, "the list is no JSON");
        expect(json_equal(text, json_object_get(whole, "inputs")) ||
                   json_equal(text, json_object_get(whole, "embeddings")),
               "no member of the body");
        for (int depth = 1; depth <= numbers.depth; depth++) {
            compare(&numbers, text, depth, true);
            compare(&numbers, text, depth, false);
        }
        json_decref(text);
    }
    json_decref(whole);
    json_decref(without);
    return 0;
}
