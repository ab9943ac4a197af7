/* layers: operations with weights, softmax and attention. */
#include "engine/families/module/tensor.h"
#include "engine/plan/axes.h"

#include <math.h>
#include <string.h>

static const struct tensor no_tensor = {.value = PLAN_NONE, .weight = PLAN_NONE};

static struct tensor optional_tensor(struct node *node, const char *name)
{
    return node_has(node, name) ? node_tensor(node, name) : no_tensor;
}

static bool is_there(const struct tensor *t)
{
    return t->value != PLAN_NONE || t->weight != PLAN_NONE;
}

/* The elements of a weight as a vector. PLAN_NONE if there is no weight. */
static int optional_vector(struct module *module, const struct tensor *t, int64_t count)
{
    return is_there(t) ? tensor_vector(module, *t, count) : PLAN_NONE;
}

/* The tensor as a vector, or a vector of `count` equal elements if there is no tensor. */
static int vector_or(struct module *module, const struct tensor *t, int64_t count, float number)
{
    return is_there(t) ? tensor_vector(module, *t, count) : plan_number_weight(module->builder, 1, count, number, 0);
}

/* ---- Embeddings ---- */

/* If the ids are 0, 1, 2 …, the result is a view of the table's first rows. */
static struct tensor first_rows(struct module *module, struct tensor indices, struct tensor table)
{
    struct tensor made = {.value = PLAN_NONE, .weight = table.weight, .first = table.first, .rank = indices.rank + 1};
    memcpy(made.dims, indices.dims, sizeof made.dims);
    made.dims[indices.rank - 1].stride = table.dims[0].stride;
    made.dims[indices.rank] = table.dims[1];
    (void)module;
    return made;
}

static void build_embedding(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct plan_builder *builder = module->builder;
    struct tensor table = node_tensor(node, "weight"), indices = node_tensor(node, "indices");
    node_integer(node, "padding_idx", -1), node_bool(node, "scale_grad_by_freq", false),
        node_bool(node, "sparse", false);
    if (module_failed(module))
        return;
    if (table.rank != 2) {
        module_fail(module, "argument \"weight\" must be a matrix");
        return;
    }
    if (indices.rank == MODULE_RANK) {
        module_fail(module, "argument \"indices\" has %d dimensions; expected fewer", indices.rank);
        return;
    }
    int64_t rows = module_constant(module, table.dims[0].size, "the number of rows of the table");
    int64_t columns = module_constant(module, table.dims[1].size, "the number of columns of the table");
    if (indices.counts && indices.rank > 0) {
        int left = plan_size_subtract(builder, table.dims[0].size, indices.dims[indices.rank - 1].size);
        plan_limit_size(builder, (struct plan_size_limit){
                                     .size = left,
                                     .least = 0,
                                     .most = INT64_MAX,
                                     .multiple = 1,
                                     .what = "the number of positions in the table minus the length of the sequence"});
        node_give(node, first_rows(module, indices, table));
        return;
    }
    indices = tensor_as_value(module, indices);
    int value = tensor_rows(module, indices, 0, false);
    if (module_failed(module))
        return;
    if (!plan_value_at(builder, value)->ids)
        value = plan_activate_with(builder, value, (struct plan_activation){.kind = ACTIVATION_NONE}, true);
    for (int i = 0; i < builder->plan->n_inputs; i++) {
        struct plan_input *input = &builder->plan->inputs[i];
        if (input->value == indices.value && input->input.kind == INPUT_IDS && rows < input->input.vocabulary)
            input->input.vocabulary = rows;
    }
    value = plan_embed(builder, value, tensor_weight(module, table, rows, columns));
    if (!module_failed(module))
        node_give(node, tensor_of_rows(module, value, indices, 0, columns));
}

/* ---- Linear ---- */

