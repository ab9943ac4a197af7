/* Building a plan: weights by name, one function an operation. plan_memory.c and plan_fuse.c finish it. */
#include "engine/plan.h"
#include "engine/plan_passes.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const operation_names[OP_COUNT] = {
    [OP_EMBED] = "embed",
    [OP_ADD_POSITIONS] = "add_positions",
    [OP_LAYER_NORM] = "layer_norm",
    [OP_LINEAR] = "linear",
    [OP_ACTIVATE] = "activate",
    [OP_ADD] = "add",
    [OP_MASK_ROWS] = "mask_rows",
    [OP_ADD_SINUSOIDS] = "add_sinusoids",
    [OP_PROJECT_SEQUENCE] = "project_sequence",
    [OP_CONVOLVE_SEQUENCE] = "convolve_sequence",
    [OP_PROJECT_CALL] = "project_call",
    [OP_ATTEND] = "attend",
    [OP_ATTEND_CALL] = "attend_call",
    [OP_SHIFT_TOKENS] = "shift_tokens",
    [OP_ROTATE] = "rotate",
    [OP_LINEAR_ATTEND] = "linear_attend",
    [OP_LOCAL_ATTEND] = "local_attend",
    [OP_CONCATENATE] = "concatenate",
    [OP_GATE] = "gate",
    [OP_CUT_PADDING] = "cut_padding",
    [OP_GIVE_HIDDEN] = "give_hidden",
    [OP_GIVE_POOLED] = "give_pooled",
    [OP_GIVE_OUTPUT] = "give_output",
};

const char *operation_name(enum operation operation)
{
    return operation_names[operation];
}

int plan_fail(struct plan_builder *builder, const char *format, ...)
{
    if (builder->failed)
        return PLAN_NONE;
    builder->failed = true;
    va_list arguments;
    va_start(arguments, format);
    char message[sizeof builder->error->message];
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_set(builder->error, "%s", message);
    return PLAN_NONE;
}

/* Appends a zeroed element to one of the plan's arrays, whose room is always the next power of two. NULL: failed. */
static void *grow(struct plan_builder *builder, void *array, int *count, size_t size)
{
    void **elements = array;
    if ((*count & (*count - 1)) == 0) {
        size_t room = *count ? 2 * (size_t)*count : 1;
        void *larger = realloc(*elements, room * size);
        if (!larger) {
            plan_fail(builder, "out of memory while building the plan");
            return NULL;
        }
        *elements = larger;
    }
    void *element = (char *)*elements + (size_t)*count * size;
    memset(element, 0, size);
    ++*count;
    return element;
}

int plan_begin(struct plan_builder *builder, const struct weights *weights, struct error *error)
{
    memset(builder, 0, sizeof *builder);
    builder->weights = weights;
    builder->error = error;
    for (size_t i = 0; i < weights_count(weights); i++)
        builder->all_elements += weights_at(weights, i)->elements;
    builder->plan = calloc(1, sizeof *builder->plan);
    builder->used = calloc(weights_count(weights) + 1, sizeof *builder->used);
    if (!builder->plan || !builder->used) {
        free(builder->plan);
        free(builder->used);
        return error_set(error, "out of memory while building the plan");
    }
    builder->plan->output_name = "output";
    return 0;
}

/* Every tensor of the file must have been taken: what is left over means another class or other arguments. */
static void refuse_surplus(struct plan_builder *builder)
{
    for (size_t i = 0; i < weights_count(builder->weights); i++) {
        const struct weights_tensor *tensor = weights_at(builder->weights, i);
        char shape[128];
        if (!builder->used[i])
            plan_fail(builder, "%s: tensor \"%s\" %s is surplus: the class with these kwargs has no such parameter",
                      weights_origin(builder->weights), tensor->name,
                      weights_shape_text(tensor->rank, tensor->shape, shape, sizeof shape));
    }
}

