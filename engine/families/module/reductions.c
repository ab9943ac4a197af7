/* reductions: operations that reduce dimensions, and the short-time Fourier transform. */
#include "engine/families/module/tensor.h"

#include <math.h>
#include <string.h>

/* The space that visits each element of x once. The dimensions that remain come first. Along the reduced dimensions, y
 * has strides of 0, unless keeps_stride is set. */
static struct plan_space reduction_space(struct module *module, const struct tensor *x, const bool *reduced,
                                         const struct tensor *y, bool keeps_stride)
{
    struct plan_space space = {.x_first = x->first, .z_first = module->zero, .y_first = module->zero};
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < x->rank; d++)
            if (reduced[d] == pass)
                space.dimensions[space.rank++] =
                    space_dimension(x->dims[d].size, tensor_stride(module, x, d), module->zero,
                                    pass && !keeps_stride ? module->zero : tensor_stride(module, y, d));
    return space;
}

struct tensor tensor_reduced(struct module *module, enum plan_reduction reduction, struct tensor t, const int *dims,
                             int count, bool keep, double parameter)
{
    bool reduced[MODULE_RANK] = {false};
    struct tensor x = tensor_as_floats(module, tensor_as_value(module, t));
    struct tensor_dimension shape[MODULE_RANK];
    for (int i = 0; i < count && !module_failed(module); i++) {
        reduced[dims[i]] = true;
        if (x.dims[dims[i]].batched)
            module_fail(module, "a reduction over the batch dimension is not supported");
    }
    if (module_failed(module))
        return t;
    memcpy(shape, x.dims, sizeof shape);
    for (int d = 0; d < x.rank; d++)
        if (reduced[d])
            shape[d].size = module->one;
    struct tensor y = tensor_new(module, x.rank, shape);
    struct plan_space space = reduction_space(module, &x, reduced, &y, false);
    y.value = plan_reduce(module->builder, reduction, x.value, plan_add_space(module->builder, &space), count,
                          (float)parameter, tensor_target(module, &y));
    for (int d = x.rank - 1; d >= 0 && !keep; d--)
        if (reduced[d])
            y = tensor_squeeze(module, y, d);
    return y;
}

/* Reads the dimensions under "dim", which must differ. If the node has no "dim", the result is all dimensions. Reducing
 * them fails later if one of them is the batch. */
static int read_dims(struct node *node, const char *name, const struct tensor *t, int *dims)
{
    int64_t numbers[MODULE_RANK];
    int count = node_integers(node, name, numbers, MODULE_RANK);
    for (int i = 0; i < count; i++) {
        int64_t dim = numbers[i] < 0 ? numbers[i] + t->rank : numbers[i];
        if (dim < 0 || dim >= t->rank)
            return module_fail(node->module, "argument \"%s\" is %lld; the tensor has %d dimensions", name,
                               (long long)numbers[i], t->rank),
                   0;
        for (int j = 0; j < i; j++)
            if (dims[j] == dim)
                return module_fail(node->module, "argument \"%s\" has dimension %lld twice", name, (long long)dim), 0;
        dims[i] = (int)dim;
    }
    for (int d = 0; d < t->rank && count == 0; d++)
        dims[d] = d;
    return count ? count : t->rank;
}

static void build_reduction(struct node *node, int reduction)
{
    struct module *module = node->module;
    struct tensor t = node_tensor(node, node_has(node, "self") ? "self" : "input");
    int dims[MODULE_RANK], count = read_dims(node, "dim", &t, dims);
    bool keep = node_bool(node, "keepdim", false);
    node_has(node, "dtype");
    if (!module_failed(module))
        node_give(node, tensor_reduced(module, (enum plan_reduction)reduction, t, dims, count, keep, 0));
}

/* any and all: elements other than 0 become 1. The result of any is the maximum, and the result of all is the
 * minimum. */
static void build_test(struct node *node, int reduction)
{
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int dims[MODULE_RANK], count = read_dims(node, "dim", &t, dims);
    bool keep = node_bool(node, "keepdim", false);
    if (module_failed(module))
        return;
    t = tensor_combine_number(module, FUNCTION_NOT_EQUAL, t, 0, false);
    t = tensor_reduced(module, (enum plan_reduction)reduction, t, dims, count, keep, 0);
    t.boolean = true;
    node_give(node, t);
}

/* max and min along a dimension. Only the values are computed, not the indices, which are PyTorch's second result. */
static void build_extreme(struct node *node, int reduction)
{
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int dims[MODULE_RANK], count = read_dims(node, "dim", &t, dims);
    bool keep = node_bool(node, "keepdim", false);
    const json_t *to = json_object_get(node->json, "to");
    if (module_failed(module))
        return;
    if (json_array_size(to) > 1 && !json_is_null(json_array_get(to, 1)))
        module_fail(module, "the indices are not supported as a second result; use argmax%s",
                    reduction == REDUCTION_MINIMUM ? " of the negated input" : "");
    else
        node_give_one(node, 0, tensor_reduced(module, (enum plan_reduction)reduction, t, dims, count, keep, 0));
}

/* var and std: `correction`, or `unbiased` in the older form. */
static void build_variance(struct node *node, int reduction)
{
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int dims[MODULE_RANK], count = read_dims(node, "dim", &t, dims);
    bool keep = node_bool(node, "keepdim", false), unbiased = node_bool(node, "unbiased", true);
    double correction = node_number(node, "correction", unbiased ? 1 : 0);
    if (!module_failed(module))
        node_give(node, tensor_reduced(module, (enum plan_reduction)reduction, t, dims, count, keep, correction));
}

