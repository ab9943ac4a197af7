#include "engine/plan/flops.h"

#define FUNCTION_FLOPS 30 /* approximate FLOPs of erf, or of an exponential and a division */

static int64_t rows_of(const struct plan *plan, int value, int64_t rows)
{
    return plan_value_rows(plan, value, rows);
}

/* The rows of one sequence of a value. A row of x reads the keys of its own sequence. */
static int64_t sequence_rows_of(const struct plan *plan, int value, int64_t rows)
{
    return plan_value_sequence_rows(plan, value, rows);
}

/* The number of elements of x. */
static int64_t elements(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return rows_of(plan, step->x, rows) * plan->values[step->x].columns;
}

static int64_t size_of(const struct plan_weight *weight)
{
    return weight->rows * weight->columns;
}

/* FLOPs for one element. */
static int64_t flops_of_function(struct plan_activation activation)
{
    switch (activation.kind) {
    case ACTIVATION_GELU:
    case ACTIVATION_GELU_TANH:
    case ACTIVATION_SILU:
    case ACTIVATION_SIGMOID:
    case ACTIVATION_TANH:
    case ACTIVATION_ELU:
    case ACTIVATION_SELU:
    case ACTIVATION_SOFTPLUS:
    case ACTIVATION_MISH:
    case ACTIVATION_LOG_SIGMOID:
    case ACTIVATION_EXP:
    case ACTIVATION_EXPM1:
    case ACTIVATION_LOG:
    case ACTIVATION_LOG1P:
    case ACTIVATION_SIN:
    case ACTIVATION_COS:
    case ACTIVATION_ERF:
        return FUNCTION_FLOPS;
    default:
        return 1;
    }
}

/* FLOPs for one element that a gate multiplies by an activated element. */
static int64_t flops_of_gated(struct plan_activation activation)
{
    return flops_of_function(activation) + 1;
}

int64_t flops_of_nothing(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    (void)plan, (void)step, (void)rows;
    return 0;
}

int64_t flops_of_addition(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return elements(plan, step, rows);
}

int64_t flops_of_result(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return rows_of(plan, step->y, rows) * plan->values[step->y].columns;
}

int64_t flops_of_layer_norm(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return 8 * elements(plan, step, rows);
}

int64_t flops_of_linear(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return 2 * elements(plan, step, rows) * plan->weights[step->weight].rows;
}

int64_t flops_of_feed_forward(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    const struct plan_weight *first = &plan->weights[step->weight], *second = &plan->weights[step->second_weight];
    int64_t gate = step->feed_forward.gated ? flops_of_gated(step->feed_forward.activation) * second->columns : 0;
    return rows_of(plan, step->x, rows) * (2 * size_of(first) + gate + 2 * size_of(second));
}

int64_t flops_of_activation(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return flops_of_function(step->activate.activation) * elements(plan, step, rows);
}

int64_t flops_of_gate(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return flops_of_gated(step->gate.activation) * elements(plan, step, rows) / 2;
}

int64_t flops_of_sinusoids(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return 20 * elements(plan, step, rows);
}

int64_t flops_of_rotation(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return 3 * elements(plan, step, rows);
}

int64_t flops_of_projection(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return 2 * elements(plan, step, rows) * sequence_rows_of(plan, step->y, rows);
}

int64_t flops_of_call_projection(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return 2 * elements(plan, step, rows) * plan->weights[step->weight].rows;
}

int64_t flops_of_sequence_convolution(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    int64_t columns = plan->values[step->x].columns;
    return 2 * rows_of(plan, step->y, rows) * columns * step->convolve_sequence.stride *
           (columns / step->convolve_sequence.groups);
}

int64_t flops_of_image_convolution(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return 2 * rows_of(plan, step->y, rows) * size_of(&plan->weights[step->weight]);
}

int64_t flops_of_attention(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    int64_t outputs = rows_of(plan, step->x, rows) * plan->values[step->y].columns;
    return 2 * (elements(plan, step, rows) + outputs) * sequence_rows_of(plan, step->keys, rows);
}

/* A position reads only the keys of its own sequence, not those of the whole call. */
int64_t flops_of_call_attention(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return 4 * elements(plan, step, rows) * plan_most_sequence_rows(plan, step->keys);
}

/* Counts two products: keys and values give a matrix, and the queries are multiplied by this matrix. */
int64_t flops_of_linear_attention(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    int64_t both = rows_of(plan, step->x, rows) + rows_of(plan, step->keys, rows);
    return 2 * both * step->linear_attend.heads * step->linear_attend.dim_head * step->linear_attend.dim_value;
}

int64_t flops_of_local_attention(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    int64_t columns = step->local_attend.heads * step->local_attend.dim_head;
    int64_t keys = step->local_attend.window * (step->local_attend.causal ? 2 : 3);
    return 4 * rows_of(plan, step->x, rows) * columns * keys;
}

/* Counts the scores of all keys, and the sums of the best values of each head. */
int64_t flops_of_retrieval(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    int64_t values = step->retrieve.heads * PLAN_BEST_KEYS * plan->weights[step->value_table].columns;
    return 2 * rows_of(plan, step->x, rows) * (size_of(&plan->weights[step->key_table]) + values);
}

int64_t flops_of_output(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return step->weight == PLAN_NONE ? 0 : flops_of_linear(plan, step, rows);
}

int64_t flops_of_softmax(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    return 10 * flops_of_result(plan, step, rows);
}

/* Counts two operations for each element of the space. The free sizes of the item are all `rows`, clamped to their
 * bounds. */
int64_t flops_of_multiplication(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    const struct plan_space *space = &plan->spaces[step->space];
    int64_t flops = 2, count;
    for (int d = 0; d < space->rank; d++)
        if (!plan_size_at(plan, space->dimensions[d].count, rows, &count) ||
            __builtin_mul_overflow(flops, count, &flops))
            return 0;
    return flops;
}