static void drop_unread_weights(struct plan *plan)
{
    for (int w = 0; w < plan->n_weights; w++) {
        bool read = false;
        for (int i = 0; i < plan->n_steps && !read; i++)
            read = plan->steps[i].weight == w || plan->steps[i].bias == w || plan->steps[i].tail == w;
        if (!read) {
            free(plan->weights[w].data);
            plan->weights[w].data = NULL;
            plan->weights[w].rows = plan->weights[w].columns = 0;
        }
    }
}

int plan_finish(struct plan_builder *builder, int64_t max_rows, int64_t max_items, struct plan **plan)
{
    refuse_surplus(builder);
    if (!builder->failed) {
        drop_unread_weights(builder->plan);
        plan_fuse(builder->plan);
    }
    if (!builder->failed && plan_place_values(builder->plan, max_rows, max_items, builder->error) != 0)
        builder->failed = true;
    free(builder->used);
    if (builder->failed) {
        plan_free(builder->plan);
        return -1;
    }
    *plan = builder->plan;
    return 0;
}

void plan_drop_weight_data(struct plan *plan)
{
    for (int i = 0; i < plan->n_weights; i++) {
        free(plan->weights[i].data);
        plan->weights[i].data = NULL;
    }
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    plan_drop_weight_data(plan);
    for (int i = 0; i < plan->n_weights; i++)
        free(plan->weights[i].name);
    free(plan->axes);
    free(plan->values);
    free(plan->weights);
    free(plan->steps);
    free(plan);
}

int64_t plan_value_rows(const struct plan *plan, int value, int64_t rows, int64_t items)
{
    const struct plan_axis *axis = &plan->axes[plan->values[value].axis];
    if (axis->input == PLAN_NONE)
        return axis->rows_per_item * items;
    return axis->n ? rows / axis->n * axis->k : rows;
}

/* ---- Axes and values ---- */

static int ragged_axis(struct plan_builder *builder, int input)
{
    struct plan_axis *axis = grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    axis->input = input;
    return builder->plan->n_axes - 1;
}

/* The rows that an input's items have without padding. */
static int unpadded_axis(struct plan_builder *builder, int input)
{
    const struct plan *plan = builder->plan;
    for (int i = 0; i < plan->n_axes; i++)
        if (plan->axes[i].input == input && plan->axes[i].padded_rows == 0 && plan->axes[i].row_multiple == 0 &&
            plan->axes[i].n == 0)
            return i;
    return ragged_axis(builder, input);
}

static int fixed_axis(struct plan_builder *builder, int64_t rows_per_item)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i < plan->n_axes; i++)
        if (plan->axes[i].input == PLAN_NONE && plan->axes[i].rows_per_item == rows_per_item)
            return i;
    struct plan_axis *axis = grow(builder, &plan->axes, &plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    *axis = (struct plan_axis){.input = PLAN_NONE, .rows_per_item = rows_per_item};
    return plan->n_axes - 1;
}

/* k rows for each n of the input's. */
static int projected_axis(struct plan_builder *builder, int input, int64_t k, int64_t n)
{
    struct plan_axis *axis = grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    *axis = (struct plan_axis){.input = input, .k = k, .n = n};
    return builder->plan->n_axes - 1;
}

static int new_value(struct plan_builder *builder, int axis, int64_t columns)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_value *value = grow(builder, &builder->plan->values, &builder->plan->n_values, sizeof *value);
    if (!value)
        return PLAN_NONE;
    value->axis = axis;
    value->columns = columns;
    return builder->plan->n_values - 1;
}

/* Appends the step, with a new value of the given axis and columns as its y. */
static int new_step(struct plan_builder *builder, struct plan_step step, int axis, int64_t columns)
{
    step.y = new_value(builder, axis, columns);
    struct plan_step *place = NULL;
    if (!builder->failed)
        place = grow(builder, &builder->plan->steps, &builder->plan->n_steps, sizeof *place);
    if (!place)
        return PLAN_NONE;
    *place = step;
    return step.y;
}

