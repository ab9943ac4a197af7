/* elements: operations on single elements. */
#include "engine/families/module/tensor.h"
#include "engine/plan/axes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- One operand ---- */

/* The tensor t with its elements in another value. This value has as many elements as the value of t, in the same
 * order. */
static struct tensor like(struct tensor t, int value)
{
    t.value = value;
    t.weight = PLAN_NONE;
    t.counts = t.boolean = false;
    return t;
}

static struct tensor truth(struct tensor t)
{
    t.boolean = true;
    return t;
}

struct tensor tensor_activate(struct module *module, struct tensor t, struct plan_activation activation)
{
    int order[MODULE_RANK];
    t = tensor_as_value(module, t);
    if (!tensor_is_whole(module, &t, order))
        t = tensor_arranged(module, t);
    return module_failed(module) ? t : like(t, plan_activate_with(module->builder, t.value, activation, false));
}

struct tensor tensor_as_floats(struct module *module, struct tensor t)
{
    if (module_failed(module) || !tensor_is_ids(module, &t))
        return t;
    return tensor_activate(module, t, (struct plan_activation){.kind = ACTIVATION_NONE});
}

static struct tensor affine(struct module *module, struct tensor t, double a, double b)
{
    if (a == 1 && b == 0)
        return tensor_as_floats(module, t);
    return tensor_activate(module, t,
                           (struct plan_activation){.kind = ACTIVATION_AFFINE, .a = (float)a, .b = (float)b});
}

static void give_activated(struct node *node, enum activation kind, double a, double b)
{
    struct tensor t = node_tensor(node, node_has(node, "self") ? "self" : "input");
    struct plan_activation activation = {.kind = kind, .a = (float)a, .b = (float)b};
    if (!module_failed(node->module))
        node_give(node, tensor_activate(node->module, t, activation));
}

static void build_activation(struct node *node, int kind)
{
    give_activated(node, (enum activation)kind, 0, 0);
}

/* A function whose result is true or false. */
static void build_test(struct node *node, int kind)
{
    struct tensor t = node_tensor(node, "self");
    struct plan_activation activation = {.kind = (enum activation)kind};
    if (!module_failed(node->module))
        node_give(node, truth(tensor_activate(node->module, t, activation)));
}

static void build_gelu(struct node *node, int variant)
{
    (void)variant;
    bool tanh = strcmp(node_string(node, "approximate", "none"), "tanh") == 0;
    give_activated(node, tanh ? ACTIVATION_GELU_TANH : ACTIVATION_GELU, 0, 0);
}

static void build_leaky_relu(struct node *node, int variant)
{
    (void)variant;
    give_activated(node, ACTIVATION_LEAKY_RELU, node_number(node, "negative_slope", 0.01), 0);
}

static void build_elu(struct node *node, int variant)
{
    (void)variant;
    if (node_number(node, "scale", 1) != 1 || node_number(node, "input_scale", 1) != 1)
        module_fail(node->module, "arguments \"scale\" and \"input_scale\" must be 1");
    give_activated(node, ACTIVATION_ELU, node_number(node, "alpha", 1), 0);
}

static void build_softplus(struct node *node, int variant)
{
    (void)variant;
    give_activated(node, ACTIVATION_SOFTPLUS, node_number(node, "beta", 1), node_number(node, "threshold", 20));
}

/* clamp with both bounds, or one of them. */
static void build_clamp(struct node *node, int variant)
{
    (void)variant;
    double least = node_has(node, "min") ? node_number(node, "min", 0) : -INFINITY;
    double most = node_has(node, "max") ? node_number(node, "max", 0) : INFINITY;
    give_activated(node, ACTIVATION_CLAMP, least, most);
}

static void build_hardtanh(struct node *node, int variant)
{
    (void)variant;
    give_activated(node, ACTIVATION_CLAMP, node_number(node, "min_val", -1), node_number(node, "max_val", 1));
}

static void build_relu6(struct node *node, int variant)
{
    (void)variant;
    give_activated(node, ACTIVATION_CLAMP, 0, 6);
}

static void build_negative(struct node *node, int variant)
{
    (void)variant;
    give_activated(node, ACTIVATION_AFFINE, -1, 0);
}

/* A conversion to another type. Integers are stored as floats without a fraction. As a bool, every number except 0 is
 * true. */
