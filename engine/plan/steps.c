/* steps: the operations. Each function appends a step and returns its new value. */
#include "engine/plan/axes.h"
#include "engine/plan/passes.h"
#include "engine/plan/scope.h"
#include "engine/plan/sizes.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int plan_append_step(struct plan_builder *builder, struct plan_step step, struct plan_target y)
{
    if (builder->failed)
        return PLAN_NONE;
    step.y = y.value == PLAN_NONE ? plan_new_value(builder, y.axis, y.columns) : y.value;
    struct plan_step *place = NULL;
    if (!builder->failed)
        place = plan_grow(builder, &builder->plan->steps, &builder->plan->n_steps, sizeof *place);
    if (!place)
        return PLAN_NONE;
    *place = step;
    builder->plan->values[step.y].ids = y.ids;
    return step.y;
}

/* Appends the step, with a new value of the given axis and columns as its y. */
static int new_step(struct plan_builder *builder, struct plan_step step, int axis, int64_t columns)
{
    return plan_append_step(builder, step, (struct plan_target){axis, columns, false, PLAN_NONE});
}

/* The arrays `reads` and `weights` must contain all values and weights that a step reads, because plan_step_of sets
 * these arrays to PLAN_NONE. */
_Static_assert(offsetof(struct plan_step, reads) + PLAN_READS * sizeof(int) == offsetof(struct plan_step, weights) &&
                   (offsetof(struct plan_step, weights) + PLAN_WEIGHTS * sizeof(int) + 7) / 8 * 8 ==
                       offsetof(struct plan_step, add_positions),
               "reads and weights are as long as the structs beside them");

struct plan_step plan_step_of(enum operation operation, int x)
{
    struct plan_step step;
    memset(&step, 0, sizeof step);
    step.operation = operation;
    step.only.axis = step.space = step.y = PLAN_NONE;
    for (int i = 0; i < PLAN_READS; i++)
        step.reads[i] = PLAN_NONE;
    for (int i = 0; i < PLAN_WEIGHTS; i++)
        step.weights[i] = PLAN_NONE;
    step.x = x;
    return step;
}

/* Appends the step, with a y that has the axis and columns of x. */
static int same_shape(struct plan_builder *builder, struct plan_step step)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct plan_value *x = plan_value_at(builder, step.x);
    return new_step(builder, step, x->axis, x->columns);
}

int plan_embed(struct plan_builder *builder, int ids, int table)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = plan_step_of(OP_EMBED, ids);
    step.table = table;
    return new_step(builder, step, plan_value_at(builder, ids)->axis, plan_weight_at(builder, table)->columns);
}

int plan_add_positions(struct plan_builder *builder, int x, int table, int minor_table, int64_t period)
{
    struct plan_step step = plan_step_of(OP_ADD_POSITIONS, x);
    step.table = table;
    step.minor_table = minor_table;
    step.add_positions.period = period;
    return same_shape(builder, step);
}

int plan_layer_norm(struct plan_builder *builder, int x, int gain, int bias, float epsilon)
{
    struct plan_step step = plan_step_of(OP_LAYER_NORM, x);
    step.weight = gain;
    step.bias = bias;
    step.layer_norm.epsilon = epsilon;
    return same_shape(builder, step);
}

int plan_group_norm(struct plan_builder *builder, int x, int64_t groups, int gain, int bias, float epsilon)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(groups >= 1 && plan_value_at(builder, x)->columns % groups == 0);
    struct plan_step step = plan_step_of(OP_GROUP_NORM, x);
    step.weight = gain;
    step.bias = bias;
    step.group_norm.groups = groups;
    step.group_norm.epsilon = epsilon;
    return same_shape(builder, step);
}

int plan_linear(struct plan_builder *builder, int x, int weight, int bias)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(plan_weight_at(builder, weight)->columns == plan_value_at(builder, x)->columns);
    struct plan_step step = plan_step_of(OP_LINEAR, x);
    step.weight = weight;
    step.bias = bias;
    return new_step(builder, step, plan_value_at(builder, x)->axis, plan_weight_at(builder, weight)->rows);
}

int plan_activate(struct plan_builder *builder, int x, enum activation activation)
{
    return plan_activate_with(builder, x, (struct plan_activation){.kind = activation}, false);
}

int plan_activate_with(struct plan_builder *builder, int x, struct plan_activation activation, bool to_ids)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct plan_value *of = plan_value_at(builder, x);
    struct plan_step step = plan_step_of(OP_ACTIVATE, x);
    step.activate.activation = activation;
    return plan_append_step(builder, step, (struct plan_target){of->axis, of->columns, to_ids, PLAN_NONE});
}

