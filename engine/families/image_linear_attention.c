/* ImageLinearAttention of lucidrains' `linear-attention-transformer` 0.19.1 (linear_attention_transformer/images.py).
 * q, k and v are convolutions of the image. The class reads their results as features for each of the image's H * W
 * pixels. So it fails if stride and padding change the number of pixels. The last convolution has the padding, but not
 * the stride. */
#include "engine/families/family.h"
#include "engine/plan/sizes.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* Limit on the pixels of the images that are tried when a model is loaded. If no image up to this size fits, larger
 * ones do not fit either, unless the kernel or the padding is about as large as this limit. */
#define MAX_PIXELS 65536

struct image_arguments {
    int64_t chan, chan_out, key_dim, value_dim, heads;
    bool norm_queries;
    json_t *kernel_size, *padding, *stride;
};

#define FIELD(field) offsetof(struct image_arguments, field)
#define COUNT(table) (sizeof(table) / sizeof *(table))

static const struct argument class_arguments[] = {
    {"chan", ARGUMENT_SIZE, true, 0, FIELD(chan)},
    {"chan_out", ARGUMENT_OPTIONAL_SIZE, false, 0, FIELD(chan_out)},
    {"kernel_size", ARGUMENT_JSON, false, 0, FIELD(kernel_size)},
    {"padding", ARGUMENT_JSON, false, 0, FIELD(padding)},
    {"stride", ARGUMENT_JSON, false, 0, FIELD(stride)},
    {"key_dim", ARGUMENT_SIZE, false, 64, FIELD(key_dim)},
    {"value_dim", ARGUMENT_SIZE, false, 64, FIELD(value_dim)},
    {"heads", ARGUMENT_SIZE, false, 8, FIELD(heads)},
    {"norm_queries", ARGUMENT_BOOL, false, 1, FIELD(norm_queries)},
};

static const enum padding exact_only[] = {PADDING_EXACT, PADDING_DEFAULT};

/* ---- Arguments of nn.Conv2d ---- */

/* An integer for both directions, or a list with one for each direction. Where torch allows it, a list of one integer
 * applies to both directions. */
struct direction_pair {
    const char *name, *expected;
    int64_t least, fallback;
    size_t fewest; /* minimum length of a list */
};

static const struct direction_pair kernel_size = {"kernel_size", "an integer of at least 1, or a list of two", 1, 1, 2};
static const struct direction_pair stride = {"stride", "an integer of at least 1, or a list of one or two", 1, 1, 1};
static const struct direction_pair padding = {
    "padding", "an integer of at least 0, a list of one or two, \"same\" or \"valid\"", 0, 0, 1};

static void read_pair(struct plan_builder *builder, const char *name, const struct direction_pair *pair,
                      const json_t *json, int64_t numbers[2])
{
    bool is_list = json_is_array(json);
    size_t count = is_list ? json_array_size(json) : 1;
    numbers[0] = numbers[1] = pair->fallback;
    if (!json)
        return;
    bool fits = !is_list || (count >= pair->fewest && count <= 2);
    for (size_t i = 0; fits && i < 2; i++) {
        const json_t *number = is_list ? json_array_get(json, count == 1 ? 0 : i) : json;
        numbers[i] = json_integer_value(number);
        fits = json_is_integer(number) && numbers[i] >= pair->least && numbers[i] <= INT32_MAX;
    }
    if (!fits)
        plan_fail(builder, "%s: argument %s: expected %s", name, pair->name, pair->expected);
}

/* The padding "same" keeps the size of the image. If the number of added rows is odd, one more row is added below than
 * above. Likewise, one more column is added on the right than on the left. */
static void read_padding(struct plan_builder *builder, const char *name, const struct image_arguments *arguments,
                         struct plan_window *window)
{
    const char *word = json_string_value(arguments->padding);
    if (!word || (strcmp(word, "same") != 0 && strcmp(word, "valid") != 0)) {
        read_pair(builder, name, &padding, arguments->padding, window->before);
        memcpy(window->after, window->before, sizeof window->after);
        return;
    }
    if (strcmp(word, "valid") == 0)
        return;
    if (window->stride[0] != 1 || window->stride[1] != 1)
        plan_fail(builder, "%s: padding \"same\" needs a stride of 1", name);
    for (int i = 0; i < 2; i++) {
        window->before[i] = (window->size[i] - 1) / 2;
        window->after[i] = window->size[i] - 1 - window->before[i];
    }
}