static void build_linear(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "input"), weight = node_tensor(node, "weight"),
                  bias = optional_tensor(node, "bias");
    if (module_failed(module) || weight.rank != 2) {
        module_fail(module, "argument \"weight\" must be a matrix");
        return;
    }
    if (x.rank < 1) {
        module_fail(module, "argument \"input\" is a single number; expected a tensor with dimensions");
        return;
    }
    int64_t out, in;
    const struct plan *plan = module->builder->plan;
    if (x.dims[x.rank - 1].size != weight.dims[1].size) {
        module_fail(module, "the number of columns of the weight does not match the last size of the input");
        return;
    }
    if (weight.value != PLAN_NONE || !plan_size_is_constant(plan, weight.dims[0].size, &out) ||
        !plan_size_is_constant(plan, weight.dims[1].size, &in)) {
        const int order[] = {1, 0};
        struct tensor y = tensor_multiply(module, x, tensor_permute(module, weight, order), 1);
        node_give(node, is_there(&bias) ? tensor_combine(module, FUNCTION_ADD, y, bias) : y);
        return;
    }
    int value = tensor_rows(module, tensor_as_floats(module, tensor_as_value(module, x)), 1, false);
    value = module_failed(module) ? PLAN_NONE
                                  : plan_linear(module->builder, value, tensor_weight(module, weight, out, in),
                                                optional_vector(module, &bias, out));
    if (!module_failed(module))
        node_give(node, tensor_of_rows(module, value, x, 1, out));
}

/* ---- Norms ---- */

/* (x - mean) / sqrt(variance + epsilon) * gain + bias, over the last `count` dimensions, some of which have a free
 * size. */
static struct tensor normalized_in_steps(struct module *module, struct tensor x, int count, double epsilon,
                                         const struct tensor *gain, const struct tensor *bias)
{
    int dims[MODULE_RANK];
    for (int i = 0; i < count; i++)
        dims[i] = x.rank - count + i;
    struct tensor mean = tensor_reduced(module, REDUCTION_MEAN, x, dims, count, true, 0);
    struct tensor spread = tensor_reduced(module, REDUCTION_VARIANCE, x, dims, count, true, 0);
    spread = tensor_activate(module, spread,
                             (struct plan_activation){.kind = ACTIVATION_AFFINE, .a = 1, .b = (float)epsilon});
    spread = tensor_activate(module, spread, (struct plan_activation){.kind = ACTIVATION_INVERSE_ROOT});
    x = tensor_combine(module, FUNCTION_SUBTRACT, x, mean);
    x = tensor_combine(module, FUNCTION_MULTIPLY, x, spread);
    if (is_there(gain))
        x = tensor_combine(module, FUNCTION_MULTIPLY, x, *gain);
    return is_there(bias) ? tensor_combine(module, FUNCTION_ADD, x, *bias) : x;
}

/* Checks that normalized_shape contains the sizes of the last dimensions, which are not the batch. */
static void check_normalized(struct module *module, const struct tensor *x, const int *sizes, int count)
{
    char found[80], expected[80];
    if (!module_failed(module) && count > x->rank)
        module_fail(module, "argument \"normalized_shape\" has %d sizes, but the input has %d dimensions", count,
                    x->rank);
    for (int i = 0; i < count && !module_failed(module); i++) {
        const struct plan *plan = module->builder->plan;
        int d = x->rank - count + i;
        if (x->dims[d].batched)
            module_fail(module, "a norm over the batch dimension is not supported");
        else if (x->dims[d].size != sizes[i])
            module_fail(module, "normalized_shape[%d] is %s; expected %s, the size of dimension %d of the input", i,
                        plan_size_text(plan, sizes[i], found, sizeof found),
                        plan_size_text(plan, x->dims[d].size, expected, sizeof expected), d);
    }
}

