/* A convolution is a product: each window is gathered into a row, and these rows are multiplied by W. */
#include "engine/cuda/convolve.h"
#include "engine/cuda/linear.h"

/* ---- Along the sequence ----
 * Row j of y is made of rows [j * stride, (j + 1) * stride) of x: windows do not overlap. A window becomes a row
 * (columns, stride), which W multiplies as it lies. Only windows that begin within an item are gathered. The other rows
 * of y are the bias. */

#ifndef WINDOW_ROWS
#define WINDOW_ROWS 16384 /* rows of x whose windows are in scratch at a time */
#endif

template <typename T> struct convolution {
    const T *x;            /* (rows, columns); columns are groups of d */
    const T *weight;       /* (weights * d, d * stride), as nn.Conv1d has it: (out, in, stride) */
    const float *bias;     /* (weights, d) */
    const int64_t *starts; /* of x, by item */
    int64_t n_items, columns, d, stride, k;
    bool shared; /* all groups share one W; else each has its own */
    T *y;        /* (items * k, columns) */
};

/* Windows of all items have a common numbering, which follows from where the items begin. An item of n rows has at
 * least n / stride numbers, rounded up; some numbers have no window. */
template <typename T> static __device__ int64_t first_window(const struct convolution<T> *c, int64_t item)
{
    return c->starts[item] / c->stride + item;
}

template <typename T> static __device__ int64_t item_of_window(const struct convolution<T> *c, int64_t window)
{
    int64_t item = 0, behind = c->n_items;
    while (behind - item > 1) {
        int64_t middle = (item + behind) / 2;
        if (first_window(c, middle) <= window)
            item = middle;
        else
            behind = middle;
    }
    return item;
}

/* Gathers windows from `first` on: rows (windows, columns, stride). Behind the item's last row there are zeros. Grid:
 * x, the window and N of its rows. */
template <typename T, int N> static __global__ void gather_windows(struct convolution<T> c, int64_t first, T *rows)
{
    unsigned parts = (unsigned)(c.stride / N);
    int64_t index = blockIdx.x / parts, part = blockIdx.x % parts, item = item_of_window(&c, first + index);
    int64_t row = c.starts[item] + (first + index - first_window(&c, item)) * c.stride + part * N;
    int64_t there = c.starts[item + 1] - row;
    rows += index * c.columns * c.stride + part * N;
    for (int64_t column = threadIdx.x; column < c.columns; column += blockDim.x) {
        float values[N];
        for (int i = 0; i < N; i++)
            values[i] = i < there ? to_float(c.x[(row + i) * c.columns + column]) : 0;
        store(rows + column * c.stride, values);
    }
}

/* sums (windows, columns): each group of columns times its W. */
template <typename T>
static void multiply_windows(struct cuda_run *run, const struct convolution<T> *c, int64_t windows, const T *rows,
                             float *sums)
{
    int64_t groups = c->columns / c->d, depth = c->d * c->stride, products = c->shared ? 1 : groups;
    for (int64_t i = 0; i < products; i++) {
        struct cuda_product product = {};
        product.rows = windows * groups / products;
        product.columns = c->d;
        product.depth = depth;
        product.a = rows + i * depth;
        product.a_stride = products * depth;
        product.b = c->weight + i * c->d * depth;
        product.b_stride = depth;
        product.transpose_b = true;
        product.float_out = true;
        product.out = sums + i * c->d;
        product.out_stride = products * c->d;
        cuda_products_multiply(run, &product);
    }
}

/* Brings sums to their rows of y, and adds the bias. A warp writes one row of y. */
template <typename T> static __global__ void place_windows(int64_t rows, struct convolution<T> c, const float *sums)
{
    int64_t row = warp_of_grid(), item = row / c.k, window = row % c.k;
    if (row >= rows)
        return;
    bool there = window * c.stride < c.starts[item + 1] - c.starts[item];
    const float *sum = sums + (first_window(&c, item) + window) * c.columns;
    for (int column = warp_thread(); column < (int)c.columns; column += WARP)
        c.y[row * c.columns + column] =
            of_float<T>((there ? sum[column] : 0) + c.bias[c.shared ? column % (int)c.d : column]);
}

static int64_t windows_of(int64_t rows, int64_t n_items, int64_t stride)
{
    return rows / stride + n_items;
}

static int64_t windows_at_once(const struct plan *plan, int64_t stride)
{
    return least(most(1, WINDOW_ROWS / stride), windows_of(plan->max_rows, plan->max_items, stride));
}

/* Windows as rows, then the sums of all windows. */
int64_t cuda_convolve_sequence_scratch(const struct plan *plan, const struct plan_step *step)
{
    int64_t at_once = windows_at_once(plan, step->convolve_sequence.stride);
    return (at_once * step->convolve_sequence.stride +
            windows_of(plan->max_rows, plan->max_items, step->convolve_sequence.stride)) *
           plan->values[step->x].columns;
}