/* ---- What the class can run ---- */

/* Whether the class can run an image. With padding, the image must be at least as large as the kernel, and the
 * convolutions of q, k and v must keep its number of pixels. Also checks that the number of pixels of the last
 * convolution's result does not overflow. */
static bool image_fits(const struct plan_window *window, const struct plan_window *last, struct plan_image image)
{
    if (!plan_window_fits(window, image) || !plan_window_fits(last, image))
        return false;
    struct plan_image made = plan_convolved(window, image), out = plan_convolved(last, image);
    if (out.height > INT32_MAX / out.width)
        return false;
    int64_t pixels = image.height * image.width;
    return pixels % made.width == 0 && pixels / made.width == made.height;
}

static bool any_image_fits(const struct plan_window *window, const struct plan_window *last)
{
    for (int64_t height = 1; height <= MAX_PIXELS; height++)
        for (int64_t width = 1; width <= MAX_PIXELS / height; width++)
            if (image_fits(window, last, (struct plan_image){height, width}))
                return true;
    return false;
}

static bool read_arguments(struct plan_builder *builder, const char *name, const struct model_config *config,
                           struct image_arguments *arguments, struct plan_window *window)
{
    plan_choose_padding(builder, name, config->padding, exact_only);
    if (builder->failed)
        return false;
    if (arguments_read(name, class_arguments, COUNT(class_arguments), config->kwargs, arguments, builder->error) != 0) {
        builder->failed = true;
        return false;
    }
    if (arguments->chan_out == 0)
        arguments->chan_out = arguments->chan;
    *window = (struct plan_window){.dilation = {1, 1}};
    read_pair(builder, name, &kernel_size, arguments->kernel_size, window->size);
    read_pair(builder, name, &stride, arguments->stride, window->stride);
    read_padding(builder, name, arguments, window);
    return !builder->failed;
}

/* The window of the last convolution. */
static struct plan_window without_stride(struct plan_window window)
{
    window.stride[0] = window.stride[1] = 1;
    return window;
}

static void refuse_what_no_image_fits(struct plan_builder *builder, const char *name, const struct plan_window *window)
{
    struct plan_window last = without_stride(*window);
    if (!any_image_fits(window, &last))
        plan_fail(builder,
                  "%s: with kernel_size %lld x %lld, padding %lld x %lld and stride %lld x %lld, no image keeps its "
                  "number of pixels, as the class requires",
                  name, (long long)window->size[0], (long long)window->size[1], (long long)window->before[0],
                  (long long)window->before[1], (long long)window->stride[0], (long long)window->stride[1]);
}

/* The reason why the class fails with a context. NULL if the class accepts a context. The class reads a context as an
 * image of height 1 whose values have key_dim features. */
static const char *context_refused(const struct image_arguments *arguments, const struct plan_window *window)
{
    if (arguments->key_dim != arguments->value_dim)
        return "the class accepts it only if key_dim equals value_dim";
    if (!plan_window_fits(window, (struct plan_image){1, INT32_MAX}))
        return "the class reads it as an image of height 1, which is too small, even with padding, for kernel_size";
    return NULL;
}

/* ---- ImageLinearAttention.forward ---- */

/* nn.Conv2d */
static struct plan_convolution convolution(struct plan_builder *builder, int64_t in, int64_t out,
                                           const struct plan_window *window, const char *layer)
{
    const int64_t shape[] = {out, in, window->size[0], window->size[1]};
    int weight = plan_kernel(builder, plan_tensor(builder, 4, shape, "%s.weight", layer), out, in);
    int bias = plan_vector(builder, out, "%s.bias", layer);
    return (struct plan_convolution){
        .weight = weight, .bias = bias, .window = *window, .groups = 1, .height = PLAN_NONE, .scale = 1.0f};
}