int plan_mask_rows(struct plan_builder *builder, int x, int mask)
{
    struct plan_step step = plan_step_of(OP_MASK_ROWS, x);
    step.z = mask;
    return same_shape(builder, step);
}

int plan_add_sinusoids(struct plan_builder *builder, int x, int frequencies)
{
    struct plan_step step = plan_step_of(OP_ADD_SINUSOIDS, x);
    step.weight = frequencies;
    return same_shape(builder, step);
}

int plan_add(struct plan_builder *builder, int x, int z, float scale)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(plan_value_at(builder, x)->axis == plan_value_at(builder, z)->axis);
    assert(plan_value_at(builder, x)->columns == plan_value_at(builder, z)->columns);
    struct plan_step step = plan_step_of(OP_ADD, x);
    step.z = z;
    step.add.scale = scale;
    return same_shape(builder, step);
}

/* The axis on which each sequence of x is replaced by a sequence of `rows` rows. */
static int made_axis(struct plan_builder *builder, int x, int64_t rows)
{
    int sequences = plan_sequences(builder->plan, plan_value_at(builder, x)->axis);
    if (sequences == PLAN_NONE)
        return plan_fixed_axis(builder, rows);
    return plan_sized_axis(builder, plan_size_constant(builder, rows), sequences);
}

/* Whether items have the same number of sequences in both values. A value of PLAN_NONE always agrees. */
static bool same_sequences(const struct plan_builder *builder, int a, int b)
{
    return a == PLAN_NONE || b == PLAN_NONE ||
           plan_sequences(builder->plan, plan_value_at(builder, a)->axis) ==
               plan_sequences(builder->plan, plan_value_at(builder, b)->axis);
}

int plan_project_sequence(struct plan_builder *builder, int x, struct plan_projection projection)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct plan_weight *weight = plan_weight_at(builder, projection.weight);
    struct plan_step step = plan_step_of(OP_PROJECT_SEQUENCE, x);
    step.weight = projection.weight;
    step.bias = projection.bias;
    step.project_sequence.groups = projection.groups;
    step.project_sequence.transposed = projection.transposed;
    int64_t k = projection.transposed ? weight->rows / projection.groups : weight->columns;
    return new_step(builder, step, made_axis(builder, x, k), plan_value_at(builder, x)->columns);
}

int plan_convolve_sequence(struct plan_builder *builder, int x, int weight, int bias, int64_t groups, int64_t stride,
                           int64_t length)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = plan_step_of(OP_CONVOLVE_SEQUENCE, x);
    step.weight = weight;
    step.bias = bias;
    step.convolve_sequence.groups = groups;
    step.convolve_sequence.stride = stride;
    return new_step(builder, step, made_axis(builder, x, length / stride), plan_value_at(builder, x)->columns);
}

int plan_project_call(struct plan_builder *builder, int x, int weight, int bias, int tail)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct plan_weight *e = plan_weight_at(builder, weight);
    struct plan_step step = plan_step_of(OP_PROJECT_CALL, x);
    step.weight = weight;
    step.bias = bias;
    step.tail = tail;
    int input = builder->plan->axes[plan_value_at(builder, x)->axis].input;
    int axis = plan_projected_axis(builder, input, e->rows, e->columns - (tail != PLAN_NONE));
    return new_step(builder, step, axis, plan_value_at(builder, x)->columns);
}

static struct plan_step attention_step(struct plan_builder *builder, enum operation operation, int queries, int keys,
                                       int values, struct plan_attention attention)
{
    struct plan_step step = plan_step_of(operation, queries);
    step.keys = keys;
    step.values = values;
    bool one = plan_sequences(builder->plan, plan_value_at(builder, queries)->axis) == PLAN_NONE;
    assert(same_sequences(builder, queries, keys) && same_sequences(builder, queries, values));
    assert(one || !attention.masked); /* a mask belongs to an item, not to a sequence */
    step.attend.index = one ? builder->plan->n_attentions++ : PLAN_NONE;
    step.attend.heads = attention.heads;
    step.attend.kv_heads = attention.kv_heads;
    step.attend.scale = attention.scale;
    step.attend.causal = attention.causal;
    step.attend.key_room = attention.key_room;
    step.attend.mask = PLAN_NONE;
    if (attention.masked) {
        step.attend.mask = attention.mask;
        step.attend.masked_byte = attention.masked_byte;
        step.attend.masked_score = attention.masked_score;
    }
    return step;
}