/* Norms over the last dimensions. */
static void build_layer_norm(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "input"), gain = optional_tensor(node, "weight"),
                  bias = optional_tensor(node, "bias");
    int sizes[MODULE_RANK], count = node_sizes(node, "normalized_shape", sizes, MODULE_RANK);
    double epsilon = node_number(node, "eps", 1e-5);
    node_bool(node, "cudnn_enable", true);
    int64_t columns = 1, size;
    bool fixed = true;
    check_normalized(module, &x, sizes, count);
    for (int i = 0; i < count && !module_failed(module); i++) {
        if (!plan_size_is_constant(module->builder->plan, sizes[i], &size))
            fixed = false;
        else if (__builtin_mul_overflow(columns, size, &columns) || columns > INT32_MAX)
            module_fail(module, "normalized_shape has more than %d elements", INT32_MAX);
    }
    if (module_failed(module))
        return;
    if (!fixed) {
        node_give(node, normalized_in_steps(module, x, count, epsilon, &gain, &bias));
        return;
    }
    struct tensor floats = tensor_as_floats(module, x);
    int value = tensor_rows(module, floats, count, false);
    int weight = vector_or(module, &gain, columns, 1), shift = vector_or(module, &bias, columns, 0);
    if (module_failed(module))
        return;
    value = plan_layer_norm(module->builder, value, weight, shift, (float)epsilon);
    struct tensor y = tensor_new(module, x.rank, x.dims);
    y.value = value;
    node_give(node, y);
}

static void build_rms_norm(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "input"), gain = optional_tensor(node, "weight");
    int sizes[MODULE_RANK], count = node_sizes(node, "normalized_shape", sizes, MODULE_RANK);
    double epsilon = node_number(node, "eps", 1.1920928955078125e-07);
    if (!module_failed(module) && count != 1)
        module_fail(module, "rms_norm is supported only over the last dimension of a tensor");
    check_normalized(module, &x, sizes, count);
    if (module_failed(module))
        return;
    struct tensor mean = tensor_activate(module, x, (struct plan_activation){.kind = ACTIVATION_SQUARE});
    const int last[] = {x.rank - 1};
    mean = tensor_reduced(module, REDUCTION_MEAN, mean, last, 1, true, 0);
    mean =
        tensor_activate(module, mean, (struct plan_activation){.kind = ACTIVATION_AFFINE, .a = 1, .b = (float)epsilon});
    mean = tensor_activate(module, mean, (struct plan_activation){.kind = ACTIVATION_INVERSE_ROOT});
    x = tensor_combine(module, FUNCTION_MULTIPLY, x, mean);
    node_give(node, is_there(&gain) ? tensor_combine(module, FUNCTION_MULTIPLY, x, gain) : x);
}

/* A vector as a tensor with a shape that fits the channels of x, which are dimension 1. */
static struct tensor beside_channels(struct module *module, int vector, const struct tensor *x, int64_t channels)
{
    struct tensor t = {.value = PLAN_NONE, .weight = vector, .first = module->zero, .rank = x->rank};
    for (int d = 0; d < x->rank; d++)
        t.dims[d] = (struct tensor_dimension){.size = module->one, .stride = module->zero};
    t.dims[1] = (struct tensor_dimension){.size = module_size(module, channels), .stride = module->one};
    return t;
}

static bool take_channels(struct module *module, const struct tensor *x, int64_t *channels)
{
    if (!module_failed(module) && x->rank < 2)
        module_fail(module, "the input has no dimension 1, for channels");
    *channels = module_failed(module) ? 1 : module_constant(module, x->dims[1].size, "the number of channels");
    return !module_failed(module);
}

/* With running statistics: x * scale + shift for each channel. */
static void build_batch_norm(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "input"), gain = optional_tensor(node, "weight"),
                  bias = optional_tensor(node, "bias"), mean = optional_tensor(node, "running_mean"),
                  variance = optional_tensor(node, "running_var");
    double epsilon = node_number(node, "eps", 1e-5);
    node_number(node, "momentum", 0.1), node_bool(node, "cudnn_enabled", true);
    int64_t channels;
    if (node_bool(node, "training", false) || !is_there(&mean) || !is_there(&variance))
        module_fail(module, "batch_norm without running statistics, or in training, would mix the items of a batch");
    if (!take_channels(module, &x, &channels))
        return;
    int shift, scale = plan_batch_norm(module->builder, vector_or(module, &gain, channels, 1),
                                       vector_or(module, &bias, channels, 0), tensor_vector(module, mean, channels),
                                       tensor_vector(module, variance, channels), epsilon, &shift);
    x = tensor_combine(module, FUNCTION_MULTIPLY, tensor_as_floats(module, x),
                       beside_channels(module, scale, &x, channels));
    node_give(node, tensor_combine(module, FUNCTION_ADD, x, beside_channels(module, shift, &x, channels)));
}

