#include "engine/plan/print.h"

#include <inttypes.h>

const char *activation_name(enum activation activation)
{
    static const char *const names[ACTIVATION_COUNT] = {
        [ACTIVATION_NONE] = "none",
        [ACTIVATION_GELU] = "gelu",
        [ACTIVATION_RELU] = "relu",
        [ACTIVATION_GELU_TANH] = "gelu_tanh",
        [ACTIVATION_SILU] = "silu",
        [ACTIVATION_SIGMOID] = "sigmoid",
        [ACTIVATION_TANH] = "tanh",
        [ACTIVATION_LEAKY_RELU] = "leaky_relu",
        [ACTIVATION_ELU] = "elu",
        [ACTIVATION_SELU] = "selu",
        [ACTIVATION_SOFTPLUS] = "softplus",
        [ACTIVATION_CLAMP] = "clamp",
        [ACTIVATION_HARD_SWISH] = "hardswish",
        [ACTIVATION_HARD_SIGMOID] = "hardsigmoid",
        [ACTIVATION_MISH] = "mish",
        [ACTIVATION_LOG_SIGMOID] = "log_sigmoid",
        [ACTIVATION_AFFINE] = "affine",
        [ACTIVATION_ABSOLUTE] = "abs",
        [ACTIVATION_SQUARE_ROOT] = "sqrt",
        [ACTIVATION_INVERSE_ROOT] = "rsqrt",
        [ACTIVATION_SQUARE] = "square",
        [ACTIVATION_RECIPROCAL] = "reciprocal",
        [ACTIVATION_EXP] = "exp",
        [ACTIVATION_EXPM1] = "expm1",
        [ACTIVATION_LOG] = "log",
        [ACTIVATION_LOG1P] = "log1p",
        [ACTIVATION_SIN] = "sin",
        [ACTIVATION_COS] = "cos",
        [ACTIVATION_ERF] = "erf",
        [ACTIVATION_FLOOR] = "floor",
        [ACTIVATION_CEIL] = "ceil",
        [ACTIVATION_ROUND] = "round",
        [ACTIVATION_TRUNCATE] = "trunc",
        [ACTIVATION_SIGN] = "sign",
        [ACTIVATION_NOT] = "not",
        [ACTIVATION_IS_NAN] = "isnan",
    };
    return names[activation];
}

static void print_function_of(struct plan_activation activation, FILE *out)
{
    if (activation.kind != ACTIVATION_NONE)
        fprintf(out, ", %s", activation_name(activation.kind));
    if (activation.a != 0 || activation.b != 0)
        fprintf(out, "(%g, %g)", (double)activation.a, (double)activation.b);
}

void print_nothing(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan, (void)step, (void)out;
}

void print_activate(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_function_of(step->activate.activation, out);
}

void print_gate(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_function_of(step->gate.activation, out);
}

void print_linear(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_function_of(step->linear.activation, out);
}

void print_feed_forward(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_function_of(step->feed_forward.activation, out);
    if (step->feed_forward.gated)
        fprintf(out, ", gated");
}

const char *function_name(enum plan_function function)
{
    static const char *const names[FUNCTION_COUNT] = {
        [FUNCTION_ADD] = "add",
        [FUNCTION_SUBTRACT] = "subtract",
        [FUNCTION_MULTIPLY] = "multiply",
        [FUNCTION_DIVIDE] = "divide",
        [FUNCTION_FLOOR_DIVIDE] = "floor divide",
        [FUNCTION_TRUNCATE_DIVIDE] = "truncate divide",
        [FUNCTION_REMAINDER] = "remainder",
        [FUNCTION_POWER] = "power",
        [FUNCTION_MAXIMUM] = "maximum",
        [FUNCTION_MINIMUM] = "minimum",
        [FUNCTION_EQUAL] = "equal",
        [FUNCTION_NOT_EQUAL] = "not equal",
        [FUNCTION_LESS] = "less",
        [FUNCTION_LESS_EQUAL] = "less or equal",
        [FUNCTION_AND] = "and",
        [FUNCTION_OR] = "or",
        [FUNCTION_XOR] = "xor",
    };
    return names[function];
}

void print_combine(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    fprintf(out, ", %s%s", function_name(step->combine.function), step->combine.z_first ? ", z first" : "");
    if (step->z == PLAN_NONE && step->z_weight == PLAN_NONE)
        fprintf(out, " %g", (double)step->combine.z);
}

