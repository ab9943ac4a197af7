/* convolve: computes a convolution as a matrix product. Each window is gathered into a row, and these rows are
 * multiplied by W. */
#include "engine/cuda/convolve.h"
#include "engine/cuda/linear.h"

/* ---- Along the sequence ---- Row j of y is computed from rows [j * stride, (j + 1) * stride) of x, so windows do not
 * overlap. A window becomes a row (columns, stride), in the order that the product with W needs. Only windows that
 * begin within a sequence are gathered. The other rows of y are equal to the bias. */

#ifndef WINDOW_ROWS
#define WINDOW_ROWS 16384 /* number of rows of x whose windows are in scratch at a time */
#endif

template <typename T> struct convolution {
    const T *x;                 /* (rows, columns). The columns are groups of d columns */
    const T *weight;            /* (weights * d, d * stride), where each W is (out, in, stride) as in nn.Conv1d */
    const float *bias;          /* (weights, d) */
    const int64_t *starts, *to; /* by sequence: index of its first row in x, and in y */
    int64_t n_sequences, columns, d, stride, k;
    bool shared; /* true if all groups share one W. Otherwise each group has its own */
    T *y;        /* (sequences * k, columns) */
};

/* The windows of all sequences share one numbering, which is computed from the first rows of the sequences. In this
 * numbering, a sequence of n rows has at least n / stride numbers, rounded up. Some numbers belong to no window. */
template <typename T> static __device__ int64_t first_window(const struct convolution<T> *c, int64_t sequence)
{
    return c->starts[sequence] / c->stride + sequence;
}

template <typename T> static __device__ int64_t sequence_of_window(const struct convolution<T> *c, int64_t window)
{
    int64_t sequence = 0, behind = c->n_sequences;
    while (behind - sequence > 1) {
        int64_t middle = (sequence + behind) / 2;
        if (first_window(c, middle) <= window)
            sequence = middle;
        else
            behind = middle;
    }
    return sequence;
}

/* Gathers windows into `rows` (windows, columns, stride), beginning with number `first`. Rows after the last row of the
 * sequence count as 0. Grid: x is a window, and a group of N of its rows. */
template <typename T, int N> static __global__ void gather_windows(struct convolution<T> c, int64_t first, T *rows)
{
    unsigned parts = (unsigned)(c.stride / N);
    int64_t index = blockIdx.x / parts, part = blockIdx.x % parts, sequence = sequence_of_window(&c, first + index);
    int64_t row = c.starts[sequence] + (first + index - first_window(&c, sequence)) * c.stride + part * N;
    int64_t there = c.starts[sequence + 1] - row;
    rows += index * c.columns * c.stride + part * N;
    for (int64_t column = threadIdx.x; column < c.columns; column += blockDim.x) {
        float values[N];
        for (int i = 0; i < N; i++)
            values[i] = i < there ? to_float(c.x[(row + i) * c.columns + column]) : 0;
        store(rows + column * c.stride, values);
    }
}

/* Computes `sums` (windows, columns): the product of each group of columns and its W. */
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

/* Copies sums to their rows of y, and adds the bias. A warp writes one row of y. */
template <typename T> static __global__ void place_windows(int64_t rows, struct convolution<T> c, const float *sums)
{
    int64_t row = warp_of_grid(), sequence = row / c.k, window = row % c.k;
    /* a sequence without rows in y does not belong to the batch. It only rounds the batch up to a shape */
    if (row >= rows || c.to[sequence] == c.to[sequence + 1])
        return;
    bool there = window * c.stride < c.starts[sequence + 1] - c.starts[sequence];
    const float *sum = sums + (first_window(&c, sequence) + window) * c.columns;
    for (int column = warp_thread(); column < (int)c.columns; column += WARP)
        c.y[row * c.columns + column] =
            of_float<T>((there ? sum[column] : 0) + c.bias[c.shared ? column % (int)c.d : column]);
}

static int64_t windows_of(int64_t rows, int64_t n_sequences, int64_t stride)
{
    return rows / stride + n_sequences;
}

/* The number of windows in the largest batch. */
static int64_t most_windows(const struct plan *plan, const struct plan_step *step)
{
    int64_t sequences = plan_most_sequences(plan, plan->values[step->x].axis, plan->max_items);
    return windows_of(plan->max_rows, sequences, step->convolve_sequence.stride);
}

static int64_t windows_at_once(const struct plan *plan, const struct plan_step *step)
{
    return least(most(1, WINDOW_ROWS / step->convolve_sequence.stride), most_windows(plan, step));
}

/* Number of floats for windows as rows, followed by the sums of all windows. */
int64_t cuda_convolve_sequence_scratch(const struct plan *plan, const struct plan_step *step)
{
    int64_t at_once = windows_at_once(plan, step);
    return (at_once * step->convolve_sequence.stride + most_windows(plan, step)) * plan->values[step->x].columns;
}