/* The tensor with its channels moved from dimension 1 to the last dimension. */
static struct tensor channels_last(struct module *module, struct tensor t)
{
    int order[MODULE_RANK] = {0};
    for (int d = 1; d < t.rank - 1; d++)
        order[d] = d + 1;
    order[t.rank - 1] = 1;
    return tensor_permute(module, t, order);
}

static struct tensor channels_second(struct module *module, struct tensor t)
{
    int order[MODULE_RANK] = {0, t.rank - 1};
    for (int d = 2; d < t.rank; d++)
        order[d] = d - 1;
    return tensor_permute(module, t, order);
}

/* group_norm, and instance_norm (variant 1), which has a group for each channel. */
static void build_group_norm(struct node *node, int variant)
{
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "input"), gain = optional_tensor(node, "weight"),
                  bias = optional_tensor(node, "bias");
    double epsilon = node_number(node, "eps", 1e-5);
    int64_t channels, groups = variant ? 0 : node_integer(node, "num_groups", NODE_REQUIRED);
    if (variant && (node_has(node, "running_mean") || !node_bool(node, "use_input_stats", true)))
        module_fail(module, "instance_norm with running statistics is not supported");
    node_has(node, "running_var"), node_number(node, "momentum", 0.1);
    node_bool(node, "cudnn_enabled", true), node_bool(node, "cudnn_enable", true);
    if (!take_channels(module, &x, &channels))
        return;
    groups = variant ? channels : groups;
    if (!x.dims[0].batched) {
        module_fail(module, "dimension 0 of the input must be the batch");
        return;
    }
    if (groups < 1 || channels % groups != 0) {
        module_fail(module, "%lld channels cannot be divided into %lld groups", (long long)channels, (long long)groups);
        return;
    }
    struct tensor last = channels_last(module, tensor_as_floats(module, x));
    int value = tensor_rows(module, last, 1, true);
    value = plan_group_norm(module->builder, value, groups, optional_vector(module, &gain, channels),
                            optional_vector(module, &bias, channels), (float)epsilon);
    if (!module_failed(module))
        node_give(node, channels_second(module, tensor_of_rows(module, value, last, 1, channels)));
}

/* ---- Convolutions of images (batch, channels, height, width), and of sequences, which are images of height 1 ---- */

struct convolution_arguments {
    int dimensions; /* 1 or 2 */
    int64_t size[2], stride[2], dilation[2], before[2], after[2], groups, out, in;
};

/* Reads one number for both directions, or one for each. pair[0] is along the height. For a sequence it is
 * `fallback`. */
static void read_pair(struct node *node, const char *name, int dimensions, int64_t fallback, int64_t *pair, bool zero)
{
    int64_t numbers[2];
    int count = node_integers(node, name, numbers, 2);
    if (count > dimensions)
        module_fail(node->module, "argument \"%s\" has %d numbers; expected at most %d", name, count, dimensions);
    pair[0] = pair[1] = fallback;
    if (count > 0)
        pair[0] = pair[1] = numbers[0];
    if (count == 2)
        pair[1] = numbers[1];
    for (int i = 0; i < 2; i++)
        if (pair[i] < !zero)
            module_fail(node->module, "argument \"%s\" is %lld; expected at least %d", name, (long long)pair[i], !zero);
    if (dimensions == 1)
        pair[0] = fallback;
}

static void read_padding(struct node *node, struct convolution_arguments *c)
{
    const char *word = json_string_value(json_object_get(node->json, "padding"));
    if (!word) {
        read_pair(node, "padding", c->dimensions, 0, c->before, true);
        memcpy(c->after, c->before, sizeof c->after);
        return;
    }
    bool same = strcmp(node_string(node, "padding", "valid"), "same") == 0;
    for (int i = 0; i < 2; i++) { /* of an odd number of zeros, one more is added at the end */
        int64_t all = same ? c->dilation[i] * (c->size[i] - 1) : 0;
        c->before[i] = all / 2;
        c->after[i] = all - all / 2;
    }
}

