/* Tests of convolutions of images and of rows, and of attention over pixels. */
#include "tests/unit/operation_spaces.h"
#include "tests/unit/operation_tests.h"

#define ALONE \
    {         \
        1, 1  \
    } /* dilation */

/* Convolves an image of `in` channels to an image of `out` channels. */
static void check_convolve_image(int64_t in, int64_t out, struct plan_window window, int64_t groups, bool keeps_pixels)
{
    struct bench bench;
    int64_t depth = in / groups * window.size[0] * window.size[1];
    const struct tensor_shape shapes[] = {{"w", out, depth}, {"b", 0, out}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_image(builder, "x", in), bias = plan_vector(builder, out, "b");
    struct plan_convolution convolution = {.weight = plan_matrix(builder, out, depth, "w"),
                                           .bias = out % 2 ? bias : PLAN_NONE,
                                           .window = window,
                                           .groups = groups,
                                           .height = PLAN_NONE,
                                           .scale = out % 3 ? 0.7f : 1.0f,
                                           .keeps_pixels = keeps_pixels};
    plan_give_image(builder, plan_convolve_image(builder, x, convolution));
    bench_run(&bench);
}

/* Some windows keep the number of pixels only for images of certain sizes, such as 2 x 2 and 2 x 3, or 3 x 1 and 4 x
 * 2. */
void test_convolve_image(void **state)
{
    (void)state;
    check_convolve_image(1, 1, (struct plan_window){{1, 1}, {1, 1}, {0, 0}, {0, 0}, ALONE}, 1, true);
    check_convolve_image(5, 3, (struct plan_window){{3, 3}, {1, 1}, {1, 1}, {1, 1}, ALONE}, 1, true);
    check_convolve_image(20, 300, (struct plan_window){{2, 4}, {1, 1}, {0, 1}, {1, 2}, ALONE}, 1, true);
    check_convolve_image(4, 33, (struct plan_window){{5, 3}, {2, 3}, {2, 0}, {2, 0}, ALONE}, 1, false);
    check_convolve_image(3, 7, (struct plan_window){{1, 2}, {1, 2}, {2, 3}, {2, 3}, ALONE}, 1, false);
    check_convolve_image(3, 7, (struct plan_window){{7, 1}, {1, 1}, {0, 0}, {0, 0}, ALONE}, 1, false);
    check_convolve_image(9, 5, (struct plan_window){{1, 1}, {2, 2}, {1, 1}, {1, 1}, ALONE}, 1, true);
    check_convolve_image(9, 5, (struct plan_window){{3, 1}, {1, 1}, {0, 1}, {0, 1}, ALONE}, 1, true);
    check_convolve_image(6, 5, (struct plan_window){{3, 2}, {1, 1}, {2, 0}, {2, 0}, {2, 3}}, 1, false);
    check_convolve_image(6, 5, (struct plan_window){{3, 2}, {2, 1}, {2, 1}, {2, 1}, {3, 1}}, 1, false);
}

/* The groups have several channels or one channel. There are more output channels than input channels, as many, or
 * fewer. */
void test_convolve_groups(void **state)
{
    (void)state;
    check_convolve_image(6, 9, (struct plan_window){{3, 3}, {1, 1}, {1, 1}, {1, 1}, ALONE}, 3, true);
    check_convolve_image(40, 10, (struct plan_window){{2, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 2}}, 2, false);
    check_convolve_image(5, 5, (struct plan_window){{3, 3}, {1, 1}, {1, 1}, {1, 1}, ALONE}, 5, true);
    check_convolve_image(90, 90, (struct plan_window){{3, 3}, {2, 2}, {2, 2}, {2, 2}, {2, 2}}, 90, false);
    check_convolve_image(11, 33, (struct plan_window){{1, 5}, {1, 1}, {0, 2}, {0, 2}, ALONE}, 11, true);
}

static void check_convolve_rows(int64_t in, int64_t out, int64_t kernel, int64_t dilation, int64_t groups)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", out, in / groups * kernel}, {"b", 0, out}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", in, 85, PLAN_NONE);
    x = convolve_rows(builder, x, plan_matrix(builder, out, in / groups * kernel, "w"), plan_vector(builder, out, "b"),
                      kernel, dilation, groups);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_convolve_rows(void **state)
{
    (void)state;
    check_convolve_rows(20, 30, 3, 1, 1);
    check_convolve_rows(20, 30, 1, 1, 1);
    check_convolve_rows(12, 6, 4, 2, 2);
    check_convolve_rows(150, 150, 7, 1, 150);
}

/* The steps of ImageLinearAttention. Keys and values come from the image, and from an optional context. */
static void check_image_attention(int64_t heads, int64_t key_dim, int64_t value_dim, bool with_context,
                                  bool softmax_queries)
{
    struct bench bench;
    const struct plan_window window = {{1, 3}, {1, 1}, {0, 1}, {0, 1}, ALONE};
    int64_t keys_out = heads * key_dim, values_out = heads * value_dim;
    const struct tensor_shape shapes[] = {
        {"k", keys_out, 18}, {"v", values_out, 18}, {"kb", 0, keys_out}, {"vb", 0, values_out}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_image(builder, "x", 6);
    int context = with_context ? plan_input_pixels(builder, "context", 6, NULL) : PLAN_NONE;
    struct plan_convolution to_k = {.weight = plan_matrix(builder, keys_out, 18, "k"),
                                    .bias = plan_vector(builder, keys_out, "kb"),
                                    .window = window,
                                    .groups = 1,
                                    .height = PLAN_NONE,
                                    .scale = 0.6f,
                                    .keeps_pixels = true};
    struct plan_convolution to_v = to_k;
    to_v.weight = plan_matrix(builder, values_out, 18, "v");
    to_v.bias = plan_vector(builder, values_out, "vb");
    int queries = plan_convolve_image(builder, x, to_k), keys = queries, values = plan_convolve_image(builder, x, to_v);
    if (with_context) {
        to_k.keeps_pixels = to_v.keeps_pixels = false;
        to_k.scale = to_v.scale = 1.0f;
        keys = plan_append_rows(builder, keys, plan_convolve_image(builder, context, to_k));
        values = plan_append_rows(builder, values, plan_convolve_image(builder, context, to_v));
    }
    plan_give_image(builder, plan_image_linear_attend(builder, queries, keys, values, heads, softmax_queries));
    bench_run(&bench);
}

void test_image_attention(void **state)
{
    (void)state;
    check_image_attention(1, 1, 1, false, true);
    check_image_attention(3, 8, 8, true, true);
    check_image_attention(3, 17, 5, false, false);
    check_image_attention(2, 7, 40, false, true);
    check_image_attention(4, 5, 5, true, false);
    /* On CUDA, the appended rows do not consist of whole packs of 16 bytes. */
    check_image_attention(3, 7, 5, true, true);
}