static void build_norm(struct node *node, int variant)
{
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    double order = node_number(node, variant ? "p" : "ord", 2);
    int dims[MODULE_RANK], count = read_dims(node, "dim", &t, dims);
    bool keep = node_bool(node, "keepdim", false);
    node_has(node, "dtype");
    if (order != 1 && order != 2 && order != INFINITY)
        module_fail(module, "the order of the norm is %g; expected 1, 2 or inf", order);
    if (!module_failed(module))
        node_give(node, tensor_reduced(module, REDUCTION_NORM, t, dims, count, keep, order));
}

static void build_argmax(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    if (!node_has(node, "dim"))
        module_fail(module, "argmax without a dimension would mix the items of a batch");
    int dim = node_dim(node, "dim", t.rank, -1);
    bool keep = node_bool(node, "keepdim", false);
    if (!module_failed(module))
        node_give(node, tensor_reduced(module, REDUCTION_ARGMAX, t, &dim, 1, keep, 0));
}

static void build_cumsum(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int dim = node_dim(node, "dim", t.rank, NODE_REQUIRED);
    node_has(node, "dtype");
    if (module_failed(module))
        return;
    struct tensor x = tensor_as_floats(module, tensor_as_value(module, t));
    bool reduced[MODULE_RANK] = {false};
    reduced[dim] = true;
    if (module_failed(module) || x.dims[dim].batched) {
        module_fail(module, "a sum over the batch dimension is not supported");
        return;
    }
    struct tensor y = tensor_new(module, x.rank, x.dims);
    struct plan_space space = reduction_space(module, &x, reduced, &y, true);
    y.value = plan_reduce(module->builder, REDUCTION_CUMULATE, x.value, plan_add_space(module->builder, &space), 1, 0,
                          tensor_target(module, &y));
    node_give(node, y);
}

/* ---- The short-time Fourier transform: frames times a matrix of cosines and sines ---- */

#define MAX_TRANSFORM 8192 /* limit for the samples n of a frame. The matrix has about n * n elements */

static void build_stft(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "self"), window = {.value = PLAN_NONE, .weight = PLAN_NONE};
    int64_t n = node_integer(node, "n_fft", NODE_REQUIRED), hop, length;
    hop = node_integer(node, "hop_length", n / 4);
    length = node_integer(node, "win_length", n);
    bool has_window = node_has(node, "window");
    if (has_window)
        window = node_tensor(node, "window");
    bool center = node_bool(node, "center", false), normalized = node_bool(node, "normalized", false);
    bool onesided = node_bool(node, "onesided", true);
    const char *mode = node_string(node, "pad_mode", "reflect");
    if (node_bool(node, "return_complex", false))
        module_fail(module, "complex results are not supported");
    if (node_bool(node, "align_to_window", false))
        module_fail(module, "align_to_window is not supported");
    if (module_failed(module))
        return;
    if (n < 1 || n > MAX_TRANSFORM) {
        module_fail(module, "n_fft is %lld; expected 1 to %d", (long long)n, MAX_TRANSFORM);
        return;
    }
    if (hop < 1 || length < 1 || length > n) {
        module_fail(module,
                    "hop_length is %lld and win_length %lld; expected at least 1, and a win_length up to n_fft %lld",
                    (long long)hop, (long long)length, (long long)n);
        return;
    }
    if (x.rank < 1 || x.rank > 2) {
        module_fail(module, "the input has %d dimensions; expected 1 or 2", x.rank);
        return;
    }
    int last = x.rank - 1;
    x = tensor_as_floats(module, tensor_as_value(module, x));
    if (center)
        x = tensor_padded(module, x, last, n / 2, n / 2, mode, 0);
    int taper = has_window ? tensor_vector(module, window, length) : PLAN_NONE;
    int64_t bins = onesided ? n / 2 + 1 : n;
    int matrix = plan_fourier_weight(module->builder, n, length, bins, taper, normalized ? 1 / sqrt((double)n) : 1);
    struct tensor frames = tensor_windows(module, x, last, n, hop, 1); /* (…, frames, n) */
    int value = tensor_rows(module, frames, 1, false);
    if (module_failed(module))
        return;
    value = plan_linear(module->builder, value, matrix, PLAN_NONE); /* (…, frames, bins * 2) */
    struct tensor y = tensor_of_rows(module, value, frames, 1, 2 * bins);
    y.dims[y.rank - 1] = (struct tensor_dimension){.size = module_size(module, bins), .stride = module_size(module, 2)};
    y.dims[y.rank++] = (struct tensor_dimension){.size = module_size(module, 2), .stride = module->one};
    int order[MODULE_RANK] = {0};
    for (int d = 0; d < y.rank; d++)
        order[d] = d == last ? last + 1 : d == last + 1 ? last : d;
    node_give(node, tensor_permute(module, y, order)); /* (…, bins, frames, 2) */
}

const struct module_operation module_reductions[] = {
    {"mean", build_reduction, REDUCTION_MEAN},
    {"sum", build_reduction, REDUCTION_SUM},
    {"amax", build_reduction, REDUCTION_MAXIMUM},
    {"amin", build_reduction, REDUCTION_MINIMUM},
    {"prod", build_reduction, REDUCTION_PRODUCT},
    {"max", build_extreme, REDUCTION_MAXIMUM},
    {"min", build_extreme, REDUCTION_MINIMUM},
    {"any", build_test, REDUCTION_MAXIMUM},
    {"all", build_test, REDUCTION_MINIMUM},
    {"var", build_variance, REDUCTION_VARIANCE},
    {"std", build_variance, REDUCTION_DEVIATION},
    {"linalg_vector_norm", build_norm, 0},
    {"norm", build_norm, 1},
    {"argmax", build_argmax, 0},
    {"cumsum", build_cumsum, 0},
    {"stft", build_stft, 0},
    {NULL, NULL, 0},
};