template <typename T> static convolution<T> convolution_of(struct cuda_run *run, const struct plan_step *step)
{
    const struct plan_weight *bias = &run->plan->weights[step->bias];
    convolution<T> c = {};
    c.x = elements_of<T>(run, step->x);
    c.weight = weight_of<T>(run, step->weight);
    c.bias = float_weight_of(run, step->bias);
    c.starts = device_starts_of(run, step->x);
    c.to = device_starts_of(run, step->y);
    c.n_sequences = sequences_of(run, step->x);
    c.columns = columns_of(run, step->x);
    c.d = c.columns / step->convolve_sequence.groups;
    c.stride = step->convolve_sequence.stride;
    c.k = plan_constant_rows(run->plan, run->plan->values[step->y].axis);
    c.shared = bias->rows * bias->columns == c.d;
    c.y = elements_of<T>(run, step->y);
    return c;
}

template <typename T> void cuda_convolve_sequence(struct cuda_run *run, const struct plan_step *step)
{
    struct convolution<T> c = convolution_of<T>(run, step);
    int64_t windows = windows_of(rows_of(run, step->x), c.n_sequences, c.stride);
    int64_t at_once = windows_at_once(run->plan, step);
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
    launch_rows(run, place_windows<T>, c.n_sequences * c.k, c, sums);
}

/* ---- Convolutions of images ---- Rows are pixels. Each pixel of y is computed from a window (height, width, channels)
 * of x. */

#ifndef IMAGE_ROWS
#define IMAGE_ROWS 1024 /* number of pixels of y whose windows are in scratch at a time */
#endif

/* Describes the windows of some pixels of y of an item. The images of an item follow one another. */
struct image_windows {
    struct plan_window window;
    struct plan_image image, made;     /* sizes of the images of x and of y */
    int64_t channels;                  /* number of channels of x */
    int64_t first_channel, n_channels; /* first channel, and number of channels, of a window */
    int64_t first;                     /* number of the first of these pixels among all pixels of y of the item */
};

/* The index of an element of x in the window of a pixel of y. The element is given by pixel (u, v) of the window and
 * by a channel. Returns -1 if the pixel is outside of the image. */
static __device__ __forceinline__ int64_t window_element(const struct image_windows &w, int64_t pixel, int64_t u,
                                                         int64_t v, int64_t channel)
{
    int64_t made = w.made.height * w.made.width, place = pixel % made;
    int64_t i = place / w.made.width * w.window.stride[0] - w.window.before[0] + u * w.window.dilation[0];
    int64_t j = place % w.made.width * w.window.stride[1] - w.window.before[1] + v * w.window.dilation[1];
    if (i < 0 || i >= w.image.height || j < 0 || j >= w.image.width)
        return -1;
    return ((pixel / made * w.image.height + i) * w.image.width + j) * w.channels + channel;
}

template <typename T> static __global__ void gather_pixels(struct image_windows w, const T *x, T *rows)
{
    int64_t depth = w.window.size[0] * w.window.size[1] * w.n_channels;
    for (int64_t i = threadIdx.x; i < depth; i += blockDim.x) {
        int64_t pixel = i / w.n_channels, channel = w.first_channel + i % w.n_channels;
        int64_t from =
            window_element(w, w.first + blockIdx.x, pixel / w.window.size[1], pixel % w.window.size[1], channel);
        rows[blockIdx.x * depth + i] = from < 0 ? of_float<T>(0.0f) : x[from];
    }
}

/* y = scale * (y + bias), for `columns` columns of rows that are `stride` apart. */
template <typename T>
static __global__ void scale_rows(int64_t columns, int64_t stride, const float *bias, float scale, T *y)
{
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[blockIdx.x * stride + c] = of_float<T>((to_float(y[blockIdx.x * stride + c]) + (bias ? bias[c] : 0)) * scale);
}

/* Describes the windows of an item. Sets *rows to the number of its rows of y, which may be 0. */
static struct image_windows windows_of_item(struct cuda_run *run, const struct plan_step *step, int64_t item,
                                            int64_t *rows)
{
    const int64_t *to = starts_of(run, step->y) + item;
    struct image_windows w = {};
    *rows = to[1] - to[0];
    if (*rows == 0)
        return w;
    w.window = step->convolve_image.window;
    w.image = padder_convolution_image(run->plan, run->batch, step, item);
    w.made = plan_convolved(&w.window, w.image);
    w.channels = columns_of(run, step->x);
    w.n_channels = w.channels / step->convolve_image.groups;
    return w;
}

template <typename T> static T *item_elements(struct cuda_run *run, int value, int64_t item)
{
    return elements_of<T>(run, value) + starts_of(run, value)[item] * columns_of(run, value);
}

