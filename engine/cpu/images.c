/* A convolution is a product: the window of each pixel of y, gathered into a row (window, channels), times W. A task is
 * PLAN_ROW_BLOCK pixels of the batch, whatever images they are of, like the rows of any linear step. */
#include "engine/cpu/images.h"
#include "engine/cpu/linear.h"

#include <omp.h>
#include <string.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct convolution {
    const struct cpu_run *run;
    const struct plan_step *step;
    const struct plan_window *window;
    const struct layout *from, *to;
    const float *x;
    float *y;
    int from_axis;
    int64_t channels, columns, depth, rows; /* of x, of y, of a gathered window; rows of y */
};

/* The window whose upper left corner is at (top, left) of the image, which may be outside. */
static void gather_window(const struct convolution *c, const float *image, struct plan_image size, int64_t top,
                          int64_t left, float *out)
{
    int64_t height = c->window->size[0], width = c->window->size[1];
    int64_t first = most(left, 0), end = least(left + width, size.width); /* columns inside of the image */
    size_t pixel = (size_t)c->channels * sizeof *out;
    for (int64_t u = top; u < top + height; u++, out += width * c->channels) {
        if (u < 0 || u >= size.height || first >= end) {
            memset(out, 0, (size_t)width * pixel);
            continue;
        }
        memset(out, 0, (size_t)(first - left) * pixel);
        memcpy(out + (first - left) * c->channels, image + (u * size.width + first) * c->channels,
               (size_t)(end - first) * pixel);
        memset(out + (end - left) * c->channels, 0, (size_t)(left + width - end) * pixel);
    }
}

/* The windows of rows [first, first + count) of y. */
static void gather_windows(const struct convolution *c, int64_t first, int64_t count, float *out)
{
    const struct plan *plan = c->run->plan;
    int64_t item = 0;
    for (int64_t r = first; r < first + count; r++, out += c->depth) {
        while (c->to->starts[item + 1] <= r)
            item++;
        struct plan_image image = padder_axis_image(plan, &c->run->batch->items[item], c->from_axis);
        int64_t width = plan_convolved(c->window, image).width, pixel = r - c->to->starts[item];
        int64_t top = pixel / width * c->window->stride[0] - c->window->before[0];
        int64_t left = pixel % width * c->window->stride[1] - c->window->before[1];
        gather_window(c, c->x + c->from->starts[item] * c->channels, image, top, left, out);
    }
}

static void convolve_block(const struct convolution *c, int64_t row)
{
    float *windows = c->run->scratch + omp_get_thread_num() * c->run->scratch_floats, *y = c->y + row * c->columns;
    int64_t count = least(PLAN_ROW_BLOCK, c->rows - row);
    gather_windows(c, row, count, windows);
    const struct linear_block block = {
        .weight = c->step->weight, .bias = c->step->bias, .rows = count, .x = windows, .y = y};
    cpu_linear_block(c->run, &block, 0, cpu_linear_panels(c->run, c->step->weight),
                     windows + PLAN_ROW_BLOCK * c->depth);
    for (int64_t i = 0; i < count * c->columns; i++)
        y[i] *= c->step->scale;
}

void cpu_convolve_image(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan_value *x = &run->plan->values[step->x], *y = &run->plan->values[step->y];
    const struct layout *to = &run->batch->layouts[y->axis];
    struct convolution c = {
        .run = run,
        .step = step,
        .window = &step->kernel,
        .from = &run->batch->layouts[x->axis],
        .to = to,
        .x = (const float *)(run->arena + x->offset),
        .y = (float *)(run->arena + y->offset),
        .from_axis = x->axis,
        .channels = x->columns,
        .columns = y->columns,
        .depth = run->plan->weights[step->weight].columns,
        .rows = to->starts[run->batch->n_items],
    };
    int64_t tasks = (c.rows + PLAN_ROW_BLOCK - 1) / PLAN_ROW_BLOCK;
#pragma omp parallel for num_threads(tasks > 1 ? run->threads : 1) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++)
        convolve_block(&c, t * PLAN_ROW_BLOCK);
}

int64_t cpu_convolve_image_scratch(const struct products *products, const struct plan *plan,
                                   const struct plan_step *step)
{
    return PLAN_ROW_BLOCK * plan->weights[step->weight].columns + cpu_linear_scratch(products, plan, step->weight);
}