/* Sets out, in and size of `c` to the sizes of the weight, in this order. */
static bool read_kernel(struct module *module, const struct tensor *weight, struct convolution_arguments *c)
{
    if (module_failed(module) || weight->rank != 2 + c->dimensions || weight->value != PLAN_NONE)
        return module_fail(module, "argument \"weight\" must be a tensor of the weights file with %d dimensions",
                           2 + c->dimensions),
               false;
    c->out = module_constant(module, weight->dims[0].size, "a kernel");
    c->in = module_constant(module, weight->dims[1].size, "a kernel");
    c->size[0] = c->dimensions == 2 ? module_constant(module, weight->dims[2].size, "a kernel") : 1;
    c->size[1] = module_constant(module, weight->dims[weight->rank - 1].size, "a kernel");
    return !module_failed(module);
}

/* The size of the result of a convolution along one direction. */
static int made_size(struct module *module, const struct convolution_arguments *c, int size, int i)
{
    int64_t reach = c->dilation[i] * (c->size[i] - 1);
    size = plan_size_add(module->builder, size, module_size(module, c->before[i] + c->after[i] - reach - 1));
    size = plan_size_divide(module->builder, size, module_size(module, c->stride[i]));
    size = plan_size_add(module->builder, size, module->one);
    plan_limit_size(
        module->builder,
        (struct plan_size_limit){
            .size = size, .least = 1, .most = INT32_MAX, .multiple = 1, .what = "the size of a convolution's result"});
    return size;
}

/* `last` is (batch, height, width, channels) or (batch, width, channels). The kernel is (out, size * in / groups). */
static struct tensor convolve(struct module *module, const struct convolution_arguments *c, struct tensor last,
                              int kernel, int bias)
{
    int rows = tensor_rows(module, last, 1, true), height = c->dimensions == 2 ? last.dims[1].size : module->one;
    int width = last.dims[c->dimensions].size;
    struct plan_convolution convolution = {
        .weight = kernel, .bias = bias, .scale = 1.0f, .groups = c->groups, .height = height, .width = width};
    memcpy(convolution.window.size, c->size, sizeof c->size);
    memcpy(convolution.window.stride, c->stride, sizeof c->stride);
    memcpy(convolution.window.dilation, c->dilation, sizeof c->dilation);
    memcpy(convolution.window.before, c->before, sizeof c->before);
    memcpy(convolution.window.after, c->after, sizeof c->after);
    convolution.made_height = c->dimensions == 2 ? made_size(module, c, height, 0) : module->one;
    convolution.made_width = made_size(module, c, width, 1);
    if (module_failed(module))
        return last;
    int value = plan_convolve_image(module->builder, rows, convolution);
    if (c->dimensions == 2)
        last.dims[1].size = convolution.made_height;
    last.dims[c->dimensions].size = convolution.made_width;
    return tensor_of_rows(module, value, last, 1, c->out);
}

static void build_convolution(struct node *node, int dimensions)
{
    struct module *module = node->module;
    struct convolution_arguments c = {.dimensions = dimensions};
    struct tensor x = node_tensor(node, "input"), weight = node_tensor(node, "weight"),
                  bias = optional_tensor(node, "bias");
    if (!read_kernel(module, &weight, &c))
        return;
    read_pair(node, "stride", dimensions, 1, c.stride, false);
    read_pair(node, "dilation", dimensions, 1, c.dilation, false);
    read_padding(node, &c);
    c.groups = node_integer(node, "groups", 1);
    int64_t channels;
    if (!take_channels(module, &x, &channels))
        return;
    if (x.rank != 2 + dimensions) {
        module_fail(module, "the input has %d dimensions; expected %d, which begin with batch and channels", x.rank,
                    2 + dimensions);
        return;
    }
    if (c.groups < 1 || channels % c.groups != 0 || c.out % c.groups != 0) {
        module_fail(module,
                    "groups is %lld; expected a divisor of the %lld channels of the input and of the %lld of the "
                    "result",
                    (long long)c.groups, (long long)channels, (long long)c.out);
        return;
    }
    if (c.in != channels / c.groups) {
        module_fail(module, "the kernel is for %lld channels in each of %lld groups, but the input has %lld channels",
                    (long long)c.in, (long long)c.groups, (long long)channels);
        return;
    }
    struct tensor ordered = channels_last(module, weight); /* (out, size…, in) */
    int kernel = tensor_weight(module, ordered, c.out, c.size[0] * c.size[1] * c.in);
    struct tensor last = channels_last(module, tensor_as_floats(module, x));
    node_give(node, channels_second(module, convolve(module, &c, last, kernel, optional_vector(module, &bias, c.out))));
}