template <typename T> static struct convolution<T> convolution_of(struct cuda_run *run, const struct plan_step *step) {
    const struct plan_weight *bias = &run->plan->weights[step->bias];
    struct convolution<T> c = {
    };
    c.x = elements_of<T>(run, step->x);
    c.weight = weight_of<T>(run, step->weight);
    c.bias = float_weight_of(run, step->bias);
    c.starts = device_starts_of(run, step->x);
    c.n_items = items_of(run);
    c.columns = columns_of(run, step->x);
    c.d = c.columns / step->convolve_sequence.groups;
    c.stride = step->convolve_sequence.stride;
    c.k = run->plan->axes[run->plan->values[step->y].axis].rows_per_item;
    c.shared = bias->rows * bias->columns == c.d;
    c.y = elements_of<T>(run, step->y);
    return c;
}

template <typename T>
void cuda_convolve_sequence(struct cuda_run *run, const struct plan_step *step)
{
    struct convolution<T> c = convolution_of<T>(run, step);
    int64_t windows = windows_of(rows_of(run, step->x), c.n_items, c.stride);
    int64_t at_once = windows_at_once(run->plan, c.stride);
    T *rows = (T *)scratch_of(run);
    float *sums = scratch_of(run) + at_once * c.stride * c.columns;
    for (int64_t first = 0; first < windows; first += at_once) {
        int64_t count = least(at_once, windows - first);
        with_pack<T>(c.stride, [&](auto n) {
            launch(run, gather_windows<T, n.value>, count * (c.stride / n.value), 1, threads_for_columns(c.columns), c,
                   first, rows);
        });
        multiply_windows(run, &c, count, rows, sums + first * c.columns);
    }
    launch_rows(run, place_windows<T>, c.n_items * c.k, c, sums);
}

/* ---- Of images: rows are pixels, and each pixel of y has a window (height, width, channels) of x ---- */

#ifndef IMAGE_ROWS
#define IMAGE_ROWS 1024 /* pixels of y whose windows are in scratch at a time */
#endif

struct image_windows {
    struct plan_window window;
    struct plan_image image;
    int64_t channels, width, first; /* width: of y; first: of its pixels */
};

template <typename T> static __global__ void gather_pixels(struct image_windows w, const T *x, T *rows)
{
    int64_t pixel = w.first + blockIdx.x, depth = w.window.size[0] * w.window.size[1] * w.channels;
    int64_t top = pixel / w.width * w.window.stride[0] - w.window.before[0];
    int64_t left = pixel % w.width * w.window.stride[1] - w.window.before[1];
    for (int64_t i = threadIdx.x; i < depth; i += blockDim.x) {
        int64_t u = top + i / w.channels / w.window.size[1], v = left + i / w.channels % w.window.size[1];
        bool inside = u >= 0 && u < w.image.height && v >= 0 && v < w.image.width;
        rows[blockIdx.x * depth + i] =
            inside ? x[(u * w.image.width + v) * w.channels + i % w.channels] : of_float<T>(0.0f);
    }
}

template <typename T> static __global__ void scale_rows(int64_t columns, float scale, T *y)
{
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[blockIdx.x * columns + c] = of_float<T>(to_float(y[blockIdx.x * columns + c]) * scale);
}

int64_t cuda_convolve_image_scratch(const struct plan *plan, const struct plan_step *step)
{
    return IMAGE_ROWS * plan->weights[step->weight].columns;
}

template <typename T> void cuda_convolve_image(struct cuda_run *run, const struct plan_step *step)
{
    int64_t channels = columns_of(run, step->x), columns = columns_of(run, step->y);
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        const int64_t *to = starts_of(run, step->y) + item;
        const T *x = elements_of<T>(run, step->x) + starts_of(run, step->x)[item] * channels;
        struct image_windows w = {};
        w.window = step->convolve_image.window;
        w.image = padder_axis_image(run->plan, &run->batch->items[item], run->plan->values[step->x].axis);
        w.channels = channels;
        if (to[1] == to[0])
            continue;
        w.width = plan_convolved(&step->convolve_image.window, w.image).width;
        for (; w.first < to[1] - to[0]; w.first += IMAGE_ROWS) {
            struct linear<T> linear = {
            };
            linear.rows = least(IMAGE_ROWS, to[1] - to[0] - w.first);
            linear.x = (T *)scratch_of(run);
            linear.x_stride = run->plan->weights[step->weight].columns;
            linear.weight = step->weight;
            linear.bias = step->bias;
            linear.activation.kind = ACTIVATION_NONE;
            linear.out = elements_of<T>(run, step->y) + (to[0] + w.first) * columns;
            launch(run, gather_pixels<T>, linear.rows, 1, threads_for_columns(linear.x_stride), w, x,
                   (T *)scratch_of(run));
            cuda_linear_rows(run, &linear);
            launch(run, scale_rows<T>, linear.rows, 1, threads_for_columns(columns), columns,
                   step->convolve_image.scale, linear.out);
        }
    }
}

FOR_ELEMENTS(cuda_convolve_sequence)
FOR_ELEMENTS(cuda_convolve_image)