static const struct plan_step no_step = {
    .x = PLAN_NONE,
    .y = PLAN_NONE,
    .z = PLAN_NONE,
    .keys = PLAN_NONE,
    .values = PLAN_NONE,
    .weight = PLAN_NONE,
    .bias = PLAN_NONE,
    .tail = PLAN_NONE,
    .mask = PLAN_NONE,
};

static const struct plan_value *value_at(const struct plan_builder *builder, int value)
{
    return &builder->plan->values[value];
}

static const struct plan_weight *weight_at(const struct plan_builder *builder, int weight)
{
    return &builder->plan->weights[weight];
}

/* ---- Inputs ---- */

/* `axis` PLAN_NONE: one of its own. */
static int new_input(struct plan_builder *builder, struct plan_input input, int axis)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan *plan = builder->plan;
    assert(plan->n_inputs < ENGINE_MAX_INPUTS);
    if (axis == PLAN_NONE)
        axis = ragged_axis(builder, plan->n_inputs);
    input.value = new_value(builder, axis, input.input.columns);
    if (input.value == PLAN_NONE)
        return PLAN_NONE;
    plan->values[input.value].ids = input.input.kind != INPUT_ROWS;
    input.input.min_length = 1;
    input.input.multiple = 1;
    input.own_limit = input.input.max_length != 0;
    plan->inputs[plan->n_inputs++] = input;
    return input.value;
}

int plan_input_ids(struct plan_builder *builder, const char *name, int64_t vocabulary, int64_t max_length, int fallback)
{
    struct model_input input = {.name = name,
                                .kind = INPUT_IDS,
                                .columns = 1,
                                .vocabulary = vocabulary,
                                .like = PLAN_NONE,
                                .max_length = max_length,
                                .optional = fallback != PLAN_NONE};
    return new_input(builder, (struct plan_input){.input = input, .fallback = fallback}, PLAN_NONE);
}

int plan_input_rows(struct plan_builder *builder, const char *name, int64_t columns, int64_t max_length, int fallback)
{
    struct model_input input = {.name = name,
                                .kind = INPUT_ROWS,
                                .columns = columns,
                                .like = PLAN_NONE,
                                .max_length = max_length,
                                .optional = fallback != PLAN_NONE};
    return new_input(builder, (struct plan_input){.input = input, .fallback = fallback}, PLAN_NONE);
}

static int input_like(struct plan_builder *builder, struct model_input input, int like, int fallback)
{
    if (builder->failed)
        return PLAN_NONE;
    int axis = value_at(builder, like)->axis;
    input.like = builder->plan->axes[axis].input;
    input.layout = builder->plan->inputs[input.like].input.layout;
    return new_input(builder, (struct plan_input){.input = input, .fallback = fallback}, axis);
}

int plan_input_mask(struct plan_builder *builder, const char *name, int like)
{
    struct model_input input = {.name = name, .kind = INPUT_MASK, .columns = 1, .optional = true};
    return input_like(builder, input, like, PLAN_NONE);
}

int plan_input_rows_like(struct plan_builder *builder, const char *name, int64_t columns, int like, int fallback)
{
    struct model_input input = {
        .name = name, .kind = INPUT_ROWS, .columns = columns, .optional = fallback != PLAN_NONE};
    return input_like(builder, input, like, fallback);
}

int plan_input_beside(struct plan_builder *builder, struct model_input mask, int like)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan *plan = builder->plan;
    assert(plan->n_inputs < ENGINE_MAX_INPUTS);
    mask.like = plan->axes[value_at(builder, like)->axis].input;
    mask.layout = plan->inputs[mask.like].input.layout;
    mask.optional = true;
    plan->inputs[plan->n_inputs] = (struct plan_input){.input = mask, .value = PLAN_NONE, .fallback = PLAN_NONE};
    return plan->n_inputs++;
}