/* Inserts zeros between the elements of a dimension, which then has (n - 1) * stride + 1 elements. */
static struct tensor spread(struct module *module, struct tensor x, int dim, int64_t stride)
{
    struct plan_builder *builder = module->builder;
    if (stride == 1 || module_failed(module))
        return x;
    /* Pads (n, 1) to (n, stride), and cuts off the zeros after the last element. */
    struct tensor apart = tensor_unsqueeze(module, x, dim + 1);
    apart = tensor_padded(module, apart, dim + 1, 0, stride - 1, "constant", 0);
    int sizes[MODULE_RANK], all = module_product(module, x.dims[dim].size, module_size(module, stride));
    for (int d = 0; d < x.rank; d++)
        sizes[d] = d == dim            ? all
                   : x.dims[d].batched ? module_product(module, module->batch, x.dims[d].size)
                                       : x.dims[d].size;
    struct tensor y = tensor_reshape(module, apart, x.rank, sizes);
    int length = plan_size_subtract(builder, all, module_size(module, stride - 1));
    return tensor_slice(module, y, dim, module->zero, length, 1);
}

/* (in, out / groups, size…) -> (out, size… * in / groups), with the elements of each direction in reverse order. */
static int mirrored_kernel(struct module *module, struct tensor weight, const struct convolution_arguments *c)
{
    struct plan_builder *builder = module->builder;
    int in = module_size(module, c->in), order[MODULE_RANK] = {0, 2}, rank = weight.rank + 1;
    for (int d = 2; d < weight.rank && !module_failed(module); d++) {
        int end = plan_size_subtract(builder, weight.dims[d].size, module->one);
        weight.first = plan_size_add(builder, weight.first, module_product(module, end, weight.dims[d].stride));
        weight.dims[d].stride = module_product(module, weight.dims[d].stride, module_size(module, -1));
    }
    weight = tensor_unsqueeze(module, weight, 0); /* (groups, in / groups, out / groups, size…) */
    if (module_failed(module))
        return PLAN_NONE;
    weight.dims[0] = (struct tensor_dimension){.size = module_size(module, c->groups),
                                               .stride = module_product(module, in, weight.dims[1].stride)};
    weight.dims[1].size = in;
    for (int d = 3; d < rank; d++)
        order[d - 1] = d;
    order[rank - 1] = 1;
    return tensor_weight(module, tensor_permute(module, weight, order), c->out, c->size[0] * c->size[1] * c->in);
}