static void refuse_changed_pixels(struct plan_builder *builder, const struct plan_convolution *convolution)
{
    enum { HEIGHT, WIDTH, MADE_HEIGHT, MADE_WIDTH, COUNTS };
    const int sizes[COUNTS] = {convolution->height, convolution->width, convolution->made_height,
                               convolution->made_width};
    const struct plan_window *window = &convolution->window;
    char texts[COUNTS][64];
    for (int i = 0; i < COUNTS && !builder->failed; i++)
        plan_size_text(builder->plan, sizes[i], texts[i], sizeof texts[i]);
    if (!builder->failed)
        plan_fail(
            builder,
            "kernel_size %lld x %lld, padding %lld x %lld and stride %lld x %lld turn an image of %s x %s into %s "
            "x %s pixels; the class requires the same number of pixels",
            (long long)window->size[0], (long long)window->size[1], (long long)window->before[0],
            (long long)window->before[1], (long long)window->stride[0], (long long)window->stride[1], texts[HEIGHT],
            texts[WIDTH], texts[MADE_HEIGHT], texts[MADE_WIDTH]);
}

/* Sets the sizes of the image and of the convolution's result, if the image is the input of a leaf. */
static void take_sizes(struct plan_builder *builder, struct plan_convolution *convolution)
{
    const struct plan_window *window = &convolution->window;
    int sizes[] = {builder->scope.height, builder->scope.width};
    if (!builder->scope.leaf || builder->scope.height == PLAN_NONE || builder->failed)
        return;
    convolution->height = sizes[0];
    convolution->width = sizes[1];
    for (int i = 0; i < 2; i++) {
        int64_t more = window->before[i] + window->after[i] - window->size[i];
        int room = plan_size_add(builder, sizes[i], plan_size_constant(builder, more));
        plan_limit_size(builder,
                        (struct plan_size_limit){.size = room,
                                                 .least = 0,
                                                 .most = INT64_MAX,
                                                 .multiple = 1,
                                                 .what = "the size of the padded image minus that of the kernel"});
        sizes[i] = plan_size_divide(builder, room, plan_size_constant(builder, window->stride[i]));
        sizes[i] = plan_size_add(builder, sizes[i], plan_size_constant(builder, 1));
    }
    convolution->made_height = sizes[0];
    convolution->made_width = sizes[1];
    if (convolution->keeps_pixels && plan_size_multiply(builder, sizes[0], sizes[1]) !=
                                         plan_size_multiply(builder, convolution->height, convolution->width))
        refuse_changed_pixels(builder, convolution);
}

static int convolve_scaled(struct plan_builder *builder, int x, struct plan_convolution convolution, float scale)
{
    convolution.scale = scale;
    convolution.keeps_pixels = true;
    take_sizes(builder, &convolution);
    return plan_convolve_image(builder, x, convolution);
}

void image_linear_attention_build(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    struct image_arguments arguments;
    struct plan_window window;
    if (!read_arguments(builder, name, config, &arguments, &window))
        return;
    refuse_what_no_image_fits(builder, name, &window);
    int64_t keys_out = arguments.key_dim * arguments.heads, values_out = arguments.value_dim * arguments.heads;
    struct plan_window last = without_stride(window);
    const char *refused = context_refused(&arguments, &window);
    int x = plan_input_image(builder, "x", arguments.chan);
    int context = plan_input_pixels(builder, "context", arguments.chan, refused);
    struct plan_convolution to_q = convolution(builder, arguments.chan, keys_out, &window, "to_q");
    struct plan_convolution to_k = convolution(builder, arguments.chan, keys_out, &window, "to_k");
    struct plan_convolution to_v = convolution(builder, arguments.chan, values_out, &window, "to_v");

    float scale = (float)pow((double)arguments.key_dim, -0.25);
    int queries = convolve_scaled(builder, x, to_q, scale);
    int keys = convolve_scaled(builder, x, to_k, scale);
    int values = convolve_scaled(builder, x, to_v, 1.0f);
    if (!refused && context != PLAN_NONE) { /* the keys of the context are not scaled */
        keys = plan_append_rows(builder, keys, plan_convolve_image(builder, context, to_k));
        values = plan_append_rows(builder, values, plan_convolve_image(builder, context, to_v));
    }
    int out = plan_image_linear_attend(builder, queries, keys, values, arguments.heads, arguments.norm_queries);
    struct plan_convolution to_out = convolution(builder, values_out, arguments.chan_out, &last, "to_out");
    take_sizes(builder, &to_out);
    plan_give_image(builder, plan_convolve_image(builder, out, to_out));
}