static void build_to(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    const char *dtype = node_string(node, "dtype", "float32");
    node_has(node, "other");
    if (module_failed(module))
        return;
    if (strncmp(dtype, "complex", strlen("complex")) == 0) {
        module_fail(module, "dtype \"%.40s\" is not supported", dtype);
        return;
    }
    bool ids = tensor_is_ids(module, &t), integer = strncmp(dtype, "int", 3) == 0 || strncmp(dtype, "uint", 4) == 0;
    if (strcmp(dtype, "bool") == 0)
        t = truth(tensor_combine_number(module, FUNCTION_NOT_EQUAL, t, 0, false));
    else if (integer && !ids && !t.counts)
        t = tensor_activate(module, t, (struct plan_activation){.kind = ACTIVATION_TRUNCATE});
    else if (!integer)
        t = tensor_as_floats(module, t);
    t.boolean = strcmp(dtype, "bool") == 0;
    node_give(node, t);
}

/* ---- Two operands ---- */

/* Writes the size of a dimension. Returns `text`. */
static const char *dimension_text(const struct module *module, const struct tensor_dimension *dimension, char *text,
                                  size_t room)
{
    char size[48];
    plan_size_text(module->builder->plan, dimension->size, size, sizeof size);
    if (dimension->batched && dimension->size == module->one)
        snprintf(text, room, "batch");
    else
        snprintf(text, room, dimension->batched ? "batch * (%s)" : "%s", size);
    return text;
}

/* Gives both tensors their common shape. Dimensions of size 1 are repeated. */
static bool broadcast(struct module *module, struct tensor *x, struct tensor *z)
{
    while (x->rank < z->rank && !module_failed(module))
        *x = tensor_unsqueeze(module, *x, 0);
    while (z->rank < x->rank && !module_failed(module))
        *z = tensor_unsqueeze(module, *z, 0);
    for (int d = 0; d < x->rank && !module_failed(module); d++) {
        struct tensor_dimension *a = &x->dims[d], *b = &z->dims[d];
        bool a_one = a->size == module->one && !a->batched, b_one = b->size == module->one && !b->batched;
        if (a->size == b->size && a->batched == b->batched && a->inner == b->inner)
            continue;
        if (a_one) {
            *a = (struct tensor_dimension){b->size, module->zero, b->batched, b->inner};
            x->counts = false;
        } else if (b_one) {
            *b = (struct tensor_dimension){a->size, module->zero, a->batched, a->inner};
            z->counts = false;
        } else if (a->batched != b->batched && (a->batched ? b : a)->size != module->one) {
            module_fail(module, "dimension %d is the batch in one operand, but not in the other", d);
        } else if (a->size == b->size) {
            module_fail(module,
                        "dimension %d joins the batch and another dimension, but in a different order in each "
                        "operand",
                        d);
        } else {
            char first[64], second[64];
            module_fail(module, "dimension %d has size %s in one operand and %s in the other", d,
                        dimension_text(module, a, first, sizeof first),
                        dimension_text(module, b, second, sizeof second));
        }
    }
    return !module_failed(module);
}

static bool same_places(const struct module *module, const struct tensor *x, const struct tensor *z)
{
    bool same = x->first == z->first && x->rank == z->rank;
    for (int d = 0; same && d < x->rank; d++)
        same = tensor_stride(module, x, d) == tensor_stride(module, z, d);
    return same;
}

/* x + z, if both are whole values with equally many rows and columns. Otherwise PLAN_NONE. */
static int add_values(struct module *module, const struct tensor *x, const struct tensor *z)
{
    const struct plan *plan = module->builder->plan;
    if (z->value == PLAN_NONE || !same_places(module, x, z) || plan->values[z->value].ids)
        return PLAN_NONE;
    const struct plan_value *a = &plan->values[x->value], *b = &plan->values[z->value];
    if (a->axis != b->axis && a->columns == b->columns) { /* a different axis with the same rows */
        int value = plan_reshape(module->builder, z->value, a->axis, a->columns);
        return plan_add(module->builder, x->value, value, 1.0f);
    }
    return a->columns == b->columns ? plan_add(module->builder, x->value, z->value, 1.0f) : PLAN_NONE;
}

/* x (…, n, d) + T[:n], where T is a table of positions and each sequence has n rows. PLAN_NONE if z is not such a
 * table. */
