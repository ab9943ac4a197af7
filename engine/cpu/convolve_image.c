/* Convolutions of images. Rows of x and y are pixels. Each pixel of y depends on a window of x, (height, width,
 * channels), with the size of the convolution's kernel. A window is gathered into a row, and these rows are multiplied
 * by W. If windows have one channel, there is no matrix product. In this case, the window is summed up for many
 * channels at once. */
#include "engine/cpu/convolve_image.h"
#include "engine/cpu/linear.h"

#include <string.h>

struct image_convolution {
    const struct cpu_run *run;
    const struct plan_step *step;
    const struct plan_window *window;
    const struct layout *from, *to; /* layouts of x and of y */
    const float *x;                 /* (pixels, channels) */
    float *y;                       /* (rows, columns) */
    int64_t channels, columns, rows;
    int64_t pixels;                    /* number of pixels of a window */
    int64_t first_channel, n_channels; /* first channel, and number of channels, of a window */
};

/* The window of a row of y, in the item's image of x. `image` is the size of the image of x, and `made` that of y.
 * `pixels` points to the pixels of x. The first pixel of the window is (top, left), which may be outside of the
 * image. */
struct window_place {
    int64_t item;
    struct plan_image image, made;
    const float *pixels;
    int64_t top, left;
};

static struct image_convolution image_convolution_of(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan_window *window = &step->convolve_image.window;
    return (struct image_convolution){
        .run = run,
        .step = step,
        .window = window,
        .from = layout_of(run, step->x),
        .to = layout_of(run, step->y),
        .x = floats_of(run, step->x),
        .y = floats_of(run, step->y),
        .channels = columns_of(run, step->x),
        .columns = columns_of(run, step->y),
        .rows = rows_of(run, step->y),
        .pixels = window->size[0] * window->size[1],
        .n_channels = columns_of(run, step->x) / step->convolve_image.groups,
    };
}

/* Moves `place` forward to row r of y. `place` describes an earlier row, or is zeroed. */
static void find_window(const struct image_convolution *c, int64_t r, struct window_place *place)
{
    bool found = place->pixels;
    while (c->to->item_starts[place->item + 1] <= r) {
        place->item++;
        found = false;
    }
    if (!found) {
        place->image = padder_convolution_image(c->run->plan, c->run->batch, c->step, place->item);
        place->made = plan_convolved(c->window, place->image);
    }
    int64_t row = r - c->to->item_starts[place->item], made_pixels = place->made.height * place->made.width;
    int64_t first = c->from->item_starts[place->item] + row / made_pixels * (place->image.height * place->image.width);
    int64_t pixel = row % made_pixels;
    place->pixels = c->x + first * c->channels;
    place->top = pixel / place->made.width * c->window->stride[0] - c->window->before[0];
    place->left = pixel % place->made.width * c->window->stride[1] - c->window->before[1];
}

/* The pixel of x at (u, v) of the window. NULL if the pixel is outside of the image. */
static const float *window_pixel(const struct image_convolution *c, const struct window_place *place, int64_t u,
                                 int64_t v)
{
    int64_t i = place->top + u * c->window->dilation[0], j = place->left + v * c->window->dilation[1];
    if (i < 0 || i >= place->image.height || j < 0 || j >= place->image.width)
        return NULL;
    return place->pixels + (i * place->image.width + j) * c->channels;
}

/* Gathers the channels of the window, pixel by pixel. Pixels outside of the image are 0. */
static void gather_pixels(const struct image_convolution *c, const struct window_place *place, float *out)
{
    size_t bytes = (size_t)c->n_channels * sizeof *out;
    for (int64_t u = 0; u < c->window->size[0]; u++)
        for (int64_t v = 0; v < c->window->size[1]; v++, out += c->n_channels) {
            const float *pixel = window_pixel(c, place, u, v);
            if (pixel)
                memcpy(out, pixel + c->first_channel, bytes);
            else
                memset(out, 0, bytes);
        }
}