int plan_attend(struct plan_builder *builder, int queries, int keys, int values, struct plan_attention attention)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = attention_step(builder, OP_ATTEND, queries, keys, values, attention);
    return new_step(builder, step, plan_value_at(builder, queries)->axis,
                    plan_value_at(builder, values)->columns / attention.kv_heads * attention.heads);
}

int plan_attend_call(struct plan_builder *builder, int queries, int keys, int values, struct plan_attention attention)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = attention_step(builder, OP_ATTEND_CALL, queries, keys, values, attention);
    return new_step(builder, step, plan_value_at(builder, queries)->axis, plan_value_at(builder, queries)->columns);
}

int plan_shift_tokens(struct plan_builder *builder, int x, int64_t n_shifts, const int64_t *shifts)
{
    struct plan_step step = plan_step_of(OP_SHIFT_TOKENS, x);
    step.shift_tokens.count = n_shifts;
    memcpy(step.shift_tokens.by, shifts, (size_t)n_shifts * sizeof *shifts);
    return same_shape(builder, step);
}

int plan_rotate(struct plan_builder *builder, int x, int table)
{
    struct plan_step step = plan_step_of(OP_ROTATE, x);
    step.table = table;
    return same_shape(builder, step);
}

/* Returns a step with OP_LINEAR_ATTEND, which the caller completes. */
static struct plan_step linear_attend(int queries, int keys, int values, int mask, struct plan_head_range heads,
                                      int64_t fold)
{
    struct plan_step step = plan_step_of(OP_LINEAR_ATTEND, queries);
    step.keys = keys;
    step.values = values;
    step.z = mask;
    step.linear_attend.first_head = heads.first_head;
    step.linear_attend.heads = heads.heads;
    step.linear_attend.dim_head = heads.dim_head;
    step.linear_attend.dim_value = heads.dim_head;
    step.linear_attend.scale = 1.0f / sqrtf((float)heads.dim_head);
    step.linear_attend.bucket = 1;
    step.linear_attend.fold = fold;
    return step;
}

int plan_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                       struct plan_head_range heads, int64_t fold)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(same_sequences(builder, queries, keys) && same_sequences(builder, keys, mask));
    struct plan_step step = linear_attend(queries, keys, values, mask, heads, fold);
    return new_step(builder, step, plan_value_at(builder, queries)->axis, heads.heads * heads.dim_head);
}

int plan_causal_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                              struct plan_head_range heads, int64_t fold, int64_t bucket)
{
    if (builder->failed)
        return PLAN_NONE;
    int axis = plan_value_at(builder, queries)->axis;
    assert(same_sequences(builder, queries, mask));
    if (plan_value_at(builder, keys)->axis != axis || plan_value_at(builder, values)->axis != axis)
        return plan_fail(builder, "causal linear attention needs keys and values of the same sequence as the queries");
    struct plan_step step = linear_attend(queries, keys, values, mask, heads, fold);
    step.linear_attend.causal = true;
    step.linear_attend.bucket = bucket;
    return new_step(builder, step, axis, heads.heads * heads.dim_head);
}

int plan_image_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int64_t heads,
                             bool softmax_queries)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_head_range all = {0, heads, plan_value_at(builder, queries)->columns / heads};
    struct plan_step step = linear_attend(queries, keys, values, PLAN_NONE, all, 1);
    step.linear_attend.dim_value = plan_value_at(builder, values)->columns / heads;
    step.linear_attend.scale = 1.0f;
    step.linear_attend.raw_queries = !softmax_queries;
    return new_step(builder, step, plan_value_at(builder, queries)->axis, heads * step.linear_attend.dim_value);
}

int plan_local_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                      struct plan_head_range heads, int64_t window, bool causal)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = plan_step_of(OP_LOCAL_ATTEND, queries);
    step.keys = keys;
    step.values = values;
    step.z = mask;
    step.local_attend.first_head = heads.first_head;
    step.local_attend.heads = heads.heads;
    step.local_attend.dim_head = heads.dim_head;
    step.local_attend.window = window;
    step.local_attend.causal = causal;
    return new_step(builder, step, plan_value_at(builder, queries)->axis, heads.heads * heads.dim_head);
}