void plan_call_layout(struct plan_builder *builder, int input_value)
{
    if (!builder->failed)
        builder->plan->inputs[builder->plan->axes[value_at(builder, input_value)->axis].input].input.layout =
            LAYOUT_CALL;
}

void plan_pad(struct plan_builder *builder, int input_value, int64_t rows)
{
    if (!builder->failed)
        builder->plan->axes[value_at(builder, input_value)->axis].padded_rows = rows;
}

void plan_pad_to_multiple(struct plan_builder *builder, int input_value, int64_t multiple)
{
    if (!builder->failed)
        builder->plan->axes[value_at(builder, input_value)->axis].row_multiple = multiple;
}

void plan_require_multiple(struct plan_builder *builder, int input_value, int64_t multiple)
{
    for (int i = 0; !builder->failed && i < builder->plan->n_inputs; i++)
        if (builder->plan->inputs[i].value == input_value)
            builder->plan->inputs[i].input.multiple = multiple;
}

enum padding plan_choose_padding(struct plan_builder *builder, const char *class_name, enum padding asked,
                                 const enum padding *allowed)
{
    enum padding chosen = asked == PADDING_DEFAULT ? allowed[0] : asked;
    char can[80] = "";
    builder->plan->padding = chosen;
    for (size_t i = 0; allowed[i] != PADDING_DEFAULT; i++) {
        if (allowed[i] == chosen)
            return chosen;
        size_t length = strlen(can);
        snprintf(can + length, sizeof can - length, "%s%s", length ? " or " : "", padding_name(allowed[i]));
    }
    plan_fail(builder, "padding \"%s\": %s can have %s with these kwargs", padding_name(asked), class_name, can);
    return chosen;
}

/* ---- Weights ---- */

/* The tensor of that name, once its shape and dtype are what the class has. */
static const struct weights_tensor *take_tensor(struct plan_builder *builder, const char *name, int rank,
                                                const int64_t *shape)
{
    const struct weights_tensor *tensor = weights_find(builder->weights, name);
    const char *origin = weights_origin(builder->weights);
    char expected[128], found[128];
    weights_shape_text(rank, shape, expected, sizeof expected);
    if (!tensor) {
        plan_fail(builder, "%s: tensor \"%s\" %s is missing", origin, name, expected);
        return NULL;
    }
    weights_shape_text(tensor->rank, tensor->shape, found, sizeof found);
    if (tensor->rank != rank || memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape) != 0) {
        plan_fail(builder, "%s: tensor \"%s\": expected shape %s, found %s", origin, name, expected, found);
        return NULL;
    }
    builder->used[weights_index(builder->weights, tensor)] = true;
    return tensor;
}

/* The weight that was made of the tensor: a shared one is held once. */
static int find_taken(const struct plan_builder *builder, const struct weights_tensor *tensor)
{
    int64_t index = (int64_t)weights_index(builder->weights, tensor);
    for (int i = 0; i < builder->plan->n_weights; i++)
        if (builder->plan->weights[i].tensor == index)
            return i;
    return PLAN_NONE;
}