int64_t cuda_convolve_image_scratch(const struct plan *plan, const struct plan_step *step)
{
    return IMAGE_ROWS * plan->weights[step->weight].columns;
}

/* Calls work(windows, rows, x, y) for groups of at most IMAGE_ROWS pixels of y. */
template <typename T, typename Work>
static void each_part(struct cuda_run *run, const struct plan_step *step, Work work)
{
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        int64_t all;
        struct image_windows w = windows_of_item(run, step, item, &all);
        for (; w.first < all; w.first += IMAGE_ROWS)
            work(w, least(IMAGE_ROWS, all - w.first), item_elements<T>(run, step->x, item),
                 item_elements<T>(run, step->y, item) + w.first * columns_of(run, step->y));
    }
}

template <typename T> void cuda_convolve_image(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->y);
    float scale = step->convolve_image.scale;
    each_part<T>(run, step, [&](const struct image_windows &w, int64_t rows, const T *x, T *y) {
        struct linear<T> linear = {
        };
        linear.rows = rows;
        linear.x = (T *)scratch_of(run);
        linear.x_stride = run->plan->weights[step->weight].columns;
        linear.weight = step->weight;
        linear.bias = step->bias;
        linear.out = y;
        launch(run, gather_pixels<T>, rows, 1, threads_for_columns(linear.x_stride), w, x, (T *)scratch_of(run));
        cuda_linear_rows(run, &linear);
        if (scale != 1.0f)
            launch(run, scale_rows<T>, rows, 1, threads_for_columns(columns), columns, columns, (const float *)NULL,
                   scale, y);
    });
}

/* ---- Convolutions of images in groups of columns, with a product for each group ---- */

int64_t cuda_convolve_groups_scratch(const struct plan *plan, const struct plan_step *step)
{
    return IMAGE_ROWS * plan->weights[step->weight].columns;
}

template <typename T>
static void convolve_group(struct cuda_run *run, const struct plan_step *step, struct image_windows w, int64_t group,
                           int64_t rows, const T *x, T *y)
{
    int64_t all = columns_of(run, step->y), columns = all / step->convolve_image.groups;
    const float *bias = float_weight_of(run, step->bias);
    struct cuda_product product = {};
    w.first_channel = group * w.n_channels;
    product.rows = rows;
    product.columns = columns;
    product.depth = run->plan->weights[step->weight].columns;
    product.a = scratch_of(run);
    product.a_stride = product.depth;
    product.b = weight_of<T>(run, step->weight) + group * columns * product.depth;
    product.b_stride = product.depth;
    product.transpose_b = true;
    product.out = y + group * columns;
    product.out_stride = all;
    launch(run, gather_pixels<T>, rows, 1, threads_for_columns(product.depth), w, x, (T *)scratch_of(run));
    cuda_products_multiply(run, &product);
    launch(run, scale_rows<T>, rows, 1, threads_for_columns(columns), columns, all,
           bias ? bias + group * columns : NULL, step->convolve_image.scale, y + group * columns);
}

template <typename T> void cuda_convolve_groups(struct cuda_run *run, const struct plan_step *step)
{
    each_part<T>(run, step, [&](const struct image_windows &w, int64_t rows, const T *x, T *y) {
        for (int64_t group = 0; group < step->convolve_image.groups; group++)
            convolve_group<T>(run, step, w, group, rows, x, y);
    });
}

/* ---- Convolutions of images in groups of one column. A thread computes a column of y ---- */

template <typename T>
static __global__ void convolve_pixels(struct image_windows w, int64_t columns, const T *x, const float *weight,
                                       const float *bias, float scale, T *y)
{
    int64_t copies = columns / w.channels;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
        float sum = bias ? bias[c] : 0;
        for (int64_t p = 0; p < w.window.size[0] * w.window.size[1]; p++) {
            int64_t u = p / w.window.size[1], v = p % w.window.size[1];
            int64_t from = window_element(w, w.first + blockIdx.x, u, v, c / copies);
            sum += from < 0 ? 0 : to_float(x[from]) * weight[p * columns + c];
        }
        y[blockIdx.x * columns + c] = of_float<T>(scale * sum);
    }
}

template <typename T> void cuda_convolve_channels(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->y);
    each_part<T>(run, step, [&](const struct image_windows &w, int64_t rows, const T *x, T *y) {
        launch(run, convolve_pixels<T>, rows, 1, threads_for_columns(columns), w, columns, x,
               float_weight_of(run, step->weight), float_weight_of(run, step->bias), step->convolve_image.scale, y);
    });
}

FOR_ELEMENTS(cuda_convolve_sequence)
FOR_ELEMENTS(cuda_convolve_image)
FOR_ELEMENTS(cuda_convolve_groups)
FOR_ELEMENTS(cuda_convolve_channels)