static int add_positions(struct module *module, struct tensor x, const struct tensor *z, struct tensor *y)
{
    const struct plan *plan = module->builder->plan;
    int64_t columns;
    if (z->value != PLAN_NONE || x.rank < 2 || z->first != module->zero || x.rank != z->rank ||
        !plan_size_is_constant(plan, x.dims[x.rank - 1].size, &columns))
        return PLAN_NONE;
    for (int d = 0; d < x.rank; d++) {
        int stride = tensor_stride(module, z, d);
        int expected = d == x.rank - 1 ? module->one : d == x.rank - 2 ? module_size(module, columns) : module->zero;
        if (stride != expected && x.dims[d].size != module->one)
            return PLAN_NONE;
        if (d < x.rank - 2 && x.dims[d].size != module->one)
            return PLAN_NONE;
    }
    if (plan->weights[z->weight].columns != columns || !x.dims[0].batched)
        return PLAN_NONE;
    int value = tensor_rows(module, x, 1, true);
    *y = tensor_of_rows(module, value, x, 1, columns);
    return y->value = plan_add_positions(module->builder, value, z->weight, PLAN_NONE, 1);
}

/* The tensor for the result of a function of two tensors with the same shape. If x is a whole value, the result has the
 * same order in memory as x. */
static struct tensor combine(struct module *module, enum plan_function function, struct tensor x, struct tensor z,
                             struct plan_source source, bool z_first)
{
    int order[MODULE_RANK];
    struct plan_space space = {.rank = x.rank, .x_first = x.first, .z_first = z.first, .y_first = module->zero};
    if (module_failed(module))
        return x;
    struct tensor y = tensor_new(module, x.rank, x.dims);
    struct plan_target target = tensor_target(module, &y);
    bool whole = tensor_is_whole(module, &x, order);
    if (whole) {
        target.axis = module->builder->plan->values[x.value].axis;
        target.columns = module->builder->plan->values[x.value].columns;
    }
    for (int d = 0; d < x.rank; d++) {
        int from = whole ? order[d] : d;
        if (whole)
            y.dims[from].stride = x.dims[from].stride;
        space.dimensions[d] = space_dimension(x.dims[from].size, tensor_stride(module, &x, from),
                                              tensor_stride(module, &z, from), tensor_stride(module, &y, from));
    }
    y.value = plan_combine(module->builder, function, x.value, source, z_first, plan_add_space(module->builder, &space),
                           target);
    return y;
}

/* Whether the tensor has fewer dimensions than the other one, or a dimension of one element where the other tensor has
 * several elements. For equal shapes, whether the tensor is a weight. */
static bool is_smaller(const struct module *module, const struct tensor *t, const struct tensor *other)
{
    if (t->rank != other->rank)
        return t->rank < other->rank;
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d].size == module->one && other->dims[d].size != module->one)
            return true;
    return t->value == PLAN_NONE;
}

struct tensor tensor_combine(struct module *module, enum plan_function function, struct tensor x, struct tensor z)
{
    if (module_failed(module))
        return x;
    int order[MODULE_RANK], value = PLAN_NONE;
    bool z_first = is_smaller(module, &x, &z); /* the operand with more elements must be x */
    struct tensor larger = z_first ? z : x, smaller = z_first ? x : z, y;
    larger = tensor_as_value(module, larger);
    if (!broadcast(module, &larger, &smaller))
        return x;
    if (function == FUNCTION_ADD) {
        bool whole = tensor_is_whole(module, &larger, order);
        if (whole && !tensor_is_ids(module, &larger))
            value = add_values(module, &larger, &smaller);
        if (value != PLAN_NONE)
            return like(larger, value);
        if (!tensor_is_ids(module, &larger) && add_positions(module, larger, &smaller, &y) != PLAN_NONE)
            return y;
    }
    struct plan_source source = {.value = smaller.value,
                                 .weight = smaller.value == PLAN_NONE ? smaller.weight : PLAN_NONE};
    return combine(module, function, larger, smaller, source, z_first);
}

struct tensor tensor_combine_number(struct module *module, enum plan_function function, struct tensor x, double number,
                                    bool number_first)
{
    struct tensor none = {.value = PLAN_NONE, .weight = PLAN_NONE, .first = module->zero, .rank = x.rank};
    if (module_failed(module))
        return x;
    for (int d = 0; d < x.rank; d++)
        none.dims[d] = (struct tensor_dimension){x.dims[d].size, module->zero, x.dims[d].batched, x.dims[d].inner};
    struct plan_source source = {.value = PLAN_NONE, .weight = PLAN_NONE, .number = (float)number};
    return combine(module, function, tensor_as_value(module, x), none, source, number_first);
}

