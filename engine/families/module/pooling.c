/* pooling: reductions over windows of the last one or two dimensions. */
#include "engine/families/module/tensor.h"

#include <math.h>

struct tensor tensor_windows(struct module *module, struct tensor x, int dim, int64_t size, int64_t stride,
                             int64_t dilation)
{
    struct plan_builder *builder = module->builder;
    int n = x.dims[dim].size, count = plan_size_subtract(builder, n, module_size(module, dilation * (size - 1) + 1));
    count = plan_size_divide(builder, count, module_size(module, stride));
    count = plan_size_add(builder, count, module->one);
    plan_limit_size(builder,
                    (struct plan_size_limit){
                        .size = count, .least = 1, .most = INT32_MAX, .multiple = 1, .what = "the number of windows"});
    x = tensor_unsqueeze(module, x, dim + 1);
    if (module_failed(module))
        return x;
    x.dims[dim + 1].size = module_size(module, size);
    x.dims[dim + 1].stride = module_product(module, x.dims[dim].stride, module_size(module, dilation));
    x.dims[dim].size = count;
    x.dims[dim].stride = module_product(module, x.dims[dim].stride, module_size(module, stride));
    return x;
}

#define MAX_WINDOWED 16384 /* limit for the elements, and for the windows, of adaptive pooling to several windows */

struct pool_windows {
    int dimensions; /* 1 or 2 */
    int64_t size[2], stride[2], dilation[2], padding[2];
    int64_t more[2]; /* padding only at the end. An average never counts it */
};

/* Reads a number for each of the last dimensions. The argument is a list, or one number for all dimensions. */
static void read_each(struct node *node, const char *name, int dimensions, int64_t fallback, int64_t *numbers)
{
    int count = node_integers(node, name, numbers, 2);
    for (int i = count; i < dimensions; i++)
        numbers[i] = count ? numbers[0] : fallback;
    for (int i = 0; i < dimensions; i++)
        if (numbers[i] < 0)
            module_fail(node->module, "argument \"%s\" is %lld; expected at least 0", name, (long long)numbers[i]);
}

/* The padding that ceil_mode adds at the end. With ceil_mode, the last window may reach beyond the padding, if it
 * begins before the padding at the end. */
static int64_t ceiling_padding(struct module *module, const struct pool_windows *pooling, int size, int i)
{
    int64_t extent = pooling->dilation[i] * (pooling->size[i] - 1) + 1, stride = pooling->stride[i];
    int64_t padding = pooling->padding[i], n;
    if (!plan_size_is_constant(module->builder->plan, size, &n)) {
        if (stride > extent - padding)
            module_fail(
                module,
                "ceil_mode over a free size is supported only if the stride is at most the window minus its padding");
        return stride - 1;
    }
    int64_t room = n + 2 * padding - extent, windows = (room < 0 ? 0 : (room + stride - 1) / stride) + 1;
    if ((windows - 1) * stride >= n + padding)
        windows--;
    int64_t lacking = (windows - 1) * stride - room;
    return lacking > 0 ? lacking : 0;
}

static bool read_pooling(struct node *node, const struct tensor *x, struct pool_windows *pooling)
{
    struct module *module = node->module;
    read_each(node, "kernel_size", pooling->dimensions, 1, pooling->size);
    read_each(node, "stride", pooling->dimensions, 0, pooling->stride);
    read_each(node, "padding", pooling->dimensions, 0, pooling->padding);
    read_each(node, "dilation", pooling->dimensions, 1, pooling->dilation);
    bool ceiling = node_bool(node, "ceil_mode", false);
    if (!module_failed(module) && x->rank < 1 + pooling->dimensions)
        module_fail(module, "the input has %d dimensions; expected at least %d", x->rank, 1 + pooling->dimensions);
    for (int i = 0; i < pooling->dimensions && !module_failed(module); i++) {
        pooling->stride[i] = pooling->stride[i] ? pooling->stride[i] : pooling->size[i];
        if (pooling->size[i] < 1)
            module_fail(module, "argument \"kernel_size\" is %lld; expected at least 1", (long long)pooling->size[i]);
        else if (pooling->dilation[i] < 1)
            module_fail(module, "argument \"dilation\" is %lld; expected at least 1", (long long)pooling->dilation[i]);
        else if (pooling->padding[i] > pooling->size[i] / 2)
            module_fail(module, "argument \"padding\" is %lld; expected at most half of kernel_size %lld",
                        (long long)pooling->padding[i], (long long)pooling->size[i]);
        else if (ceiling)
            pooling->more[i] = ceiling_padding(module, pooling, x->dims[x->rank - pooling->dimensions + i].size, i);
    }
    return !module_failed(module);
}