/* Does the same as gather_pixels, one line of the window at a time. The window must contain all channels, and the
 * pixels of a line must be neighbours in the image. */
static void gather_lines(const struct image_convolution *c, const struct window_place *place, float *out)
{
    int64_t width = c->window->size[1], left = place->left;
    /* The columns of the window that are inside the image. */
    int64_t first = most(left, 0), end = least(left + width, place->image.width);
    size_t pixel = (size_t)c->channels * sizeof *out;
    for (int64_t u = 0; u < c->window->size[0]; u++, out += width * c->channels) {
        int64_t i = place->top + u * c->window->dilation[0];
        if (i < 0 || i >= place->image.height || first >= end) {
            memset(out, 0, (size_t)width * pixel);
            continue;
        }
        memset(out, 0, (size_t)(first - left) * pixel);
        memcpy(out + (first - left) * c->channels, place->pixels + (i * place->image.width + first) * c->channels,
               (size_t)(end - first) * pixel);
        memset(out + (end - left) * c->channels, 0, (size_t)(left + width - end) * pixel);
    }
}

/* Gathers the windows of rows [first, first + count) of y into `out` (count, window). */
static void gather_windows(const struct image_convolution *c, int64_t first, int64_t count, float *out)
{
    bool lines = c->n_channels == c->channels && c->window->dilation[1] == 1;
    struct window_place place = {.item = 0};
    for (int64_t r = first; r < first + count; r++, out += c->pixels * c->n_channels) {
        find_window(c, r, &place);
        (lines ? gather_lines : gather_pixels)(c, &place, out);
    }
}

/* ---- OP_CONVOLVE_IMAGE: a task is PLAN_ROW_BLOCK pixels of the batch, like the rows of a linear step ---- */

static void convolve_block(const struct image_convolution *c, int64_t row)
{
    float *windows = scratch_of(c->run), *y = c->y + row * c->columns, scale = c->step->convolve_image.scale;
    int64_t count = least(PLAN_ROW_BLOCK, c->rows - row);
    gather_windows(c, row, count, windows);
    const struct linear_block block = {
        .weight = c->step->weight, .bias = c->step->bias, .rows = count, .x = windows, .y = y};
    cpu_linear_block(c->run, &block, 0, cpu_linear_panels(c->run, c->step->weight),
                     windows + PLAN_ROW_BLOCK * c->pixels * c->channels);
    for (int64_t i = 0; scale != 1.0f && i < count * c->columns; i++)
        y[i] *= scale;
}

void cpu_convolve_image(const struct cpu_run *run, const struct plan_step *step)
{
    struct image_convolution c = image_convolution_of(run, step);
    int64_t tasks = parts_of(c.rows, PLAN_ROW_BLOCK);
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++)
        convolve_block(&c, t * PLAN_ROW_BLOCK);
}

int64_t cpu_convolve_image_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return PLAN_ROW_BLOCK * run->plan->weights[step->weight].columns + cpu_linear_block_scratch(run, step->weight);
}

/* ---- OP_CONVOLVE_GROUPS: a task is one group of one image, so the products have the same shapes in every batch ----
 */

/* Computes some pixels of one group: y = scale * (windows Wᵀ + e). */
static void multiply_group(const struct image_convolution *c, int64_t group, int64_t row, int64_t count)
{
    const float *weight = weight_of(c->run, c->step->weight), *bias = weight_of(c->run, c->step->bias);
    int64_t depth = c->pixels * c->n_channels, columns = c->columns / c->step->convolve_image.groups;
    float *windows = scratch_of(c->run), *y = c->y + row * c->columns + group * columns;
    gather_windows(c, row, count, windows);
    products_multiply(c->run->products, &(struct product){
                                            .m = count,
                                            .n = columns,
                                            .k = depth,
                                            .a = windows,
                                            .a_stride = depth,
                                            .b = weight + group * columns * depth,
                                            .b_stride = depth,
                                            .transpose_b = true,
                                            .c = y,
                                            .c_stride = c->columns,
                                        });
    for (int64_t r = 0; r < count; r++, y += c->columns)
        for (int64_t o = 0; o < columns; o++)
            y[o] = c->step->convolve_image.scale * (y[o] + (bias ? bias[group * columns + o] : 0));
}

