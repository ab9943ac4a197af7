/* weights: the weights of a plan. They are tensors of the file, found by name, with the shapes that the class
 * prescribes, and converted to float32. */
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

/* Finds the tensor by its name, and checks that its shape is that of the class. */
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

/* The weight that was already made from the tensor, so that a shared tensor is stored once. PLAN_NONE if there is
 * none. */
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

/* Makes a weight from a tensor. If `any`, integers and booleans are also accepted. */
static int weight_of_tensor(struct plan_builder *builder, const struct weights_tensor *tensor, const char *name,
                            int rank, const int64_t *shape, bool any)
{
    int taken = find_taken(builder, tensor);
    if (taken != PLAN_NONE)
        return taken;
    struct plan_weight *weight = plan_grow(builder, &builder->plan->weights, &builder->plan->n_weights, sizeof *weight);
    if (!weight)
        return PLAN_NONE;
    for (int i = 0; i < rank; i++) /* libraries for matrix products count with int */
        if (shape[i] > INT32_MAX)
            return plan_fail(builder, "tensor \"%s\": a size of %lld is too large", name, (long long)shape[i]);
    weight->columns = shape[rank - 1];
    weight->rows = weight->columns ? tensor->elements / weight->columns : 0;
    weight->tensor = (int64_t)weights_index(builder->weights, tensor);
    weight->name = strdup(name);
    if (!weight->name)
        return plan_fail(builder, "out of memory for tensor \"%s\"", name);
    if (!any && !weights_dtype_is_float(tensor->dtype))
        return plan_fail(builder, "%s: tensor \"%s\": expected dtype F32, F16, BF16 or F64, found %s",
                         weights_origin(builder->weights), name, weights_dtype_name(tensor->dtype));
    if (!builder->without_data)
        convert(builder, tensor, weight);
    return builder->failed ? PLAN_NONE : builder->plan->n_weights - 1;
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
    return tensor ? weight_of_tensor(builder, tensor, name, rank, shape, false) : PLAN_NONE;
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

int plan_named_weight(struct plan_builder *builder, const char *name, int *rank, int64_t *shape)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct weights_tensor *tensor = plan_find_tensor(builder, name);
    if (!tensor)
        return plan_fail_missing(builder, name, "");
    *rank = tensor->rank;
    memcpy(shape, tensor->shape, (size_t)tensor->rank * sizeof *shape);
    if (tensor->elements == 0)
        return plan_fail(builder, "%s: tensor \"%s\" is empty", weights_origin(builder->weights), name);
    static const int64_t one = 1;
    builder->used[weights_index(builder->weights, tensor)] = true;
    return weight_of_tensor(builder, tensor, name, tensor->rank ? tensor->rank : 1, tensor->rank ? shape : &one, true);
}

void plan_share_weight(struct plan_builder *builder, int weight, const char *format, ...)
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
        plan_fail(builder,
                  "%s: tensor \"%s\" differs from \"%s\": the class with these kwargs uses one tensor for both",
                  weights_origin(builder->weights), tensor->name, first->name);
}