const char *reduction_name(enum plan_reduction reduction)
{
    static const char *const names[REDUCTION_COUNT] = {
        [REDUCTION_SUM] = "sum",           [REDUCTION_MEAN] = "mean",           [REDUCTION_MAXIMUM] = "maximum",
        [REDUCTION_MINIMUM] = "minimum",   [REDUCTION_PRODUCT] = "product",     [REDUCTION_NORM] = "norm",
        [REDUCTION_VARIANCE] = "variance", [REDUCTION_DEVIATION] = "deviation", [REDUCTION_ARGMAX] = "argmax",
        [REDUCTION_CUMULATE] = "cumulate",
    };
    return names[reduction];
}

void print_reduce(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    fprintf(out, ", %s", reduction_name(step->reduce.reduction));
    if (step->reduce.reduction == REDUCTION_NORM)
        fprintf(out, " %g", (double)step->reduce.parameter);
}

void print_softmax(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    if (step->softmax.logarithm)
        fprintf(out, ", logarithm");
}

void print_multiply(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    if (step->multiply.scale != 1.0f)
        fprintf(out, " scale %g", (double)step->multiply.scale);
}

static void print_groups(int64_t groups, FILE *out)
{
    if (groups > 1)
        fprintf(out, " groups %" PRId64, groups);
}

void print_group_norm(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_groups(step->group_norm.groups, out);
}

void print_projection(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_groups(step->project_sequence.groups, out);
}

void print_sequence_convolution(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_groups(step->convolve_sequence.groups, out);
}

void print_call_projection(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    if (step->tail != PLAN_NONE)
        fprintf(out, " with the last row %s", plan->weights[step->tail].name);
}

void print_image_convolution(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    const struct plan_window *window = &step->convolve_image.window;
    fprintf(out, " window %" PRId64 " x %" PRId64 " stride %" PRId64 " x %" PRId64, window->size[0], window->size[1],
            window->stride[0], window->stride[1]);
    fprintf(out, " padding %" PRId64 " + %" PRId64 " x %" PRId64 " + %" PRId64, window->before[0], window->after[0],
            window->before[1], window->after[1]);
    if (window->dilation[0] > 1 || window->dilation[1] > 1)
        fprintf(out, " dilation %" PRId64 " x %" PRId64, window->dilation[0], window->dilation[1]);
    print_groups(step->convolve_image.groups, out);
    if (step->convolve_image.scale != 1.0f)
        fprintf(out, " scale %g", (double)step->convolve_image.scale);
}

void print_padding(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    struct plan_padding by = plan->axes[plan->values[step->y].axis].padded.by;
    fprintf(out, by.rows ? " to %" PRId64 " rows" : " to a multiple of %" PRId64 " rows",
            by.rows ? by.rows : by.multiple);
    if (step->pad_rows.ones)
        fprintf(out, " as ones");
    if (step->pad_rows.fill)
        fprintf(out, " with ones");
}

void print_tensor(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    fprintf(out, " %s", plan->outputs[step->give_tensor.output].name);
}

static void print_causal(bool causal, FILE *out)
{
    if (causal)
        fprintf(out, " causal");
}

static void print_heads(int64_t first, int64_t count, FILE *out)
{
    fprintf(out, " heads %" PRId64 " to %" PRId64, first, first + count - 1);
}

void print_attention(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    fprintf(out, " heads %" PRId64 " kv_heads %" PRId64 " scale %g", step->attend.heads, step->attend.kv_heads,
            (double)step->attend.scale);
    print_causal(step->attend.causal, out);
    if (step->attend.mask != PLAN_NONE)
        fprintf(out, " mask %s", plan->inputs[step->attend.mask].input.name);
}

void print_linear_attention(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_heads(step->linear_attend.first_head, step->linear_attend.heads, out);
    if (step->linear_attend.causal)
        fprintf(out, " bucket %" PRId64, step->linear_attend.bucket);
    if (step->linear_attend.fold > 1)
        fprintf(out, " fold %" PRId64, step->linear_attend.fold);
    if (step->linear_attend.raw_queries)
        fprintf(out, " raw queries");
    print_causal(step->linear_attend.causal, out);
}

void print_local_attention(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_heads(step->local_attend.first_head, step->local_attend.heads, out);
    fprintf(out, " window %" PRId64, step->local_attend.window);
    print_causal(step->local_attend.causal, out);
}
