/* derived: makes weights from other weights, or from numbers. */
#include "engine/plan/builder.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Appends a weight that is not a tensor of the file. The caller fills its data, which is NULL if the builder works
 * without data. Returns NULL after a failure. */
static struct plan_weight *made_weight(struct plan_builder *builder, const char *name, int64_t rows, int64_t columns)
{
    char *copy = strdup(name);
    struct plan_weight *weight = plan_grow(builder, &builder->plan->weights, &builder->plan->n_weights, sizeof *weight);
    if (!weight) {
        free(copy);
        return NULL;
    }
    weight->rows = rows;
    weight->columns = columns;
    weight->tensor = -1;
    weight->name = copy;
    if (!builder->without_data)
        weight->data = malloc((size_t)(rows * columns) * sizeof *weight->data + 1);
    if (weight->name && (weight->data || builder->without_data))
        return weight;
    plan_fail(builder, "out of memory for %lld weights", (long long)(rows * columns));
    return NULL;
}

/* Like made_weight, for a weight that is made of the weight `from`. It has the name of that weight. */
static struct plan_weight *derived_weight(struct plan_builder *builder, int from, int64_t rows, int64_t columns)
{
    return made_weight(builder, plan_weight_at(builder, from)->name, rows, columns);
}

static void fill_stack(const struct plan_builder *builder, float *to, const int *weights, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const struct plan_weight *part = plan_weight_at(builder, weights[i]);
        memcpy(to, part->data, (size_t)(part->rows * part->columns) * sizeof *to);
        to += part->rows * part->columns;
    }
}

int plan_stack_weights(struct plan_builder *builder, const int *weights, int64_t count)
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

int plan_slice_weight(struct plan_builder *builder, int weight, int64_t first, int64_t rows, int64_t columns)
{
    struct plan_weight *part = builder->failed ? NULL : derived_weight(builder, weight, rows, columns);
    if (!part)
        return PLAN_NONE;
    if (part->data)
        memcpy(part->data, plan_weight_at(builder, weight)->data + first,
               (size_t)(rows * columns) * sizeof *part->data);
    return builder->plan->n_weights - 1;
}

/* Reorders (out, in, pixels) to (out, pixels, in). */
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
    if (columns > INT32_MAX) /* libraries for matrix products count columns with int */
        return plan_fail(builder, "tensor \"%s\" has %lld weights for one channel; expected at most %d",
                         plan_weight_at(builder, weight)->name, (long long)columns, INT32_MAX);
    struct plan_weight *kernel = derived_weight(builder, weight, out, columns);
    if (!kernel)
        return PLAN_NONE;
    if (kernel->data)
        fill_kernel(kernel->data, plan_weight_at(builder, weight)->data, out, in, columns / in);
    return builder->plan->n_weights - 1;
}

/* Copies the columns of `from`, and after them `count` other columns. */
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

/* Whether a view consists of all elements of a weight in order, and has the weight's shape. */
static bool is_whole(const struct plan_weight *weight, int rank, const int64_t *counts, const int64_t *strides,
                     int64_t first, int64_t rows, int64_t columns)
{
    int64_t stride = 1;
    if (first != 0 || weight->rows != rows || weight->columns != columns)
        return false;
    for (int d = rank - 1; d >= 0; d--) {
        if (counts[d] != 1 && strides[d] != stride)
            return false;
        stride *= counts[d];
    }
    return stride == rows * columns;
}

/* Copies a view's elements in row-major order. */
static void fill_view(float *to, const float *from, int rank, const int64_t *counts, const int64_t *strides)
{
    int64_t elements = 1, inner = rank ? counts[rank - 1] : 1, step = rank ? strides[rank - 1] : 0;
    for (int d = 0; d < rank; d++)
        elements *= counts[d];
    for (int64_t done = 0; done < elements; done += inner) {
        const float *row = from;
        int64_t rest = done / inner;
        for (int d = rank - 2; d >= 0; rest /= counts[d], d--)
            row += rest % counts[d] * strides[d];
        for (int64_t i = 0; i < inner; i++)
            to[done + i] = row[i * step];
    }
}