/* Pads the last dimensions. Added elements are `number` on both sides, and `more` in the additional padding at the
 * end. */
static struct tensor padded(struct module *module, struct tensor x, const struct pool_windows *pooling, double number,
                            double more)
{
    for (int i = 0; i < pooling->dimensions; i++) {
        int dim = x.rank - pooling->dimensions + i;
        x = tensor_padded(module, x, dim, pooling->padding[i], pooling->padding[i], "constant", number);
        x = tensor_padded(module, x, dim, 0, pooling->more[i], "constant", more);
    }
    return x;
}

static struct tensor pooled(struct module *module, struct tensor x, const struct pool_windows *pooling,
                            enum plan_reduction reduction)
{
    int dims[2], first = x.rank - pooling->dimensions;
    x = tensor_as_floats(module, tensor_as_value(module, x));
    for (int i = 0; i < pooling->dimensions && !module_failed(module); i++) {
        dims[i] = first + 2 * i + 1;
        x = tensor_windows(module, x, first + 2 * i, pooling->size[i], pooling->stride[i], pooling->dilation[i]);
    }
    return module_failed(module) ? x : tensor_reduced(module, reduction, x, dims, pooling->dimensions, false, 0);
}

static void build_max_pool(struct node *node, int dimensions)
{
    struct module *module = node->module;
    struct tensor x = node_tensor(node, node_has(node, "self") ? "self" : "input");
    struct pool_windows pooling = {.dimensions = dimensions};
    if (!read_pooling(node, &x, &pooling))
        return;
    x = padded(module, tensor_as_floats(module, x), &pooling, -INFINITY, -INFINITY);
    node_give(node, pooled(module, x, &pooling, REDUCTION_MAXIMUM));
}

/* The number of elements of each window that an average counts. */
static struct tensor window_counts(struct module *module, const struct tensor *x, const struct pool_windows *pooling,
                                   bool counts_padding)
{
    int sizes[2];
    for (int i = 0; i < pooling->dimensions; i++)
        sizes[i] = x->dims[x->rank - pooling->dimensions + i].size;
    struct tensor ones = tensor_filled(module, 1, pooling->dimensions, sizes);
    return pooled(module, padded(module, ones, pooling, counts_padding, 0), pooling, REDUCTION_SUM);
}

static void build_avg_pool(struct node *node, int dimensions)
{
    struct module *module = node->module;
    struct tensor x = node_tensor(node, node_has(node, "self") ? "self" : "input");
    struct pool_windows pooling = {.dimensions = dimensions};
    bool counts_padding = node_bool(node, "count_include_pad", true), plain = true;
    int64_t divisor = node_integer(node, "divisor_override", 0);
    if (!read_pooling(node, &x, &pooling))
        return;
    for (int i = 0; i < dimensions; i++) {
        if (x.dims[x.rank - dimensions + i].batched)
            module_fail(module, "windows over the batch dimension are not supported");
        plain &= pooling.more[i] == 0 && (pooling.padding[i] == 0 || counts_padding);
    }
    x = tensor_as_floats(module, x);
    struct tensor filled = padded(module, x, &pooling, 0, 0);
    plain &= divisor == 0;
    struct tensor y = pooled(module, filled, &pooling, plain ? REDUCTION_MEAN : REDUCTION_SUM);
    if (divisor != 0)
        y = tensor_combine_number(module, FUNCTION_MULTIPLY, y, 1 / (double)divisor, false);
    else if (!plain)
        y = tensor_combine(module, FUNCTION_DIVIDE, y, window_counts(module, &x, &pooling, counts_padding));
    node_give(node, y);
}

