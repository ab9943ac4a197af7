/* Tests of the picture of attention weights: its size, and the colour of each cell. */
#include "server/images/panels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h> /* needs the headers above */

#define COLOURS_OF_VALUES 254 /* number of colours that stand for values. Background and text have others */

/* Draws the picture, and returns its pixels. The caller frees them. */
static uint8_t *drawn(const struct panels *panels)
{
    uint8_t *pixels = malloc((size_t)(panels->width * panels->height) + 1);
    assert_non_null(pixels);
    pixels[panels->width * panels->height] = 77; /* a byte behind the picture, to detect writes beyond its end */
    panels_draw(panels, pixels);
    assert_int_equal(pixels[panels->width * panels->height], 77);
    return pixels;
}

/* Finds the upper left corner of the first panel: the first pixel from the top whose colour stands for a value. */
static void find_corner(const struct panels *panels, const uint8_t *pixels, int64_t *x, int64_t *y)
{
    int64_t at = 0;
    while (at < panels->width * panels->height && pixels[at] >= COLOURS_OF_VALUES)
        at++;
    *x = at % panels->width;
    *y = at / panels->width;
}

static void each_cell_has_the_colour_of_its_value(void **state)
{
    (void)state;
    /* (2 heads, 2 rows, 3 keys). The largest value is 0.5. */
    static const float values[] = {0, 0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.25F, 0.25F, 0.5F, 0, 0, 0.125F};
    const struct panel_row row = {.number = 3, .values = values, .heads = 2, .n = 2, .k = 3};
    struct panels panels = {.rows = &row, .n_rows = 1, .n_heads = 2, .most_n = INT64_MAX, .cell = 30};
    int64_t left, top;
    assert_true(panels_fit(&panels));
    uint8_t *pixels = drawn(&panels);
    find_corner(&panels, pixels, &left, &top);
    int64_t second = left + 3 * 30;
    while (pixels[top * panels.width + second] >= COLOURS_OF_VALUES)
        second++; /* skips the gap between the panels */
    for (int64_t p = 0; p < 2 * 30; p++)
        for (int64_t j = 0; j < 3 * 30; j++)
            for (int64_t head = 0; head < 2; head++) {
                int64_t x = (head ? second : left) + j;
                double share = values[head * 6 + p / 30 * 3 + j / 30] / 0.5;
                assert_int_equal(pixels[(top + p) * panels.width + x], (int)(share * 253 + 0.5));
            }
    assert_true(pixels[(top + 60) * panels.width + left] >= COLOURS_OF_VALUES); /* the panel ends before this pixel */
    free(pixels);
}

static void each_panel_may_have_its_own_scale(void **state)
{
    (void)state;
    static const float values[] = {0.1F, 0.2F, 0.5F, 1};
    const struct panel_row row = {.values = values, .heads = 2, .n = 1, .k = 2};
    struct panels panels = {.rows = &row, .n_rows = 1, .n_heads = 1, .most_n = 1, .cell = 10};
    int64_t left, top;
    panels.scaled_each = true;
    assert_true(panels_fit(&panels));
    uint8_t *pixels = drawn(&panels);
    find_corner(&panels, pixels, &left, &top);
    assert_int_equal(pixels[top * panels.width + left], 127);
    assert_int_equal(pixels[top * panels.width + left + 10], 253);
    free(pixels);
}

/* The layers differ in their numbers of heads, rows and keys. All pixels must lie within the picture. */
static void grids_of_all_shapes_are_drawn(void **state)
{
    (void)state;
    float values[4 * 5 * 6];
    for (int i = 0; i < 4 * 5 * 6; i++)
        values[i] = (float)i / 120;
    const struct panel_row rows[] = {
        {.number = 0, .values = values, .heads = 1, .n = 5, .k = 1},
        {.number = 1023, .values = values, .heads = 4, .n = 5, .k = 6},
        {.number = 2, .values = values, .heads = 2, .n = 1, .k = 2},
    };
    for (int first = 0; first < 4; first++)
        for (int heads = 1; heads + first <= 4; heads++)
            for (int most_n = 1; most_n <= 6; most_n++)
                for (int cell = 0; cell <= PANELS_MAX_CELL; cell++) {
                    struct panels panels = {rows, 3, first, heads, most_n, false, cell, 0, 0};
                    assert_true(panels_fit(&panels));
                    free(drawn(&panels));
                }
}

static void large_pictures_are_refused(void **state)
{
    (void)state;
    const struct panel_row row = {.heads = 8, .n = 4096, .k = 512};
    struct panels panels = {.rows = &row, .n_rows = 1, .n_heads = 8, .most_n = INT64_MAX};
    assert_false(panels_fit(&panels)); /* 4096 * 4096 pixels, and additional pixels for the labels */
    assert_int_equal(panels.cell, 1);
    panels.n_heads = 4;
    assert_true(panels_fit(&panels));
    panels.cell = 8;
    assert_false(panels_fit(&panels));
    const struct panel_row huge = {.heads = INT64_C(1) << 20, .n = INT64_C(1) << 30, .k = INT64_C(1) << 30};
    struct panels most = {.rows = &huge, .n_rows = 1, .n_heads = huge.heads, .most_n = INT64_MAX, .cell = 1};
    assert_false(panels_fit(&most));
}

static void values_that_are_no_weights_are_drawn(void **state)
{
    (void)state;
    static const float values[] = {-1, 0, 1e-30F, 3e38F};
    const struct panel_row row = {.values = values, .heads = 1, .n = 2, .k = 2};
    struct panels panels = {.rows = &row, .n_rows = 1, .n_heads = 1, .most_n = 2};
    assert_true(panels_fit(&panels));
    assert_int_equal(panels.cell, 8);
    free(drawn(&panels));
    static const float zeros[] = {0, 0, 0, 0};
    const struct panel_row nothing = {.values = zeros, .heads = 1, .n = 2, .k = 2};
    panels.rows = &nothing;
    free(drawn(&panels));
}

/* Larger values are darker. */
static void the_palette_is_monotone(void **state)
{
    (void)state;
    uint8_t palette[PANELS_COLOURS][3];
    panels_palette(palette);
    for (int i = 1; i < COLOURS_OF_VALUES; i++)
        for (int c = 0; c < 3; c++)
            assert_true(palette[i][c] <= palette[i - 1][c]);
    assert_true(palette[0][0] > palette[COLOURS_OF_VALUES - 1][0] + 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cell_has_the_colour_of_its_value), cmocka_unit_test(each_panel_may_have_its_own_scale),
        cmocka_unit_test(grids_of_all_shapes_are_drawn),         cmocka_unit_test(large_pictures_are_refused),
        cmocka_unit_test(values_that_are_no_weights_are_drawn),  cmocka_unit_test(the_palette_is_monotone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