static void convolve_group(struct image_convolution c, int64_t sequence, int64_t group)
{
    int axis = c.run->plan->values[c.step->y].axis;
    struct padder_sequence made = padder_sequence(c.run->plan, c.run->batch, axis, sequence);
    c.first_channel = group * c.n_channels;
    for (int64_t r = 0; r < made.rows; r += PLAN_ROW_BLOCK)
        multiply_group(&c, group, made.first + r, least(PLAN_ROW_BLOCK, made.rows - r));
}

void cpu_convolve_groups(const struct cpu_run *run, const struct plan_step *step)
{
    const struct image_convolution c = image_convolution_of(run, step);
    int64_t groups = step->convolve_image.groups;
    int64_t tasks = groups * layout_of(run, step->y)->n_sequences;
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++)
        convolve_group(c, t / groups, t % groups);
}

int64_t cpu_convolve_groups_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return PLAN_ROW_BLOCK * run->plan->weights[step->weight].columns;
}

/* ---- OP_CONVOLVE_CHANNELS: a task is PLAN_ROW_BLOCK pixels of the batch ---- */

/* Computes a pixel of y if several columns of y read the same column of x. */
static void convolve_copies(const struct image_convolution *c, int64_t taps, const float *const *x,
                            const float *const *w, const float *bias, float *y)
{
    int64_t copies = c->columns / c->channels;
    for (int64_t o = 0; o < c->columns; o++) {
        float sum = bias ? bias[o] : 0;
        for (int64_t t = 0; t < taps; t++)
            sum += x[t][o / copies] * w[t][o];
        y[o] = c->step->convolve_image.scale * sum;
    }
}

/* Computes one pixel of y. `x` and `w` have room for one pointer for each pixel of a window. */
static void convolve_pixel(const struct image_convolution *c, const struct window_place *place, const float **x,
                           const float **w, float *y)
{
    const float *weight = weight_of(c->run, c->step->weight); /* (window, columns) */
    const float *bias = weight_of(c->run, c->step->bias);
    int64_t taps = 0;
    for (int64_t p = 0; p < c->pixels; p++) {
        x[taps] = window_pixel(c, place, p / c->window->size[1], p % c->window->size[1]);
        w[taps] = weight + p * c->columns;
        taps += x[taps] != NULL;
    }
    if (c->columns == c->channels)
        c->run->vector->convolve_channels(taps, c->columns, x, w, bias, c->step->convolve_image.scale, y);
    else
        convolve_copies(c, taps, x, w, bias, y);
}

static void convolve_channels(const struct image_convolution *c, int64_t row)
{
    struct window_place place = {.item = 0};
    const float **x = (const float **)(void *)scratch_of(c->run), **w = x + c->pixels;
    for (int64_t r = row; r < least(row + PLAN_ROW_BLOCK, c->rows); r++) {
        find_window(c, r, &place);
        convolve_pixel(c, &place, x, w, c->y + r * c->columns);
    }
}

void cpu_convolve_channels(const struct cpu_run *run, const struct plan_step *step)
{
    struct image_convolution c = image_convolution_of(run, step);
    int64_t tasks = parts_of(c.rows, PLAN_ROW_BLOCK);
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++)
        convolve_channels(&c, t * PLAN_ROW_BLOCK);
}

/* Number of floats for two pointers for each pixel of a window. A pointer is as large as two floats. */
int64_t cpu_convolve_channels_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    (void)run;
    const struct plan_window *window = &step->convolve_image.window;
    return 2 * window->size[0] * window->size[1] * 2;
}
