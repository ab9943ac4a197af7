/* resolution: operations that change the resolution of images. */
#include "engine/families/module/tensor.h"
#include "engine/plan/sizes.h"

#include <string.h>

/* pixel_shuffle: channels (c, r, r) become c images that are r times as high and wide. pixel_unshuffle, which is
 * variant 1, does the reverse. */
static void build_pixel_shuffle(struct node *node, int reverse)
{
    struct module *module = node->module;
    struct plan_builder *builder = module->builder;
    struct tensor t = node_tensor(node, "self");
    int r = module_size(module, node_integer(node, reverse ? "downscale_factor" : "upscale_factor", NODE_REQUIRED));
    int whole[MODULE_RANK], sizes[MODULE_RANK], order[MODULE_RANK], square = module_product(module, r, r);
    if (module_failed(module) || t.rank < 3 || t.rank > MODULE_RANK - 2) {
        module_fail(module, "the input has %d dimensions; expected 3 to %d", t.rank, MODULE_RANK - 2);
        return;
    }
    tensor_whole_sizes(module, &t, whole);
    int first = t.rank - 3, *image = &whole[first]; /* (channels, height, width) */
    memcpy(sizes, whole, (size_t)first * sizeof *sizes);
    for (int d = 0; d < first; d++)
        order[d] = d;
    if (reverse) { /* (c, h, r, w, r) -> (c, r, r, h, w) */
        const int apart[] = {image[0], plan_size_divide(builder, image[1], r), r,
                             plan_size_divide(builder, image[2], r), r};
        const int places[] = {0, 2, 4, 1, 3};
        memcpy(&sizes[first], apart, sizeof apart);
        for (int i = 0; i < 5; i++)
            order[first + i] = first + places[i];
    } else { /* (c, r, r, h, w) -> (c, h, r, w, r) */
        const int apart[] = {plan_size_divide(builder, image[0], square), r, r, image[1], image[2]};
        const int places[] = {0, 3, 1, 4, 2};
        memcpy(&sizes[first], apart, sizeof apart);
        for (int i = 0; i < 5; i++)
            order[first + i] = first + places[i];
    }
    struct tensor apart = tensor_reshape(module, t, t.rank + 2, sizes);
    if (module_failed(module))
        return;
    image[0] = reverse ? module_product(module, image[0], square) : sizes[first];
    image[1] = reverse ? sizes[first + 1] : module_product(module, image[1], r);
    image[2] = reverse ? sizes[first + 3] : module_product(module, image[2], r);
    node_give(node, tensor_reshape(module, tensor_permute(module, apart, order), t.rank, whole));
}

/* Repeats each pixel. The scale must be an integer. */
static void build_upsample_nearest(struct node *node, int dimensions)
{
    struct module *module = node->module;
    struct plan_builder *builder = module->builder;
    struct tensor t = node_tensor(node, node_has(node, "input") ? "input" : "self");
    int sizes[2], whole[MODULE_RANK], times[2];
    int64_t factors[2];
    bool by_size = node_has(node, "output_size");
    int count = by_size ? node_sizes(node, "output_size", sizes, 2) : 0;
    node_has(node, "scale_factors"), node_has(node, "scales"), node_has(node, "scales_h"), node_has(node, "scales_w");
    if (module_failed(module) || t.rank != 2 + dimensions) {
        module_fail(module, "the input has %d dimensions; expected %d", t.rank, 2 + dimensions);
        return;
    }
    if (!by_size)
        count = node_integers(node, "scale_factors", factors, 2);
    for (int i = 0; i < dimensions && !module_failed(module); i++) {
        if (count != dimensions)
            module_fail(module, "expected a scale or a size for each dimension of the image");
        else if (!by_size)
            times[i] = module_size(module, factors[i]);
        else if (!plan_size_divides(builder, sizes[i], t.dims[2 + i].size, &times[i]))
            module_fail(module, "the output size must be a multiple of the input size");
    }
    if (module_failed(module))
        return;
    tensor_whole_sizes(module, &t, whole);
    int target[MODULE_RANK] = {whole[0], whole[1]};
    for (int i = dimensions - 1; i >= 0; i--) {
        t = tensor_unsqueeze(module, t, 3 + i);
        if (module_failed(module))
            return;
        t.dims[3 + i].size = times[i];
        target[2 + i] = module_product(module, whole[2 + i], times[i]);
    }
    node_give(node, tensor_reshape(module, tensor_arranged(module, t), t.rank - dimensions, target));
}

#define MAX_SIDE 16384 /* limit for `in` and `out`. The matrix of an interpolation is (out, in) */

/* Interpolates one dimension from its `in` samples to `out` samples. */
static struct tensor interpolated(struct module *module, struct tensor t, int dim, int64_t out, double factor,
                                  bool aligned)
{
    int64_t in = module_constant(module, t.dims[dim].size, "the size of an interpolated image");
    if (module_failed(module))
        return t;
    if (in > MAX_SIDE)
        module_fail(module, "dimension %d of the input has size %lld; interpolation supports at most %d", dim,
                    (long long)in, MAX_SIDE);
    else if (out < 1 || out > MAX_SIDE)
        module_fail(module, "argument \"output_size\" contains %lld; expected 1 to %d", (long long)out, MAX_SIDE);
    if (module_failed(module))
        return t;
    double step = factor > 0 ? 1 / factor : (double)in / (double)out;
    int weight = plan_interpolation_weight(module->builder, in, out, step, aligned);
    return tensor_mapped(module, t, dim, weight, out);
}

static void build_upsample_bilinear(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = tensor_as_floats(module, tensor_as_value(module, node_tensor(node, "input")));
    int64_t sizes[2];
    double factors[2] = {0, 0};
    bool aligned = node_bool(node, "align_corners", false);
    const json_t *scales = json_object_get(node->json, "scale_factors");
    int count = node_integers(node, "output_size", sizes, 2);
    if (node_has(node, "scale_factors"))
        for (size_t i = 0; i < 2 && i < json_array_size(scales); i++)
            factors[i] = json_number_value(json_array_get(scales, i));
    if (module_failed(module))
        return;
    if (t.rank != 4)
        module_fail(module, "the input has %d dimensions; expected 4", t.rank);
    else if (count != 2)
        module_fail(module, "argument \"output_size\": expected two integers, found %d", count);
    if (module_failed(module))
        return;
    t = interpolated(module, t, 3, sizes[1], factors[1], aligned);
    t = interpolated(module, t, 2, sizes[0], factors[0], aligned);
    node_give(node, t);
}

const struct module_operation module_resolution[] = {
    {"pixel_shuffle", build_pixel_shuffle, 0},           {"pixel_unshuffle", build_pixel_shuffle, 1},
    {"upsample_nearest1d", build_upsample_nearest, 1},   {"upsample_nearest2d", build_upsample_nearest, 2},
    {"upsample_bilinear2d", build_upsample_bilinear, 0}, {NULL, NULL, 0},
};