static int take_weight(struct plan_builder *builder, int rank, const int64_t *shape, const char *format,
                       va_list arguments)
{
    char name[256];
    vsnprintf(name, sizeof name, format, arguments);
    if (builder->failed)
        return PLAN_NONE;
    const struct weights_tensor *tensor = take_tensor(builder, name, rank, shape);
    int taken = tensor ? find_taken(builder, tensor) : PLAN_NONE;
    if (taken != PLAN_NONE)
        return taken;
    struct plan_weight *weight =
        tensor ? grow(builder, &builder->plan->weights, &builder->plan->n_weights, sizeof *weight) : NULL;
    if (!weight)
        return PLAN_NONE;
    for (int i = 0; i < rank; i++) /* products count in int */
        if (shape[i] > INT32_MAX)
            return plan_fail(builder, "tensor \"%s\": a size of %lld is too large", name, (long long)shape[i]);
    weight->columns = shape[rank - 1];
    weight->rows = weight->columns ? tensor->elements / weight->columns : 0;
    weight->tensor = (int64_t)weights_index(builder->weights, tensor);
    weight->name = strdup(name);
    weight->data = malloc((size_t)tensor->elements * sizeof *weight->data + 1);
    if (!weight->name || !weight->data)
        return plan_fail(builder, "out of memory for tensor \"%s\" (%lld floats)", name, (long long)tensor->elements);
    bool converted = weights_to_f32(tensor, weight->data);
    builder->taken_elements += tensor->elements;
    if (builder->progress)
        builder->progress(builder->progress_context, (double)builder->taken_elements / (double)builder->all_elements);
    if (!converted)
        return plan_fail(builder, "%s: tensor \"%s\": expected dtype F32, F16, BF16 or F64, found %s",
                         weights_origin(builder->weights), name, weights_dtype_name(tensor->dtype));
    return builder->plan->n_weights - 1;
}

int plan_vector(struct plan_builder *builder, int64_t columns, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int weight = take_weight(builder, 1, &columns, format, arguments);
    va_end(arguments);
    return weight;
}

int plan_matrix(struct plan_builder *builder, int64_t rows, int64_t columns, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int weight = take_weight(builder, 2, (const int64_t[]){rows, columns}, format, arguments);
    va_end(arguments);
    return weight;
}

int plan_tensor(struct plan_builder *builder, int rank, const int64_t *shape, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int weight = take_weight(builder, rank, shape, format, arguments);
    va_end(arguments);
    return weight;
}

void plan_shared(struct plan_builder *builder, int weight, const char *format, ...)
{
    char name[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    if (builder->failed)
        return;
    const struct weights_tensor *first = weights_at(builder->weights, (size_t)weight_at(builder, weight)->tensor);
    const struct weights_tensor *tensor = take_tensor(builder, name, first->rank, first->shape);
    if (tensor && tensor != first &&
        (tensor->dtype != first->dtype || memcmp(tensor->data, first->data, first->bytes) != 0))
        plan_fail(builder, "%s: tensor \"%s\" differs from \"%s\": the class with these kwargs shares one for both",
                  weights_origin(builder->weights), name, first->name);
}

/* A weight without data yet, named after one that it is made of. NULL: failed. */
static struct plan_weight *derived_weight(struct plan_builder *builder, int from, int64_t rows, int64_t columns)
{
    struct plan_weight *weight = grow(builder, &builder->plan->weights, &builder->plan->n_weights, sizeof *weight);
    if (!weight)
        return NULL;
    weight->rows = rows;
    weight->columns = columns;
    weight->tensor = -1;
    weight->name = strdup(weight_at(builder, from)->name);
    weight->data = malloc((size_t)(rows * columns) * sizeof *weight->data + 1);
    if (weight->name && weight->data)
        return weight;
    plan_fail(builder, "out of memory for %lld weights", (long long)(rows * columns));
    return NULL;
}

int plan_stack(struct plan_builder *builder, const int *weights, int64_t count)
{
    if (builder->failed)
        return PLAN_NONE;
    int64_t rows = 0, columns = weight_at(builder, weights[0])->columns;
    for (int64_t i = 0; i < count; i++) {
        assert(weight_at(builder, weights[i])->columns == columns);
        rows += weight_at(builder, weights[i])->rows;
    }
    struct plan_weight *stack = derived_weight(builder, weights[0], rows, columns);
    if (!stack)
        return PLAN_NONE;
    float *to = stack->data;
    for (int64_t i = 0; i < count; i++) {
        const struct plan_weight *part = weight_at(builder, weights[i]);
        memcpy(to, part->data, (size_t)(part->rows * columns) * sizeof *to);
        to += part->rows * columns;
    }
    return builder->plan->n_weights - 1;
}

int plan_part(struct plan_builder *builder, int weight, int64_t first, int64_t rows, int64_t columns)
{
    struct plan_weight *part = builder->failed ? NULL : derived_weight(builder, weight, rows, columns);
    if (!part)
        return PLAN_NONE;
    memcpy(part->data, weight_at(builder, weight)->data + first, (size_t)(rows * columns) * sizeof *part->data);
    return builder->plan->n_weights - 1;
}

int plan_transpose(struct plan_builder *builder, int weight, int64_t rows)
{
    if (builder->failed)
        return PLAN_NONE;
    int64_t columns = weight_at(builder, weight)->rows * weight_at(builder, weight)->columns / rows;
    struct plan_weight *transposed = derived_weight(builder, weight, columns, rows);
    if (!transposed)
        return PLAN_NONE;
    const float *from = weight_at(builder, weight)->data;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            transposed->data[c * rows + r] = from[r * columns + c];
    return builder->plan->n_weights - 1;
}

/* ---- Operations ---- */

int plan_embed(struct plan_builder *builder, int ids, int table)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = no_step;
    step.operation = OP_EMBED;
    step.x = ids;
    step.weight = table;
    return new_step(builder, step, value_at(builder, ids)->axis, weight_at(builder, table)->columns);
}

