/* Weights of a plan: tensors by name, with the shapes that the class has, in float32. */
#include "engine/plan/scope.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int plan_fail_missing(struct plan_builder *builder, const char *name, const char *shape)
{
    char full[PLAN_NAME_BYTES];
    const char *origin = weights_origin(builder->weights);
    name = plan_full_name(builder, name, full);
    size_t length = strlen(name);
    for (size_t i = 0; i < weights_count(builder->weights); i++) {
        const struct weights_tensor *tensor = weights_at(builder->weights, i);
        size_t found_length = strlen(tensor->name);
        const char *end = found_length > length ? tensor->name + found_length - length : NULL;
        char found[128];
        if (end && !builder->used[i] && (end[-1] == '.' || end[-1] == '/') && strcmp(end, name) == 0)
            return plan_fail(builder, "%s: tensor \"%s\" %s is missing; the file has \"%s\" %s", origin, name, shape,
                             tensor->name, weights_shape_text(tensor->rank, tensor->shape, found, sizeof found));
    }
    return plan_fail(builder, "%s: tensor \"%s\" %s is missing", origin, name, shape);
}

/* The tensor of that name, once its shape and dtype are what the class has. */
static const struct weights_tensor *take_tensor(struct plan_builder *builder, const char *name, int rank,
                                                const int64_t *shape)
{
    const struct weights_tensor *tensor = plan_find_tensor(builder, name);
    const char *origin = weights_origin(builder->weights);
    char expected[128], found[128], full[PLAN_NAME_BYTES];
    weights_shape_text(rank, shape, expected, sizeof expected);
    if (!tensor) {
        plan_fail_missing(builder, name, expected);
        return NULL;
    }
    name = plan_full_name(builder, name, full);
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

static void convert(struct plan_builder *builder, const struct weights_tensor *tensor, struct plan_weight *weight)
{
    weight->data = malloc((size_t)tensor->elements * sizeof *weight->data + 1);
    if (!weight->data) {
        plan_fail(builder, "out of memory for tensor \"%s\" (%lld floats)", weight->name, (long long)tensor->elements);
        return;
    }
    weights_to_f32(tensor, weight->data);
    builder->taken_elements += tensor->elements;
    if (builder->progress)
        builder->progress(builder->progress_context, (double)builder->taken_elements / (double)builder->all_elements);
}

static int take_weight(struct plan_builder *builder, int rank, const int64_t *shape, const char *format,
                       va_list arguments)
{
    char own[256], full[PLAN_NAME_BYTES];
    vsnprintf(own, sizeof own, format, arguments);
    if (builder->failed)
        return PLAN_NONE;
    const struct weights_tensor *tensor = take_tensor(builder, own, rank, shape);
    const char *name = plan_full_name(builder, own, full);
    int taken = tensor ? find_taken(builder, tensor) : PLAN_NONE;
    if (taken != PLAN_NONE)
        return taken;
    struct plan_weight *weight =
        tensor ? plan_grow(builder, &builder->plan->weights, &builder->plan->n_weights, sizeof *weight) : NULL;
    if (!weight)
        return PLAN_NONE;
    for (int i = 0; i < rank; i++) /* products count in int */
        if (shape[i] > INT32_MAX)
            return plan_fail(builder, "tensor \"%s\": a size of %lld is too large", name, (long long)shape[i]);
    weight->columns = shape[rank - 1];
    weight->rows = weight->columns ? tensor->elements / weight->columns : 0;
    weight->tensor = (int64_t)weights_index(builder->weights, tensor);
    weight->name = strdup(name);
    if (!weight->name)
        return plan_fail(builder, "out of memory for tensor \"%s\"", name);
    if (!weights_dtype_is_float(tensor->dtype))
        return plan_fail(builder, "%s: tensor \"%s\": expected dtype F32, F16, BF16 or F64, found %s",
                         weights_origin(builder->weights), name, weights_dtype_name(tensor->dtype));
    if (!builder->without_data)
        convert(builder, tensor, weight);
    return builder->failed ? PLAN_NONE : builder->plan->n_weights - 1;
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
    const struct weights_tensor *first = weights_at(builder->weights, (size_t)plan_weight_at(builder, weight)->tensor);
    const struct weights_tensor *tensor = take_tensor(builder, name, first->rank, first->shape);
    if (!tensor || tensor == first)
        return;
    if (tensor->dtype != first->dtype ||
        (!builder->without_data && memcmp(tensor->data, first->data, first->bytes) != 0))
        plan_fail(builder, "%s: tensor \"%s\" differs from \"%s\": the class with these kwargs shares one for both",
                  weights_origin(builder->weights), tensor->name, first->name);
}

/* A weight that is made of others, named after one of them. Its data is to be filled, and NULL while the builder goes
 * without data. NULL: failed. */
static struct plan_weight *derived_weight(struct plan_builder *builder, int from, int64_t rows, int64_t columns)
{
    struct plan_weight *weight = plan_grow(builder, &builder->plan->weights, &builder->plan->n_weights, sizeof *weight);
    if (!weight)
        return NULL;
    weight->rows = rows;
    weight->columns = columns;
    weight->tensor = -1;
    weight->name = strdup(plan_weight_at(builder, from)->name);
    if (!builder->without_data)
        weight->data = malloc((size_t)(rows * columns) * sizeof *weight->data + 1);
    if (weight->name && (weight->data || builder->without_data))
        return weight;
    plan_fail(builder, "out of memory for %lld weights", (long long)(rows * columns));
    return NULL;
}

static void fill_stack(const struct plan_builder *builder, float *to, const int *weights, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const struct plan_weight *part = plan_weight_at(builder, weights[i]);
        memcpy(to, part->data, (size_t)(part->rows * part->columns) * sizeof *to);
        to += part->rows * part->columns;
    }
}