/* Reduces a dimension to `out` windows. If `out` divides the size of the dimension, all windows have the same size.
 * Otherwise their sizes differ by at most one, and windows may overlap. */
static struct tensor pooled_to(struct module *module, struct tensor x, int dim, int64_t out,
                               enum plan_reduction reduction)
{
    int64_t in;
    int inside = dim + 1;
    if (module_failed(module))
        return x;
    if (out == 1)
        return tensor_reduced(module, reduction, x, &dim, 1, true, 0);
    in = module_constant(module, x.dims[dim].size, "the size of a pooled dimension");
    if (out < 1 || out > MAX_WINDOWED)
        module_fail(module, "argument \"output_size\" is %lld; expected 1 to %d", (long long)out, MAX_WINDOWED);
    else if (in > MAX_WINDOWED)
        module_fail(module, "dimension %d of the input has size %lld; adaptive pooling supports at most %d", dim,
                    (long long)in, MAX_WINDOWED);
    else if (in % out != 0 && reduction != REDUCTION_MEAN)
        module_fail(module, "a maximum of %lld elements in %lld windows is not supported; expected a divisor of %lld",
                    (long long)in, (long long)out, (long long)in);
    if (module_failed(module))
        return x;
    x = tensor_as_floats(module, tensor_as_value(module, x));
    if (in % out != 0)
        return tensor_mapped(module, x, dim, plan_windows_weight(module->builder, in, out), out);
    x = tensor_windows(module, x, dim, in / out, in / out, 1);
    return module_failed(module) ? x : tensor_reduced(module, reduction, x, &inside, 1, false, 0);
}

static void build_adaptive(struct node *node, int dimensions, enum plan_reduction reduction)
{
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "self");
    int64_t made[2];
    int dims[2], whole = 0;
    read_each(node, "output_size", dimensions, 1, made);
    if (module_failed(module) || x.rank < 1 + dimensions) {
        module_fail(module, "the input has %d dimensions; expected at least %d", x.rank, 1 + dimensions);
        return;
    }
    for (int i = 0; i < dimensions; i++) {
        dims[i] = x.rank - dimensions + i;
        whole += made[i] == 1;
    }
    if (whole == dimensions)
        x = tensor_reduced(module, reduction, x, dims, dimensions, true, 0);
    for (int i = 0; i < dimensions && whole < dimensions; i++)
        x = pooled_to(module, x, dims[i], made[i], reduction);
    const json_t *to = json_object_get(node->json, "to");
    if (json_array_size(to) > 1 && !json_is_null(json_array_get(to, 1)))
        module_fail(module, "the indices of the largest elements are not supported as a result");
    else if (!module_failed(module))
        node_give_one(node, 0, x);
}

static void build_adaptive_average(struct node *node, int dimensions)
{
    build_adaptive(node, dimensions, REDUCTION_MEAN);
}

static void build_adaptive_maximum(struct node *node, int dimensions)
{
    build_adaptive(node, dimensions, REDUCTION_MAXIMUM);
}

const struct module_operation module_pooling[] = {
    {"max_pool1d", build_max_pool, 1},
    {"max_pool2d", build_max_pool, 2},
    {"avg_pool1d", build_avg_pool, 1},
    {"avg_pool2d", build_avg_pool, 2},
    {"adaptive_avg_pool1d", build_adaptive_average, 1},
    {"adaptive_avg_pool2d", build_adaptive_average, 2},
    {"adaptive_max_pool1d", build_adaptive_maximum, 1},
    {"adaptive_max_pool2d", build_adaptive_maximum, 2},
    {NULL, NULL, 0},
};