static void swap(struct tensor *x, struct tensor *z)
{
    struct tensor kept = *x;
    *x = *z;
    *z = kept;
}

/* add, sub and rsub, which are variants 0, 1 and 2. add is x + alpha * other. */
static void build_add(struct node *node, int variant)
{
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "self"), z;
    double number, alpha = node_number(node, "alpha", 1);
    bool tensor = node_operand(node, "other", &z, &number);
    if (module_failed(module))
        return;
    if (!tensor) {
        node_give(node, variant == 2 ? affine(module, x, -alpha, number)
                                     : affine(module, x, 1, variant == 1 ? -alpha * number : alpha * number));
        return;
    }
    if (variant == 2)
        swap(&x, &z);
    struct tensor *scaled = variant == 2 ? &x : &z;
    if (alpha != 1)
        *scaled = affine(module, *scaled, alpha, 0);
    node_give(node, tensor_combine(module, variant == 0 ? FUNCTION_ADD : FUNCTION_SUBTRACT, x, z));
}

static void build_multiply(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "self"), z;
    double number;
    bool tensor = node_operand(node, "other", &z, &number);
    if (!module_failed(module))
        node_give(node, tensor ? tensor_combine(module, FUNCTION_MULTIPLY, x, z) : affine(module, x, number, 0));
}

static void build_divide(struct node *node, int variant)
{
    struct module *module = node->module;
    struct tensor x, z;
    double number, first;
    const char *rounding =
        variant == 0 && node_has(node, "rounding_mode") ? node_string(node, "rounding_mode", "") : "";
    bool is_tensor = node_operand(node, "self", &x, &first), tensor = node_operand(node, "other", &z, &number);
    enum plan_function function = variant == 1 || strcmp(rounding, "floor") == 0 ? FUNCTION_FLOOR_DIVIDE
                                  : strcmp(rounding, "trunc") == 0               ? FUNCTION_TRUNCATE_DIVIDE
                                  : variant == 2                                 ? FUNCTION_REMAINDER
                                                                                 : FUNCTION_DIVIDE;
    if (module_failed(module))
        return;
    if (!is_tensor && !tensor)
        module_fail(module, "at least one operand must be a tensor");
    else if (!is_tensor)
        node_give(node, tensor_combine_number(module, function, z, first, true));
    else if (tensor)
        node_give(node, tensor_combine(module, function, x, z));
    else
        node_give(node, tensor_combine_number(module, function, x, number, false));
}

/* Whether a simpler function computes this power. If so, sets *activation to the function. */
static bool simple_power(double exponent, struct plan_activation *activation)
{
    *activation = (struct plan_activation){.kind = exponent == 2      ? ACTIVATION_SQUARE
                                                   : exponent == 0.5  ? ACTIVATION_SQUARE_ROOT
                                                   : exponent == -0.5 ? ACTIVATION_INVERSE_ROOT
                                                   : exponent == -1   ? ACTIVATION_RECIPROCAL
                                                                      : ACTIVATION_NONE};
    return activation->kind != ACTIVATION_NONE;
}

static void build_power(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor x, z;
    double base, exponent;
    struct plan_activation simple;
    bool is_tensor = node_operand(node, "self", &x, &base), tensor = node_operand(node, "exponent", &z, &exponent);
    if (module_failed(module))
        return;
    if (is_tensor && tensor)
        node_give(node, tensor_combine(module, FUNCTION_POWER, x, z));
    else if (tensor)
        node_give(node, tensor_combine_number(module, FUNCTION_POWER, z, base, true));
    else if (is_tensor && simple_power(exponent, &simple))
        node_give(node, tensor_activate(module, x, simple));
    else if (is_tensor)
        node_give(node, tensor_combine_number(module, FUNCTION_POWER, x, exponent, false));
    else
        module_fail(module, "at least one operand must be a tensor");
}

/* Comparisons, logical functions, maximum and minimum. If the variant is at least EXCHANGED, the operands are
 * exchanged: "greater" is "less" with exchanged operands. */
#define EXCHANGED 1000