int plan_stack(struct plan_builder *builder, const int *weights, int64_t count)
{
    if (builder->failed)
        return PLAN_NONE;
    int64_t rows = 0, columns = plan_weight_at(builder, weights[0])->columns;
    for (int64_t i = 0; i < count; i++) {
        assert(plan_weight_at(builder, weights[i])->columns == columns);
        rows += plan_weight_at(builder, weights[i])->rows;
    }
    struct plan_weight *stack = derived_weight(builder, weights[0], rows, columns);
    if (!stack)
        return PLAN_NONE;
    if (stack->data)
        fill_stack(builder, stack->data, weights, count);
    return builder->plan->n_weights - 1;
}

int plan_part(struct plan_builder *builder, int weight, int64_t first, int64_t rows, int64_t columns)
{
    struct plan_weight *part = builder->failed ? NULL : derived_weight(builder, weight, rows, columns);
    if (!part)
        return PLAN_NONE;
    if (part->data)
        memcpy(part->data, plan_weight_at(builder, weight)->data + first,
               (size_t)(rows * columns) * sizeof *part->data);
    return builder->plan->n_weights - 1;
}

/* From (out, in, pixels) to (out, pixels, in). */
static void fill_kernel(float *to, const float *from, int64_t out, int64_t in, int64_t pixels)
{
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t p = 0; p < pixels; p++)
                to[(o * pixels + p) * in + i] = from[(o * in + i) * pixels + p];
}

int plan_kernel(struct plan_builder *builder, int weight, int64_t out, int64_t in)
{
    if (builder->failed)
        return PLAN_NONE;
    int64_t columns = plan_weight_at(builder, weight)->rows * plan_weight_at(builder, weight)->columns / out;
    if (columns > INT32_MAX) /* products count in int */
        return plan_fail(builder, "tensor \"%s\": %lld weights of one channel are too many",
                         plan_weight_at(builder, weight)->name, (long long)columns);
    struct plan_weight *kernel = derived_weight(builder, weight, out, columns);
    if (!kernel)
        return PLAN_NONE;
    if (kernel->data)
        fill_kernel(kernel->data, plan_weight_at(builder, weight)->data, out, in, columns / in);
    return builder->plan->n_weights - 1;
}

/* The columns of `from`, and behind them `count` others. */
static void fill_wide(const struct plan_builder *builder, struct plan_weight *wide, const float *from,
                      const int *columns, int count)
{
    int64_t width = wide->columns - count;
    for (int64_t r = 0; r < wide->rows; r++) {
        float *row = wide->data + r * wide->columns;
        memcpy(row, from + r * width, (size_t)width * sizeof *row);
        for (int i = 0; i < count; i++)
            row[width + i] = columns[i] == PLAN_NONE ? 1 : plan_weight_at(builder, columns[i])->data[r];
    }
}

int plan_widen(struct plan_builder *builder, int weight, const int *columns, int count)
{
    if (builder->failed)
        return PLAN_NONE;
    int64_t rows = plan_weight_at(builder, weight)->rows, width = plan_weight_at(builder, weight)->columns;
    struct plan_weight *wide = derived_weight(builder, weight, rows, width + count);
    if (!wide)
        return PLAN_NONE;
    if (wide->data)
        fill_wide(builder, wide, plan_weight_at(builder, weight)->data, columns, count);
    return builder->plan->n_weights - 1;
}

static void fill_transposed(float *to, const float *from, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[c * rows + r] = from[r * columns + c];
}

int plan_transpose(struct plan_builder *builder, int weight, int64_t rows)
{
    if (builder->failed)
        return PLAN_NONE;
    int64_t columns = plan_weight_at(builder, weight)->rows * plan_weight_at(builder, weight)->columns / rows;
    struct plan_weight *transposed = derived_weight(builder, weight, columns, rows);
    if (!transposed)
        return PLAN_NONE;
    if (transposed->data)
        fill_transposed(transposed->data, plan_weight_at(builder, weight)->data, rows, columns);
    return builder->plan->n_weights - 1;
}