/* A transposed convolution is a convolution of the spread input with the mirrored kernel. */
static void build_transposed(struct node *node, int dimensions)
{
    struct module *module = node->module;
    struct convolution_arguments c = {.dimensions = dimensions, .stride = {1, 1}, .groups = 1};
    struct tensor x = node_tensor(node, "input"), weight = node_tensor(node, "weight"),
                  bias = optional_tensor(node, "bias");
    int64_t stride[2], padding[2], more[2], channels;
    if (!read_kernel(module, &weight, &c))
        return;
    read_pair(node, "stride", dimensions, 1, stride, false);
    read_pair(node, "dilation", dimensions, 1, c.dilation, false);
    read_pair(node, "padding", dimensions, 0, padding, true);
    read_pair(node, "output_padding", dimensions, 0, more, true);
    c.groups = node_integer(node, "groups", 1);
    if (!take_channels(module, &x, &channels))
        return;
    if (x.rank != 2 + dimensions) {
        module_fail(module, "the input has %d dimensions; expected %d, which begin with batch and channels", x.rank,
                    2 + dimensions);
        return;
    }
    if (c.groups < 1 || channels % c.groups != 0) {
        module_fail(module, "groups is %lld; expected a divisor of the %lld channels of the input", (long long)c.groups,
                    (long long)channels);
        return;
    }
    if (c.out != channels) {
        module_fail(module, "the kernel is for %lld channels, but the input has %lld channels", (long long)c.out,
                    (long long)channels);
        return;
    }
    c.out = c.in * c.groups;
    c.in = channels / c.groups;
    struct tensor last = channels_last(module, tensor_as_floats(module, x));
    for (int i = 0; i < 2; i++) {
        int64_t reach = c.dilation[i] * (c.size[i] - 1);
        c.before[i] = reach - padding[i];
        c.after[i] = reach - padding[i] + more[i];
        int dim = i - (2 - dimensions) + 1;
        if (dim < 1)
            continue;
        last = spread(module, last, dim, stride[i]);
        last = tensor_padded(module, last, dim, c.before[i] < 0 ? c.before[i] : 0, c.after[i] < 0 ? c.after[i] : 0,
                             "constant", 0);
        c.before[i] = c.before[i] < 0 ? 0 : c.before[i];
        c.after[i] = c.after[i] < 0 ? 0 : c.after[i];
    }
    if (module_failed(module))
        return;
    int kernel = mirrored_kernel(module, weight, &c);
    node_give(node, channels_second(module, convolve(module, &c, last, kernel, optional_vector(module, &bias, c.out))));
}

/* ---- Softmax and attention ---- */

static void build_softmax(struct node *node, int logarithm)
{
    struct module *module = node->module;
    struct tensor x = node_tensor(node, node_has(node, "self") ? "self" : "input");
    int dim = node_dim(node, "dim", x.rank, NODE_REQUIRED);
    node_has(node, "dtype"), node_has(node, "half_to_float");
    if (!module_failed(module))
        node_give(node, tensor_softmax(module, x, dim, logarithm));
}

struct tensor tensor_softmax(struct module *module, struct tensor x, int dim, bool logarithm)
{
    x = tensor_as_floats(module, tensor_as_value(module, x));
    if (module_failed(module))
        return x;
    if (x.dims[dim].batched) {
        module_fail(module, "a softmax over the batch dimension is not supported");
        return x;
    }
    struct tensor y = tensor_new(module, x.rank, x.dims);
    struct plan_space space = {.x_first = x.first, .z_first = module->zero, .y_first = module->zero};
    for (int i = 0; i < x.rank; i++) {
        int d = i == x.rank - 1 ? dim : i < dim ? i : i + 1; /* moves dimension `dim` to the end */
        space.dimensions[space.rank++] =
            space_dimension(x.dims[d].size, tensor_stride(module, &x, d), module->zero, tensor_stride(module, &y, d));
    }
    y.value = plan_softmax(module->builder, x.value, plan_add_space(module->builder, &space), logarithm,
                           tensor_target(module, &y));
    return y;
}

/* Turns (batch, heads, n, d) into a value with n rows. The columns are the features of the heads, one head after
 * another. */
static int heads_beside(struct module *module, struct tensor t)
{
    const int order[] = {0, 2, 1, 3};
    return tensor_rows(module, tensor_permute(module, t, order), 2, true);
}

static bool is_attention(struct module *module, const struct tensor *q, const struct tensor *k, const struct tensor *v)
{
    int64_t size;
    const struct tensor *each[] = {q, k, v};
    for (int i = 0; i < 3; i++) {
        const struct tensor *t = each[i];
        if (t->rank != 4 || !t->dims[0].batched || t->dims[0].size != q->dims[0].size ||
            !plan_size_is_constant(module->builder->plan, t->dims[1].size, &size) ||
            !plan_size_is_constant(module->builder->plan, t->dims[3].size, &size))
            return false;
    }
    return true;
}