int plan_view_weight(struct plan_builder *builder, int weight, int rank, const int64_t *counts, const int64_t *strides,
                     int64_t first, int64_t rows, int64_t columns)
{
    if (builder->failed || is_whole(plan_weight_at(builder, weight), rank, counts, strides, first, rows, columns))
        return builder->failed ? PLAN_NONE : weight;
    struct plan_weight *view = derived_weight(builder, weight, rows, columns);
    if (!view)
        return PLAN_NONE;
    if (view->data)
        fill_view(view->data, plan_weight_at(builder, weight)->data + first, rank, counts, strides);
    return builder->plan->n_weights - 1;
}

int plan_number_weight(struct plan_builder *builder, int64_t rows, int64_t columns, float first, float step)
{
    struct plan_weight *numbers = builder->failed ? NULL : made_weight(builder, "numbers", rows, columns);
    if (!numbers)
        return PLAN_NONE;
    for (int64_t i = 0; numbers->data && i < rows * columns; i++)
        numbers->data[i] = first + (float)i * step;
    return builder->plan->n_weights - 1;
}

int plan_batch_norm(struct plan_builder *builder, int gain, int bias, int mean, int variance, double epsilon,
                    int *shift)
{
    int64_t columns = builder->failed ? 0 : plan_weight_at(builder, gain)->columns;
    int scale = plan_number_weight(builder, 1, columns, 0, 0);
    *shift = plan_number_weight(builder, 1, columns, 0, 0);
    for (int64_t i = 0; !builder->failed && !builder->without_data && i < columns; i++) {
        double root = sqrt((double)plan_weight_at(builder, variance)->data[i] + epsilon);
        double factor = (double)plan_weight_at(builder, gain)->data[i] / root;
        double moved = (double)plan_weight_at(builder, mean)->data[i] * factor;
        builder->plan->weights[scale].data[i] = (float)factor;
        builder->plan->weights[*shift].data[i] = (float)((double)plan_weight_at(builder, bias)->data[i] - moved);
    }
    return scale;
}

int plan_fourier_weight(struct plan_builder *builder, int64_t n, int64_t length, int64_t bins, int taper, double scale)
{
    struct plan_weight *matrix = builder->failed ? NULL : made_weight(builder, "fourier", 2 * bins, n);
    if (!matrix)
        return PLAN_NONE;
    int64_t before = (n - length) / 2;
    for (int64_t bin = 0; matrix->data && bin < bins; bin++)
        for (int64_t i = 0; i < n; i++) {
            bool inside = i >= before && i < before + length;
            double weight =
                taper == PLAN_NONE ? scale : scale * plan_weight_at(builder, taper)->data[inside ? i - before : 0];
            double angle = 2 * M_PI * (double)(bin * i % n) / (double)n;
            matrix->data[2 * bin * n + i] = inside ? (float)(weight * cos(angle)) : 0;
            matrix->data[(2 * bin + 1) * n + i] = inside ? (float)(-weight * sin(angle)) : 0;
        }
    return builder->plan->n_weights - 1;
}

int plan_interpolation_weight(struct plan_builder *builder, int64_t in, int64_t out, double step, bool aligned)
{
    struct plan_weight *matrix = builder->failed ? NULL : made_weight(builder, "interpolation", out, in);
    if (!matrix)
        return PLAN_NONE;
    for (int64_t o = 0; matrix->data && o < out; o++) {
        double place = aligned ? (out > 1 ? (double)o * (double)(in - 1) / (double)(out - 1) : 0)
                               : fmax(((double)o + 0.5) * step - 0.5, 0);
        int64_t before = (int64_t)fmin(place, (double)(in - 1)), after = before + 1 < in ? before + 1 : before;
        memset(matrix->data + o * in, 0, (size_t)in * sizeof *matrix->data);
        matrix->data[o * in + before] += (float)(1 - (place - (double)before));
        matrix->data[o * in + after] += (float)(place - (double)before);
    }
    return builder->plan->n_weights - 1;
}

int plan_windows_weight(struct plan_builder *builder, int64_t in, int64_t out)
{
    struct plan_weight *matrix = builder->failed ? NULL : made_weight(builder, "windows", out, in);
    if (!matrix)
        return PLAN_NONE;
    for (int64_t o = 0; matrix->data && o < out; o++) {
        int64_t first = o * in / out, end = ((o + 1) * in + out - 1) / out;
        for (int64_t i = 0; i < in; i++)
            matrix->data[o * in + i] = i >= first && i < end ? 1.0f / (float)(end - first) : 0;
    }
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