int plan_concatenate(struct plan_builder *builder, int x, int z)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(plan_value_at(builder, x)->axis == plan_value_at(builder, z)->axis);
    struct plan_step step = plan_step_of(OP_CONCATENATE, x);
    step.z = z;
    int64_t columns = plan_value_at(builder, x)->columns + plan_value_at(builder, z)->columns;
    return new_step(builder, step, plan_value_at(builder, x)->axis, columns);
}

/* The axis on which each sequence consists of its rows in both values. */
static int appended_axis(struct plan_builder *builder, int first, int second)
{
    const struct plan_axis a = builder->plan->axes[first], b = builder->plan->axes[second];
    if (plan_sequences(builder->plan, first) == PLAN_NONE)
        return plan_joined_axis(builder, first, second);
    if (a.kind != AXIS_SIZED || b.kind != AXIS_SIZED)
        return plan_fail(builder, "rows cannot be appended to padded sequences if an item has several sequences");
    return plan_sized_axis(builder, plan_size_add(builder, a.sized.rows, b.sized.rows), a.sized.sequences);
}

int plan_append_rows(struct plan_builder *builder, int x, int z)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(plan_value_at(builder, x)->columns == plan_value_at(builder, z)->columns);
    struct plan_step step = plan_step_of(OP_APPEND_ROWS, x);
    step.z = z;
    assert(same_sequences(builder, x, z));
    int axis = appended_axis(builder, plan_value_at(builder, x)->axis, plan_value_at(builder, z)->axis);
    return axis == PLAN_NONE ? PLAN_NONE : new_step(builder, step, axis, plan_value_at(builder, x)->columns);
}

/* The axis of a convolution's result. */
static int convolved_axis(struct plan_builder *builder, int axis, const struct plan_convolution *convolution)
{
    const struct plan_axis *of = &builder->plan->axes[axis];
    if (convolution->height == PLAN_NONE && convolution->keeps_pixels)
        return axis;
    if (convolution->height == PLAN_NONE)
        return plan_window_axis(builder, of->input, &convolution->window);
    int sequences = of->kind == AXIS_SIZED ? of->sized.sequences : plan_size_constant(builder, 1);
    int rows = plan_size_multiply(builder, convolution->made_height, convolution->made_width);
    return plan_sized_axis(builder, rows, sequences);
}

/* Whether each pixel of y depends only on the pixel of x at the same place, so that the convolution is a product. */
static bool is_pointwise(const struct plan_convolution *convolution)
{
    const struct plan_window *window = &convolution->window;
    bool pointwise = convolution->height != PLAN_NONE && convolution->groups == 1 && convolution->scale == 1.0f;
    for (int i = 0; i < 2; i++)
        pointwise &= window->size[i] == 1 && window->stride[i] == 1 && window->before[i] == 0 && window->after[i] == 0;
    return pointwise;
}

int plan_convolve_image(struct plan_builder *builder, int x, struct plan_convolution convolution)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct plan_window *window = &convolution.window;
    int64_t depth = plan_value_at(builder, x)->columns / convolution.groups;
    int64_t out = plan_weight_at(builder, convolution.weight)->rows;
    assert(plan_value_at(builder, x)->columns % convolution.groups == 0 && out % convolution.groups == 0);
    assert(plan_weight_at(builder, convolution.weight)->columns == depth * window->size[0] * window->size[1]);
    if (is_pointwise(&convolution))
        return plan_linear(builder, x, convolution.weight, convolution.bias);
    struct plan_step step = plan_step_of(OP_CONVOLVE_IMAGE, x);
    step.weight = convolution.weight;
    step.bias = convolution.bias;
    step.convolve_image.scale = convolution.scale;
    step.convolve_image.groups = convolution.groups;
    step.convolve_image.height = convolution.height;
    step.convolve_image.width = convolution.width;
    step.convolve_image.window = *window;
    if (convolution.groups > 1 && depth > 1)
        step.operation = OP_CONVOLVE_GROUPS;
    if (convolution.groups > 1 && depth == 1) {
        step.operation = OP_CONVOLVE_CHANNELS;
        step.weight = plan_transpose(builder, convolution.weight, out);
    }
    int axis = convolved_axis(builder, plan_value_at(builder, x)->axis, &convolution);
    return axis == PLAN_NONE ? PLAN_NONE : new_step(builder, step, axis, out);
}

int plan_gate(struct plan_builder *builder, int x, struct plan_activation activation)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = plan_step_of(OP_GATE, x);
    step.gate.activation = activation;
    return new_step(builder, step, plan_value_at(builder, x)->axis, plan_value_at(builder, x)->columns / 2);
}