int plan_add_positions(struct plan_builder *builder, int x, int table, int minor_table, int64_t period)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = no_step;
    step.operation = OP_ADD_POSITIONS;
    step.x = x;
    step.weight = table;
    step.bias = minor_table;
    step.period = period;
    return new_step(builder, step, value_at(builder, x)->axis, value_at(builder, x)->columns);
}

int plan_layer_norm(struct plan_builder *builder, int x, int gain, int bias, float epsilon)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = no_step;
    step.operation = OP_LAYER_NORM;
    step.x = x;
    step.weight = gain;
    step.bias = bias;
    step.epsilon = epsilon;
    return new_step(builder, step, value_at(builder, x)->axis, value_at(builder, x)->columns);
}

int plan_linear(struct plan_builder *builder, int x, int weight, int bias)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(weight_at(builder, weight)->columns == value_at(builder, x)->columns);
    struct plan_step step = no_step;
    step.operation = OP_LINEAR;
    step.x = x;
    step.weight = weight;
    step.bias = bias;
    return new_step(builder, step, value_at(builder, x)->axis, weight_at(builder, weight)->rows);
}

int plan_activate(struct plan_builder *builder, int x, enum activation activation)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = no_step;
    step.operation = OP_ACTIVATE;
    step.x = x;
    step.activation = activation;
    return new_step(builder, step, value_at(builder, x)->axis, value_at(builder, x)->columns);
}

int plan_mask_rows(struct plan_builder *builder, int x, int mask)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = no_step;
    step.operation = OP_MASK_ROWS;
    step.x = x;
    step.z = mask;
    return new_step(builder, step, value_at(builder, x)->axis, value_at(builder, x)->columns);
}

int plan_add_sinusoids(struct plan_builder *builder, int x, int frequencies)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = no_step;
    step.operation = OP_ADD_SINUSOIDS;
    step.x = x;
    step.weight = frequencies;
    return new_step(builder, step, value_at(builder, x)->axis, value_at(builder, x)->columns);
}

int plan_add(struct plan_builder *builder, int x, int z, float scale)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(value_at(builder, x)->axis == value_at(builder, z)->axis);
    assert(value_at(builder, x)->columns == value_at(builder, z)->columns);
    struct plan_step step = no_step;
    step.operation = OP_ADD;
    step.x = x;
    step.z = z;
    step.scale = scale;
    return new_step(builder, step, value_at(builder, x)->axis, value_at(builder, x)->columns);
}

int plan_project_sequence(struct plan_builder *builder, int x, struct plan_projection projection)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct plan_weight *weight = weight_at(builder, projection.weight);
    struct plan_step step = no_step;
    step.operation = OP_PROJECT_SEQUENCE;
    step.x = x;
    step.weight = projection.weight;
    step.bias = projection.bias;
    step.groups = projection.groups;
    step.transposed = projection.transposed;
    int64_t k = projection.transposed ? weight->rows / projection.groups : weight->columns;
    return new_step(builder, step, fixed_axis(builder, k), value_at(builder, x)->columns);
}

