/* Tests of spaces, the loops of an operation, evaluated for an item. A space must visit the same elements in the same
 * order before and after it is simplified. */
#include "engine/plan/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_ELEMENTS 4096

struct places {
    int64_t count;
    struct space_offsets of[MAX_ELEMENTS];
};

static bool same(struct space_offsets a, struct space_offsets b)
{
    return a.x == b.x && a.z == b.z && a.keys == b.keys && a.y == b.y;
}

/* Lists the visited elements by the definition of a space: nested loops, one for each dimension. */
static void list_by_loops(const struct space_dimension *dimensions, int rank, struct space_offsets at,
                          struct places *places)
{
    if (rank == 0) {
        places->of[places->count++] = at;
        return;
    }
    for (int64_t i = 0; i < dimensions->count; i++) {
        const struct space_offsets *stride = &dimensions->stride;
        struct space_offsets next = {at.x + i * stride->x, at.z + i * stride->z, at.keys + i * stride->keys,
                                     at.y + i * stride->y};
        list_by_loops(dimensions + 1, rank - 1, next, places);
    }
}

/* Makes a random space. y is dense and x often is, so that neighbouring dimensions can often be merged. */
static struct evaluated_space random_space(void)
{
    struct evaluated_space space = {.rank = rand() % 6, .first = {rand() % 9, rand() % 9, rand() % 9, rand() % 9}};
    int64_t dense = 1;
    for (int d = space.rank - 1; d >= 0; d--) {
        struct space_dimension *dimension = &space.dimensions[d];
        dimension->count = rand() % 8 == 0 ? 0 : 1 + rand() % 4;
        dimension->stride.y = dense;
        dimension->stride.x = rand() % 4 ? dense : rand() % 7 - 3;
        dimension->stride.z = rand() % 4 ? dense * 2 : 0;
        dimension->stride.keys = rand() % 8 ? 0 : 1;
        dense *= dimension->count;
    }
    return space;
}

static void check_space(struct evaluated_space space)
{
    static struct places wanted;
    wanted.count = 0;
    list_by_loops(space.dimensions, space.rank, space.first, &wanted);
    for (int simplified = 0; simplified < 2; simplified++) {
        assert_int_equal(space_count(space.dimensions, space.rank), wanted.count);
        for (int64_t from = 0; from < wanted.count; from += 1 + wanted.count / 3) {
            struct space_place place = space_at(space.dimensions, space.rank, space.first, from);
            for (int64_t i = from; i < wanted.count; i++) {
                assert_true(same(place.at, wanted.of[i]));
                space_next(space.dimensions, space.rank, &place);
            }
            if (wanted.count > 0)
                assert_true(same(place.at, wanted.of[0]));
        }
        space.rank = space_simplify(space.dimensions, space.rank);
    }
}

static void test_random_spaces_list_the_same_places_as_loops(void **state)
{
    (void)state;
    srand(1);
    for (int i = 0; i < 3000; i++)
        check_space(random_space());
}

/* If dense rows of x are copied to dense rows of y, one dimension is left. If z is the same for all rows, two
 * dimensions are left. */
static void test_dense_and_broadcast_dimensions_are_merged(void **state)
{
    (void)state;
    struct space_dimension dense[] = {{3, {40, 0, 0, 40}}, {1, {9, 9, 9, 9}}, {5, {8, 0, 0, 8}}, {8, {1, 0, 0, 1}}};
    assert_int_equal(space_simplify(dense, 4), 1);
    assert_int_equal(dense[0].count, 120);
    assert_int_equal(dense[0].stride.x, 1);
    struct space_dimension broadcast[] = {{3, {40, 0, 0, 40}}, {5, {8, 0, 0, 8}}, {8, {1, 1, 0, 1}}};
    assert_int_equal(space_simplify(broadcast, 3), 2);
    assert_int_equal(broadcast[0].count, 15);
    struct space_dimension ones[] = {{1, {5, 5, 5, 5}}, {1, {1, 1, 1, 1}}};
    assert_int_equal(space_simplify(ones, 2), 0);
}

/* Counts, strides and first elements follow from the sizes of an item. If the step does not have an operand, the
 * strides and the first element of this operand are 0. */
static void test_counts_and_strides_follow_from_sizes(void **state)
{
    (void)state;
    const int64_t sizes[] = {99, 4, 7, 28, -1};
    struct plan_space space = {.rank = 2, .dimensions = {{1, 2, 3, 4, 2}, {2, 4, 1, 2, 1}}, .x_first = 3, .y_first = 1};
    struct plan_step step;
    memset(&step, 0xff, sizeof step); /* sets each operand to PLAN_NONE, which is -1 */
    step.x = 0;
    step.z_weight = 0;
    struct evaluated_space found = space_evaluate(&space, space_operands_of(&step), sizes);
    assert_int_equal(found.rank, 2);
    assert_int_equal(found.dimensions[0].count, 4);
    assert_true(same(found.dimensions[0].stride, (struct space_offsets){7, 28, 0, 7}));
    assert_int_equal(found.dimensions[1].count, 7);
    assert_true(same(found.dimensions[1].stride, (struct space_offsets){-1, 4, 0, 4}));
    assert_true(same(found.first, (struct space_offsets){28, 99, 0, 4}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_spaces_list_the_same_places_as_loops),
        cmocka_unit_test(test_dense_and_broadcast_dimensions_are_merged),
        cmocka_unit_test(test_counts_and_strides_follow_from_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