int plan_retrieve(struct plan_builder *builder, int x, int keys, int values, int64_t heads)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(plan_weight_at(builder, keys)->rows / heads / 2 >= PLAN_BEST_KEYS);
    struct plan_step step = plan_step_of(OP_RETRIEVE, x);
    step.value_table = values;
    step.key_table = keys;
    step.retrieve.heads = heads;
    return new_step(builder, step, plan_value_at(builder, x)->axis, plan_weight_at(builder, values)->columns);
}

/* Appends a step that copies rows of x, which may be floats or ids, to another axis. */
static int new_rows(struct plan_builder *builder, struct plan_step step, int axis)
{
    struct plan_value x = *plan_value_at(builder, step.x);
    int y = new_step(builder, step, axis, x.columns);
    if (y != PLAN_NONE)
        builder->plan->values[y].ids = x.ids;
    return y;
}

int plan_cut_padding(struct plan_builder *builder, int x)
{
    if (builder->failed || x == PLAN_NONE)
        return PLAN_NONE;
    struct plan_axis axis = builder->plan->axes[plan_value_at(builder, x)->axis];
    bool padded = axis.kind == AXIS_PADDED ||
                  (axis.kind == AXIS_INPUT && (axis.input_padding.rows || axis.input_padding.multiple));
    if (!padded)
        return x;
    int own = axis.kind == AXIS_PADDED ? axis.padded.of : plan_unpadded_axis(builder, axis.input);
    return new_rows(builder, plan_step_of(OP_CUT_PADDING, x), own);
}

int plan_reshape(struct plan_builder *builder, int x, int axis, int64_t columns)
{
    if (builder->failed)
        return PLAN_NONE;
    int y = new_step(builder, plan_step_of(OP_RESHAPE, x), axis, columns);
    if (y != PLAN_NONE)
        builder->plan->values[y].ids = plan_value_at(builder, x)->ids;
    return y;
}

int plan_pad_rows(struct plan_builder *builder, int x, struct plan_padding padding)
{
    if (builder->failed)
        return PLAN_NONE;
    int axis = plan_padded_axis(builder, plan_value_at(builder, x)->axis, padding);
    return axis == PLAN_NONE ? PLAN_NONE : new_rows(builder, plan_step_of(OP_PAD_ROWS, x), axis);
}

int plan_pad_mask(struct plan_builder *builder, int mask, int padded)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct plan *plan = builder->plan;
    int axis = plan_value_at(builder, padded)->axis;
    assert(plan->axes[axis].kind == AXIS_PADDED);
    bool fills_ones = plan->axes[axis].padded.by.multiple == 0;
    if (mask == PLAN_NONE && fills_ones)
        return PLAN_NONE;
    struct plan_step step = plan_step_of(OP_PAD_ROWS, mask);
    step.pad_rows.fill = fills_ones;
    if (mask != PLAN_NONE)
        return new_rows(builder, step, axis);
    step.x = plan->steps[plan_writer(plan, padded)].x;
    step.pad_rows.ones = true;
    int y = new_step(builder, step, axis, 1);
    if (y != PLAN_NONE)
        builder->plan->values[y].ids = true;
    return y;
}

/* Returns the step, which the caller completes. NULL if the builder has failed. */
static struct plan_step *give(struct plan_builder *builder, enum operation operation, int x)
{
    struct plan_step *step = NULL;
    if (!builder->failed)
        step = plan_grow(builder, &builder->plan->steps, &builder->plan->n_steps, sizeof *step);
    if (step)
        *step = plan_step_of(operation, x);
    return step;
}

void plan_give(struct plan_builder *builder, int hidden, int weight, int bias, bool logits)
{
    if (builder->scope.leaf) {
        plan_give_bound(builder, hidden, weight, bias);
        return;
    }
    give(builder, OP_GIVE_HIDDEN, hidden);
    give(builder, OP_GIVE_POOLED, hidden);
    struct plan_step *output = give(builder, OP_GIVE_OUTPUT, hidden);
    if (!output)
        return;
    output->weight = weight;
    output->bias = bias;
    struct plan *plan = builder->plan;
    plan->hidden_columns = plan_value_at(builder, hidden)->columns;
    plan->hidden_axis = plan_value_at(builder, hidden)->axis;
    plan->output_columns = weight == PLAN_NONE ? plan->hidden_columns : plan_weight_at(builder, weight)->rows;
    plan->has_logits = logits;
}