int plan_convolve_sequence(struct plan_builder *builder, int x, int weight, int bias, int64_t groups, int64_t stride,
                           int64_t length)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = no_step;
    step.operation = OP_CONVOLVE_SEQUENCE;
    step.x = x;
    step.weight = weight;
    step.bias = bias;
    step.groups = groups;
    step.stride = stride;
    return new_step(builder, step, fixed_axis(builder, length / stride), value_at(builder, x)->columns);
}

int plan_project_call(struct plan_builder *builder, int x, int weight, int bias, int tail)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct plan_weight *e = weight_at(builder, weight);
    struct plan_step step = no_step;
    step.operation = OP_PROJECT_CALL;
    step.x = x;
    step.weight = weight;
    step.bias = bias;
    step.tail = tail;
    int input = builder->plan->axes[value_at(builder, x)->axis].input;
    int axis = projected_axis(builder, input, e->rows, e->columns - (tail != PLAN_NONE));
    return new_step(builder, step, axis, value_at(builder, x)->columns);
}

static struct plan_step attention_step(struct plan_builder *builder, enum operation operation, int queries, int keys,
                                       int values, struct plan_attention attention)
{
    struct plan_step step = no_step;
    step.operation = operation;
    step.attention = builder->plan->n_attentions++;
    step.x = queries;
    step.keys = keys;
    step.values = values;
    step.heads = attention.heads;
    step.kv_heads = attention.kv_heads;
    step.scale = attention.scale;
    step.causal = attention.causal;
    step.key_room = attention.key_room;
    if (attention.masked) {
        step.mask = attention.mask;
        step.masked_byte = attention.masked_byte;
        step.masked_score = attention.masked_score;
    }
    return step;
}

int plan_attend(struct plan_builder *builder, int queries, int keys, int values, struct plan_attention attention)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = attention_step(builder, OP_ATTEND, queries, keys, values, attention);
    return new_step(builder, step, value_at(builder, queries)->axis,
                    value_at(builder, values)->columns / attention.kv_heads * attention.heads);
}

int plan_attend_call(struct plan_builder *builder, int queries, int keys, int values, struct plan_attention attention)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = attention_step(builder, OP_ATTEND_CALL, queries, keys, values, attention);
    return new_step(builder, step, value_at(builder, queries)->axis, value_at(builder, queries)->columns);
}

int plan_shift_tokens(struct plan_builder *builder, int x, int64_t n_shifts, const int64_t *shifts)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = no_step;
    step.operation = OP_SHIFT_TOKENS;
    step.x = x;
    step.n_shifts = n_shifts;
    memcpy(step.shifts, shifts, (size_t)n_shifts * sizeof *shifts);
    return new_step(builder, step, value_at(builder, x)->axis, value_at(builder, x)->columns);
}

int plan_rotate(struct plan_builder *builder, int x, int table)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = no_step;
    step.operation = OP_ROTATE;
    step.x = x;
    step.weight = table;
    return new_step(builder, step, value_at(builder, x)->axis, value_at(builder, x)->columns);
}

/* A step of OP_LINEAR_ATTEND or OP_LOCAL_ATTEND, for its caller to complete. */
static struct plan_step attend_heads(enum operation operation, int queries, int keys, int values, int mask,
                                     struct plan_head_range heads)
{
    struct plan_step step = no_step;
    step.operation = operation;
    step.x = queries;
    step.keys = keys;
    step.values = values;
    step.z = mask;
    step.first_head = heads.first_head;
    step.heads = heads.heads;
    step.dim_head = heads.dim_head;
    return step;
}