static void build_attention(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor q = node_tensor(node, "query"), k = node_tensor(node, "key"), v = node_tensor(node, "value");
    struct tensor mask = optional_tensor(node, "attn_mask");
    bool causal = node_bool(node, "is_causal", false), grouped = node_bool(node, "enable_gqa", false);
    if (node_number(node, "dropout_p", 0) != 0)
        module_fail(module, "argument \"dropout_p\" must be 0");
    if (module_failed(module) || q.rank < 2)
        return;
    int64_t d = module_constant(module, q.dims[q.rank - 1].size, "the size of a head");
    double scale = node_has(node, "scale") ? node_number(node, "scale", 1) : 1 / sqrt((double)d);
    if (module_failed(module))
        return;
    q = tensor_as_value(module, q), k = tensor_as_value(module, k), v = tensor_as_value(module, v);
    if (!is_there(&mask) && is_attention(module, &q, &k, &v)) {
        int64_t heads = module_constant(module, q.dims[1].size, "the number of heads of query");
        int64_t kv = module_constant(module, k.dims[1].size, "the number of heads of key");
        int64_t e = module_constant(module, v.dims[3].size, "the size of a head of value");
        if (v.dims[1].size != k.dims[1].size || k.dims[2].size != v.dims[2].size || k.dims[3].size != q.dims[3].size ||
            kv < 1 || heads % kv != 0) {
            module_fail(module, "the shapes of query, key and value do not match");
            return;
        }
        if (kv != heads && !grouped) {
            module_fail(module, "query has %lld heads, but key has %lld: expected enable_gqa", (long long)heads,
                        (long long)kv);
            return;
        }
        struct plan_attention attention = {.heads = heads, .kv_heads = kv, .scale = (float)scale, .causal = causal};
        int queries = heads_beside(module, q), keys = heads_beside(module, k), values = heads_beside(module, v);
        int value = plan_attend(module->builder, queries, keys, values, attention);
        struct tensor_dimension dims[] = {q.dims[0], q.dims[2], q.dims[1], {.size = module_size(module, e)}};
        struct tensor y = tensor_new(module, 4, dims);
        const int order[] = {0, 2, 1, 3};
        y.value = value;
        node_give(node, tensor_permute(module, y, order));
        return;
    }
    if (causal || grouped) {
        module_fail(module,
                    "causal or grouped attention is supported only for tensors (batch, heads, n, d) without a mask");
        return;
    }
    int order[MODULE_RANK];
    for (int i = 0; i < k.rank; i++)
        order[i] = i == k.rank - 1 ? k.rank - 2 : i == k.rank - 2 ? k.rank - 1 : i;
    struct tensor scores = tensor_multiply(module, q, tensor_permute(module, k, order), scale);
    if (is_there(&mask) && mask.boolean) { /* true means that the key is read */
        struct tensor zeros = tensor_combine_number(module, FUNCTION_EQUAL, mask, 0, false);
        mask = tensor_activate(module, zeros, (struct plan_activation){.kind = ACTIVATION_AFFINE, .a = -3e38f});
    }
    if (is_there(&mask))
        scores = tensor_combine(module, FUNCTION_ADD, scores, mask);
    if (module_failed(module))
        return;
    scores = tensor_softmax(module, scores, scores.rank - 1, false);
    node_give(node, tensor_multiply(module, scores, v, 1));
}

const struct module_operation module_layers[] = {
    {"embedding", build_embedding, 0},
    {"linear", build_linear, 0},
    {"layer_norm", build_layer_norm, 0},
    {"rms_norm", build_rms_norm, 0},
    {"batch_norm", build_batch_norm, 0},
    {"group_norm", build_group_norm, 0},
    {"instance_norm", build_group_norm, 1},
    {"conv1d", build_convolution, 1},
    {"conv2d", build_convolution, 2},
    {"conv_transpose1d", build_transposed, 1},
    {"conv_transpose2d", build_transposed, 2},
    {"softmax", build_softmax, 0},
    {"_softmax", build_softmax, 0},
    {"log_softmax", build_softmax, 1},
    {"_log_softmax", build_softmax, 1},
    {"scaled_dot_product_attention", build_attention, 0},
    {NULL, NULL, 0},
};