void plan_give_vector(struct plan_builder *builder)
{
    int64_t rows;
    if (builder->failed)
        return;
    assert(plan_rows_are_constant(builder->plan, builder->plan->hidden_axis, &rows) && rows == 1);
    builder->plan->vector = true;
}

void plan_add_output(struct plan_builder *builder, const char *name, int rank, const int *sizes)
{
    struct plan *plan = builder->plan;
    if (rank > ENGINE_MAX_RANK) {
        plan_fail(builder, "output \"%s\" has %d dimensions besides the batch; expected at most %d", name, rank,
                  ENGINE_MAX_RANK);
        return;
    }
    char *copy = builder->failed ? NULL : strdup(name);
    struct plan_output *output = copy ? plan_grow(builder, &plan->outputs, &plan->n_outputs, sizeof *output) : NULL;
    if (!output) {
        free(copy);
        plan_fail(builder, "out of memory while building the plan");
        return;
    }
    output->name = copy;
    output->rank = rank;
    for (int i = 0; i < rank; i++) /* memcpy must not be called with NULL, which `sizes` may be if the rank is 0 */
        output->sizes[i] = sizes[i];
}

void plan_add_node(struct plan_builder *builder, const char *name, const char *operation, const struct plan_node *shape)
{
    struct plan *plan = builder->plan;
    struct plan_node *node = builder->failed ? NULL : plan_grow(builder, &plan->nodes, &plan->n_nodes, sizeof *node);
    if (!node)
        return;
    *node = *shape;
    node->name = strdup(name);
    node->operation = strdup(operation);
    if (!node->name || !node->operation)
        plan_fail(builder, "out of memory while building the plan");
}

/* The index of the size that is the number of elements of an item's tensor. */
static int elements_of_output(struct plan_builder *builder, const struct plan_output *output)
{
    int elements = plan_size_constant(builder, 1);
    for (int d = 0; d < output->rank; d++)
        elements = plan_size_multiply(builder, elements, output->sizes[d]);
    return elements;
}

/* The index of the size that is the number of elements in an item's rows of x. PLAN_NONE if it is unknown. */
static int elements_of_value(struct plan_builder *builder, const struct plan_value *x)
{
    const struct plan_axis axis = builder->plan->axes[x->axis];
    int columns = plan_size_constant(builder, x->columns);
    if (axis.kind == AXIS_FIXED)
        return plan_size_multiply(builder, plan_size_constant(builder, axis.rows_per_item), columns);
    if (axis.kind == AXIS_SIZED)
        return plan_size_multiply(builder, plan_size_multiply(builder, axis.sized.rows, axis.sized.sequences), columns);
    return PLAN_NONE;
}

void plan_give_tensor(struct plan_builder *builder, int x, int output)
{
    if (builder->failed)
        return;
    assert(output < builder->plan->n_outputs);
    const struct plan_value value = *plan_value_at(builder, x);
    const struct plan_output to = builder->plan->outputs[output];
    int found = elements_of_value(builder, &value), expected = elements_of_output(builder, &to);
    if (!builder->failed && found != PLAN_NONE && found != expected) {
        char found_text[96], expected_text[96];
        plan_fail(builder, "output \"%s\" has %s elements; its shape requires %s", to.name,
                  plan_size_text(builder->plan, found, found_text, sizeof found_text),
                  plan_size_text(builder->plan, expected, expected_text, sizeof expected_text));
    }
    struct plan_step *step = give(builder, OP_GIVE_TENSOR, x);
    if (step)
        step->give_tensor.output = output;
}

void plan_give_image(struct plan_builder *builder, int x)
{
    if (builder->scope.leaf) {
        plan_give_bound(builder, x, PLAN_NONE, PLAN_NONE);
        return;
    }
    if (!give(builder, OP_GIVE_IMAGE, x))
        return;
    struct plan *plan = builder->plan;
    plan->hidden_columns = plan->output_columns = plan_value_at(builder, x)->columns;
    plan->hidden_axis = plan_value_at(builder, x)->axis;
}

void plan_name_outputs(struct plan_builder *builder, const char *output, const char *attention)
{
    if (builder->scope.leaf)
        return;
    builder->plan->output_name = output;
    builder->plan->attention_name = attention;
}

void plan_shape_output(struct plan_builder *builder, int count, const int64_t *sizes)
{
    assert(count < ENGINE_MAX_RANK);
    if (builder->scope.leaf)
        return;
    builder->plan->n_output_sizes = count;
    memcpy(builder->plan->output_sizes, sizes, (size_t)count * sizeof *sizes);
}