int plan_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                       struct plan_head_range heads, int64_t fold)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = attend_heads(OP_LINEAR_ATTEND, queries, keys, values, mask, heads);
    step.bucket = 1;
    step.fold = fold;
    return new_step(builder, step, value_at(builder, queries)->axis, heads.heads * heads.dim_head);
}

int plan_causal_linear_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                              struct plan_head_range heads, int64_t fold, int64_t bucket)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = attend_heads(OP_LINEAR_ATTEND, queries, keys, values, mask, heads);
    step.causal = true;
    step.bucket = bucket;
    step.fold = fold;
    return new_step(builder, step, value_at(builder, queries)->axis, heads.heads * heads.dim_head);
}

int plan_local_attend(struct plan_builder *builder, int queries, int keys, int values, int mask,
                      struct plan_head_range heads, int64_t window, bool causal)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = attend_heads(OP_LOCAL_ATTEND, queries, keys, values, mask, heads);
    step.causal = causal;
    step.window = window;
    return new_step(builder, step, value_at(builder, queries)->axis, heads.heads * heads.dim_head);
}

int plan_concatenate(struct plan_builder *builder, int x, int z)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(value_at(builder, x)->axis == value_at(builder, z)->axis);
    struct plan_step step = no_step;
    step.operation = OP_CONCATENATE;
    step.x = x;
    step.z = z;
    int64_t columns = value_at(builder, x)->columns + value_at(builder, z)->columns;
    return new_step(builder, step, value_at(builder, x)->axis, columns);
}

int plan_gate(struct plan_builder *builder, int x, enum activation activation)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_step step = no_step;
    step.operation = OP_GATE;
    step.x = x;
    step.activation = activation;
    return new_step(builder, step, value_at(builder, x)->axis, value_at(builder, x)->columns / 2);
}

int plan_cut_padding(struct plan_builder *builder, int x)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_axis axis = builder->plan->axes[value_at(builder, x)->axis];
    if (axis.padded_rows == 0 && axis.row_multiple == 0)
        return x;
    struct plan_step step = no_step;
    step.operation = OP_CUT_PADDING;
    step.x = x;
    int y = new_step(builder, step, unpadded_axis(builder, axis.input), value_at(builder, x)->columns);
    if (y != PLAN_NONE)
        builder->plan->values[y].ids = value_at(builder, x)->ids;
    return y;
}

static void give(struct plan_builder *builder, enum operation operation, int hidden, int weight, int bias)
{
    if (builder->failed)
        return;
    struct plan_step *step = grow(builder, &builder->plan->steps, &builder->plan->n_steps, sizeof *step);
    if (!step)
        return;
    *step = no_step;
    step->operation = operation;
    step->x = hidden;
    step->weight = weight;
    step->bias = bias;
}

void plan_give(struct plan_builder *builder, int hidden, int weight, int bias, bool logits)
{
    give(builder, OP_GIVE_HIDDEN, hidden, PLAN_NONE, PLAN_NONE);
    give(builder, OP_GIVE_POOLED, hidden, PLAN_NONE, PLAN_NONE);
    give(builder, OP_GIVE_OUTPUT, hidden, weight, bias);
    if (builder->failed)
        return;
    struct plan *plan = builder->plan;
    plan->hidden_columns = value_at(builder, hidden)->columns;
    plan->hidden_axis = value_at(builder, hidden)->axis;
    plan->output_columns = weight == PLAN_NONE ? plan->hidden_columns : weight_at(builder, weight)->rows;
    plan->has_logits = logits;
}

void plan_name_outputs(struct plan_builder *builder, const char *output, const char *attention)
{
    builder->plan->output_name = output;
    builder->plan->attention_name = attention;
}

void plan_shape_output(struct plan_builder *builder, int count, const int64_t *sizes)
{
    assert(count < ENGINE_MAX_RANK);
    builder->plan->n_output_sizes = count;
    memcpy(builder->plan->output_sizes, sizes, (size_t)count * sizeof *sizes);
}
