/* A convolution is a product: each window is gathered into a row, and these rows are multiplied by W. */
#include "engine/cpu/convolve.h"
#include "engine/cpu/linear.h"

#include <string.h>

/* ---- Along the sequence ----
 * Row j of y is made of rows [j * stride, (j + 1) * stride) of x: windows do not overlap. */

#define WINDOWS_PER_TILE 16 /* of one group of columns: a task */

struct sequence_convolution {
    const struct cpu_run *run;
    const struct plan_step *step;
    const float *x;      /* (rows, columns); columns are groups of d */
    const float *weight; /* (weights * d, d * stride), as nn.Conv1d has it: (out, in, stride) */
    const float *bias;   /* (weights, d) */
    float *y;            /* (items * k, columns) */
    int64_t columns, d, stride, k;
    int64_t weights; /* 1: all groups share it; else one for each group */
};

/* out[i, t] = x[window * stride + t, i], (d, stride), for an item of `rows` rows. Behind its last row there are zeros.
 */
static void gather_rows(const struct sequence_convolution *c, const float *x, int64_t rows, int64_t window, float *out)
{
    int64_t first = window * c->stride;
    for (int64_t i = 0; i < c->d; i++)
        for (int64_t t = 0; t < c->stride; t++)
            out[i * c->stride + t] = first + t < rows ? x[(first + t) * c->columns + i] : 0;
}

static void convolve_tile(const struct sequence_convolution *c, int64_t item, int64_t group, int64_t first_window)
{
    const struct layout *from = layout_of(c->run, c->step->x);
    const float *x = c->x + from->starts[item] * c->columns + group * c->d;
    int64_t rows = from->starts[item + 1] - from->starts[item], depth = c->d * c->stride;
    int64_t windows = least(WINDOWS_PER_TILE, c->k - first_window), which = c->weights > 1 ? group : 0;
    float *gathered = scratch_of(c->run);
    float *y = c->y + (item * c->k + first_window) * c->columns + group * c->d;
    for (int64_t w = 0; w < windows; w++)
        gather_rows(c, x, rows, first_window + w, gathered + w * depth);
    products_multiply(c->run->products, &(struct product){
                                            .m = windows,
                                            .n = c->d,
                                            .k = depth,
                                            .a = gathered,
                                            .a_stride = depth,
                                            .b = c->weight + which * c->d * depth,
                                            .b_stride = depth,
                                            .transpose_b = true,
                                            .c = y,
                                            .c_stride = c->columns,
                                        });
    for (int64_t w = 0; w < windows; w++)
        for (int64_t o = 0; o < c->d; o++)
            y[w * c->columns + o] += c->bias[which * c->d + o];
}

void cpu_convolve_sequence(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    const struct plan_weight *bias = &plan->weights[step->bias];
    int64_t columns = plan->values[step->x].columns, d = columns / step->convolve_sequence.groups;
    struct sequence_convolution c = {
        .run = run,
        .step = step,
        .x = floats_of(run, step->x),
        .weight = weight_of(run, step->weight),
        .bias = bias->data,
        .y = floats_of(run, step->y),
        .columns = columns,
        .d = d,
        .stride = step->convolve_sequence.stride,
        .k = rows_per_item_of(plan, step->y),
        .weights = bias->rows * bias->columns / d,
    };
    int64_t tiles = parts_of(c.k, WINDOWS_PER_TILE),
            tasks = run->batch->n_items * step->convolve_sequence.groups * tiles;
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++)
        convolve_tile(&c, t / tiles / step->convolve_sequence.groups, t / tiles % step->convolve_sequence.groups,
                      t % tiles * WINDOWS_PER_TILE);
}

int64_t cpu_convolve_sequence_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return WINDOWS_PER_TILE * (run->plan->values[step->x].columns / step->convolve_sequence.groups) *
           step->convolve_sequence.stride;
}

/* ---- Of images ----
 * Rows are pixels. Each pixel of y has a window of x, (height, width, channels) of the kernel's size. A task is
 * PLAN_ROW_BLOCK pixels of the batch, whichever images they belong to, like the rows of a linear step. */

struct image_convolution {
    const struct cpu_run *run;
    const struct plan_step *step;
    const struct plan_window *window;
    const struct layout *from, *to; /* of x, of y */
    const float *x;                 /* (pixels, channels) */
    float *y;                       /* (rows, columns) */
    int from_axis;
    int64_t channels, columns, rows;
    int64_t depth; /* floats of a window */
};

/* Gathers the window whose upper left corner is at (top, left) of the image. What lies outside of the image is 0, and
 * the corner may do so. */
static void gather_window(const struct image_convolution *c, const float *image, struct plan_image size, int64_t top,
                          int64_t left, float *out)
{
    int64_t height = c->window->size[0], width = c->window->size[1];
    int64_t first = most(left, 0), end = least(left + width, size.width); /* columns inside the image */
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

/* Gathers the windows of rows [first, first + count) of y: out (count, depth). */
static void gather_windows(const struct image_convolution *c, int64_t first, int64_t count, float *out)
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

static void convolve_block(const struct image_convolution *c, int64_t row)
{
    float *windows = scratch_of(c->run), *y = c->y + row * c->columns;
    int64_t count = least(PLAN_ROW_BLOCK, c->rows - row);
    gather_windows(c, row, count, windows);
    const struct linear_block block = {
        .weight = c->step->weight, .bias = c->step->bias, .rows = count, .x = windows, .y = y};
    cpu_linear_block(c->run, &block, 0, cpu_linear_panels(c->run, c->step->weight),
                     windows + PLAN_ROW_BLOCK * c->depth);
    for (int64_t i = 0; i < count * c->columns; i++)
        y[i] *= c->step->convolve_image.scale;
}

void cpu_convolve_image(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan_value *x = &run->plan->values[step->x], *y = &run->plan->values[step->y];
    const struct layout *to = &run->batch->layouts[y->axis];
    struct image_convolution c = {
        .run = run,
        .step = step,
        .window = &step->convolve_image.window,
        .from = &run->batch->layouts[x->axis],
        .to = to,
        .x = floats_of(run, step->x),
        .y = floats_of(run, step->y),
        .from_axis = x->axis,
        .channels = x->columns,
        .columns = y->columns,
        .depth = run->plan->weights[step->weight].columns,
        .rows = to->starts[run->batch->n_items],
    };
    int64_t tasks = parts_of(c.rows, PLAN_ROW_BLOCK);
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++)
        convolve_block(&c, t * PLAN_ROW_BLOCK);
}

int64_t cpu_convolve_image_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return PLAN_ROW_BLOCK * run->plan->weights[step->weight].columns + cpu_linear_block_scratch(run, step->weight);
}