static void build_compare(struct node *node, int variant)
{
    struct module *module = node->module;
    bool exchanged = variant >= EXCHANGED;
    enum plan_function function = (enum plan_function)(exchanged ? variant - EXCHANGED : variant);
    struct tensor x = node_tensor(node, "self"), z;
    double number;
    bool tensor = node_operand(node, "other", &z, &number);
    if (module_failed(module))
        return;
    struct tensor y = !tensor     ? tensor_combine_number(module, function, x, number, exchanged)
                      : exchanged ? tensor_combine(module, function, z, x)
                                  : tensor_combine(module, function, x, z);
    y.boolean = function != FUNCTION_MAXIMUM && function != FUNCTION_MINIMUM;
    node_give(node, y);
}

static struct plan_source source_of(const struct tensor *t)
{
    return (struct plan_source){.value = t->value, .weight = t->value == PLAN_NONE ? t->weight : PLAN_NONE};
}

/* condition ? x : z. The operands are repeated to a common shape first, as in PyTorch (broadcasting). */
static struct tensor selected(struct module *module, struct tensor condition, struct tensor x, struct tensor z)
{
    condition = tensor_as_value(module, condition);
    if (!broadcast(module, &condition, &x) || !broadcast(module, &condition, &z) || !broadcast(module, &x, &z) ||
        !broadcast(module, &condition, &x))
        return x;
    struct tensor y = tensor_new(module, x.rank, x.dims);
    struct plan_space space = {
        .rank = x.rank, .x_first = x.first, .z_first = z.first, .keys_first = condition.first, .y_first = module->zero};
    if (module_failed(module))
        return x;
    for (int d = 0; d < x.rank; d++)
        space.dimensions[d] =
            (struct plan_dimension){x.dims[d].size, tensor_stride(module, &x, d), tensor_stride(module, &z, d),
                                    tensor_stride(module, &condition, d), tensor_stride(module, &y, d)};
    y.value = plan_select(module->builder, condition.value, source_of(&x), source_of(&z),
                          plan_add_space(module->builder, &space), tensor_target(module, &y));
    return y;
}

/* A tensor of one number, without dimensions. */
static struct tensor number_tensor(struct module *module, double number)
{
    struct tensor t = {.value = PLAN_NONE, .first = module->zero, .rank = 0};
    t.weight = plan_number_weight(module->builder, 1, 1, (float)number, 0);
    return t;
}

static void build_where(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor condition = node_tensor(node, "condition"), x, z;
    double first, second;
    if (!node_operand(node, "self", &x, &first))
        x = number_tensor(module, first);
    if (!node_operand(node, "other", &z, &second))
        z = number_tensor(module, second);
    if (!module_failed(module))
        node_give(node, selected(module, condition, x, z));
}

static void build_masked_fill(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "self"), mask = node_tensor(node, "mask"), z;
    double number;
    if (!node_operand(node, "value", &z, &number))
        z = number_tensor(module, number);
    if (!module_failed(module))
        node_give(node, selected(module, mask, z, x));
}

/* glu: the first half of a dimension times the sigmoid of the second. */
static void build_glu(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor t = node_tensor(node, "self");
    int dim = node_dim(node, "dim", t.rank, -1), half;
    if (module_failed(module))
        return;
    half = plan_size_divide(module->builder, t.dims[dim].size, module_size(module, 2));
    struct tensor x = tensor_slice(module, t, dim, module->zero, half, 1);
    struct tensor gate = tensor_slice(module, t, dim, half, half, 1);
    gate = tensor_activate(module, gate, (struct plan_activation){.kind = ACTIVATION_SIGMOID});
    node_give(node, tensor_combine(module, FUNCTION_MULTIPLY, x, gate));
}

/* max(x, 0) + weight * min(x, 0), with a weight for each channel (dimension 1) or one for all. */
static void build_prelu(struct node *node, int variant)
{
    (void)variant;
    struct module *module = node->module;
    struct tensor x = node_tensor(node, "self"), weight = node_tensor(node, "weight");
    if (module_failed(module))
        return;
    for (int d = 2; d < x.rank && weight.rank == 1 && weight.dims[0].size != module->one; d++)
        weight = tensor_unsqueeze(module, weight, d - 1);
    while (weight.rank > 1 && weight.rank < x.rank - 1 && !module_failed(module))
        weight = tensor_unsqueeze(module, weight, weight.rank);
    struct tensor above = tensor_activate(module, x, (struct plan_activation){.kind = ACTIVATION_RELU});
    struct tensor below =
        tensor_activate(module, x, (struct plan_activation){.kind = ACTIVATION_CLAMP, .a = -INFINITY, .b = 0});
    below = tensor_combine(module, FUNCTION_MULTIPLY, below, weight);
    node_give(node, tensor_combine(module, FUNCTION_ADD, above, below));
}

const struct module_operation module_elements[] = {
    {"neg", build_negative, 0},
    {"abs", build_activation, ACTIVATION_ABSOLUTE},
    {"sqrt", build_activation, ACTIVATION_SQUARE_ROOT},
    {"rsqrt", build_activation, ACTIVATION_INVERSE_ROOT},
    {"square", build_activation, ACTIVATION_SQUARE},
    {"reciprocal", build_activation, ACTIVATION_RECIPROCAL},
    {"exp", build_activation, ACTIVATION_EXP},
    {"expm1", build_activation, ACTIVATION_EXPM1},
    {"log", build_activation, ACTIVATION_LOG},
    {"log1p", build_activation, ACTIVATION_LOG1P},
    {"sin", build_activation, ACTIVATION_SIN},
    {"cos", build_activation, ACTIVATION_COS},
    {"tanh", build_activation, ACTIVATION_TANH},
    {"sigmoid", build_activation, ACTIVATION_SIGMOID},
    {"relu", build_activation, ACTIVATION_RELU},
    {"relu6", build_relu6, 0},
    {"leaky_relu", build_leaky_relu, 0},
    {"elu", build_elu, 0},
    {"selu", build_activation, ACTIVATION_SELU},
    {"gelu", build_gelu, 0},
    {"silu", build_activation, ACTIVATION_SILU},
    {"mish", build_activation, ACTIVATION_MISH},
    {"softplus", build_softplus, 0},
    {"hardtanh", build_hardtanh, 0},
    {"hardswish", build_activation, ACTIVATION_HARD_SWISH},
    {"hardsigmoid", build_activation, ACTIVATION_HARD_SIGMOID},
    {"log_sigmoid", build_activation, ACTIVATION_LOG_SIGMOID},
    {"erf", build_activation, ACTIVATION_ERF},
    {"floor", build_activation, ACTIVATION_FLOOR},
    {"ceil", build_activation, ACTIVATION_CEIL},
    {"round", build_activation, ACTIVATION_ROUND},
    {"trunc", build_activation, ACTIVATION_TRUNCATE},
    {"sign", build_activation, ACTIVATION_SIGN},
    {"isnan", build_test, ACTIVATION_IS_NAN},
    {"logical_not", build_test, ACTIVATION_NOT},
    {"bitwise_not", build_test, ACTIVATION_NOT},
    {"clamp", build_clamp, 0},
    {"clamp_min", build_clamp, 0},
    {"clamp_max", build_clamp, 0},
    {"to", build_to, 0},
    {"_to_copy", build_to, 0},
    {"add", build_add, 0},
    {"sub", build_add, 1},
    {"rsub", build_add, 2},
    {"mul", build_multiply, 0},
    {"div", build_divide, 0},
    {"floor_divide", build_divide, 1},
    {"remainder", build_divide, 2},
    {"pow", build_power, 0},
    {"maximum", build_compare, FUNCTION_MAXIMUM},
    {"minimum", build_compare, FUNCTION_MINIMUM},
    {"eq", build_compare, FUNCTION_EQUAL},
    {"ne", build_compare, FUNCTION_NOT_EQUAL},
    {"lt", build_compare, FUNCTION_LESS},
    {"le", build_compare, FUNCTION_LESS_EQUAL},
    {"gt", build_compare, EXCHANGED + FUNCTION_LESS},
    {"ge", build_compare, EXCHANGED + FUNCTION_LESS_EQUAL},
    {"logical_and", build_compare, FUNCTION_AND},
    {"logical_or", build_compare, FUNCTION_OR},
    {"logical_xor", build_compare, FUNCTION_XOR},
    {"bitwise_and", build_compare, FUNCTION_AND},
    {"bitwise_or", build_compare, FUNCTION_OR},
    {"where", build_where, 0},
    {"masked_fill", build_masked_fill, 0},
    {"glu", build_glu, 0},
    {"prelu", build_prelu, 0},
    {NULL, NULL, 0},
};
