#include "engine/cuda/products.h"
#include "engine/cuda/rows.h"

#ifndef FEED_FORWARD_ROWS
#define FEED_FORWARD_ROWS 4096 /* whose hidden part is there at a time, in floats; twice as many of 16 bits */
#endif

/* ---- Linear ---- */

/* What comes after a product, in place. Also where there is an activation and something is added: cuBLASLt's comes
 * after what is added. */
template <typename T, int N>
static __global__ void finish_linear(int64_t rows, int64_t columns, const T *bias, enum activation activation,
                                     const T *residual, T *y)
{
    int64_t row = warp_of_grid();
    for (int64_t c = lane() * N; row < rows && c < columns; c += WARP * N) {
        float values[N], others[N] = {};
        load(values, y + row * columns + c);
        if (bias)
            load(others, bias + c);
        for (int i = 0; i < N; i++)
            values[i] = activation_of(activation, values[i] + others[i]);
        if (residual)
            load(others, residual + row * columns + c);
        for (int i = 0; residual && i < N; i++)
            values[i] += others[i];
        store(y + row * columns + c, values);
    }
}

/* cuBLASLt's GELU is the tanh approximation, up to 4.7e-4 off: that is less than bfloat16 rounds off, and more than the
 * others do. */
template <typename T> void cuda_linear_rows(struct cuda_run *run, const struct linear<T> *linear)
{
    const struct plan_weight *weight = &run->plan->weights[linear->weight];
    bool gelu = run->dtype == CUDA_BF16 && linear->activation == ACTIVATION_GELU && !linear->residual;
    bool plain = linear->activation == ACTIVATION_NONE || gelu;
    const T *bias = weight_of<T>(run, linear->bias);
    struct product product = {};
    product.rows = linear->rows;
    product.columns = weight->rows;
    product.depth = weight->columns;
    product.a = linear->x;
    product.a_stride = linear->x_stride;
    product.b = weight_of<T>(run, linear->weight);
    product.b_stride = weight->columns;
    product.transpose_b = true;
    product.bias = plain ? bias : NULL;
    product.add = plain ? linear->residual : NULL;
    product.gelu = gelu;
    product.out = linear->out;
    product.out_stride = weight->rows;
    products_multiply(run, &product);
    if (!plain)
        with_pack<T>(weight->rows, [&](auto n) {
            launch_rows(run, finish_linear<T, n.value>, linear->rows, weight->rows, bias, linear->activation,
                        linear->residual, linear->out);
        });
}

template <typename T>
static void linear_part(struct cuda_run *run, const struct plan_step *step, int64_t first, int64_t rows)
{
    int64_t depth = columns_of(run, step->x), columns = columns_of(run, step->y);
    struct linear<T> linear = {
    };
    linear.rows = rows;
    linear.x = elements_of<T>(run, step->x) + first * depth;
    linear.x_stride = depth;
    linear.weight = step->weight;
    linear.bias = step->bias;
    linear.activation = step->activation;
    linear.residual = step->z == PLAN_NONE ? NULL : elements_of<T>(run, step->z) + first * columns;
    linear.out = elements_of<T>(run, step->y) + first * columns;
    cuda_linear_rows(run, &linear);
}

/* One product of all rows where the selected items are all of them, or the others so few that they come along; else one
 * for each run of selected items, of so many rows as its class has. */
template <typename T> void cuda_linear(struct cuda_run *run, const struct plan_step *step)
{
    int number = (int)(step - run->plan->steps);
    if (run->shape->selected[number] == SELECTED_NONE)
        return;
    if (!shape_splits(run->plan, run->shape, number)) {
        linear_part<T>(run, step, 0, rows_of(run, step->x));
        return;
    }
    const int64_t *starts = starts_of(run, step->x);
    for (int64_t item = 0, behind; item < run->batch->n_items; item = behind) {
        for (behind = item; behind < run->batch->n_items && shape_selects(run->batch, step, behind);)
            behind++;
        int64_t first = starts[item], rows = shape_round_rows(starts[behind] - first, rows_of(run, step->x) - first);
        linear_part<T>(run, step, first, rows);
        behind += behind == item; /* the item is not selected */
    }
}

/* ---- Feed-forward ---- */

int64_t cuda_feed_forward_scratch(const struct plan *plan, const struct plan_step *step)
{
    return least(FEED_FORWARD_ROWS, plan->max_rows) * plan->weights[step->weight].rows;
}

/* h[r, i] = activation(g[r, i]) * g[r, columns + i], in the place of g[r, i]. */
template <typename T, int N>
static __global__ void gate_in_place(int64_t rows, int64_t columns, enum activation activation, T *g)
{
    int64_t row = warp_of_grid();
    g += row * 2 * columns;
    for (int64_t c = lane() * N; row < rows && c < columns; c += WARP * N) {
        float values[N], gates[N];
        load(values, g + c);
        load(gates, g + columns + c);
        for (int i = 0; i < N; i++)
            values[i] = activation_of(activation, values[i]) * gates[i];
        store(g + c, values);
    }
}

/* The second product of rows [first, first + linear->rows), whose hidden part is in scratch. */
template <typename T>
static void feed_second(struct cuda_run *run, const struct plan_step *step, int64_t first, struct linear<T> linear)
{
    int64_t columns = columns_of(run, step->y);
    linear.x = (T *)run->scratch;
    linear.x_stride = run->plan->weights[step->weight].rows;
    linear.weight = step->second_weight;
    linear.bias = step->second_bias;
    linear.activation = ACTIVATION_NONE;
    linear.residual = step->z == PLAN_NONE ? NULL : elements_of<T>(run, step->z) + first * columns;
    linear.out = elements_of<T>(run, step->y) + first * columns;
    cuda_linear_rows(run, &linear);
}

/* Block after block of rows, so that the hidden part needs no more than scratch. */
template <typename T> void cuda_feed_forward(struct cuda_run *run, const struct plan_step *step)
{
    int64_t rows = rows_of(run, step->x), depth = columns_of(run, step->x);
    int64_t hidden = run->plan->weights[step->second_weight].columns;
    int64_t at_once = least(FEED_FORWARD_ROWS * (int64_t)(sizeof(float) / sizeof(T)), run->plan->max_rows);
    for (int64_t first = 0; first < rows; first += at_once) {
        struct linear<T> linear = {
        };
        linear.rows = least(at_once, rows - first);
        linear.x = elements_of<T>(run, step->x) + first * depth;
        linear.x_stride = depth;
        linear.weight = step->weight;
        linear.bias = step->bias;
        linear.activation = step->gated ? ACTIVATION_NONE : step->activation;
        linear.out = (T *)run->scratch;
        cuda_linear_rows(run, &linear);
        if (step->gated)
            with_pack<T>(hidden, [&](auto n) {
                launch_rows(run, gate_in_place<T, n.value>, linear.rows, hidden, step->activation, (T *)run->scratch);
            });
        feed_second(run, step, first, linear);
    }
}

/* ---- Before the first batch ---- */

/* For the steps of a class that are products, whatever its items want. */
static void choose_for(struct cuda_run *run)
{
    for (int i = 0; i < run->plan->n_steps; i++) {
        const struct plan_step *step = &run->plan->steps[i];
        if (step->operation == OP_LINEAR || step->operation == OP_FEED_FORWARD || step->operation == OP_GIVE_OUTPUT)
            cuda_operation_of(run->dtype, step->operation)->run(run, step);
    }
}

/* The largest power of two below it. */
static int64_t count_below(int64_t count)
{
    int64_t power = 1;
    while (power < (count + 1) / 2)
        power *= 2;
    return power;
}

int products_warm(struct cuda_run run, struct error *error)
{
    const struct plan *plan = run.plan;
    struct shape_class shape = {};
    if (shape_open(plan, &shape, error) != 0)
        return -1;
    run.shape = &shape;
    run.choosing = true;
    for (int64_t items = plan->max_items; items > 1; items = count_below(items)) { /* as many rows as there can be */
        shape_of_size(plan, plan->max_rows, items, &shape);
        choose_for(&run);
    }
    for (int64_t rows = plan->max_rows; rows > 0; rows = shape_rows_below(rows)) {
        shape_of_size(plan, rows, 1, &shape);
        shape.n_wanted = rows;
        choose_for(&run);
    }
    shape_free(&shape);
    return run.status == cudaSuccess ? 0 : cuda_fail(error, "the CUDA device failed at products", run.status);
}

/* ---- Convolution of images: each pixel's window as a row (window, channels), times W ---- */

#ifndef IMAGE_ROWS
#define IMAGE_ROWS 1024 /* whose windows are there at a time */
#endif

struct image_windows {
    struct plan_window window;
    struct plan_image image;
    int64_t channels, width, first; /* width of y; the first of its pixels */
};

template <typename T> static __global__ void gather_windows(struct image_windows w, const T *x, T *rows)
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
        w.window = step->kernel;
        w.image = padder_axis_image(run->plan, &run->batch->items[item], run->plan->values[step->x].axis);
        w.channels = channels;
        if (to[1] == to[0])
            continue;
        w.width = plan_convolved(&step->kernel, w.image).width;
        for (; w.first < to[1] - to[0]; w.first += IMAGE_ROWS) {
            struct linear<T> linear = {
            };
            linear.rows = least(IMAGE_ROWS, to[1] - to[0] - w.first);
            linear.x = (T *)run->scratch;
            linear.x_stride = run->plan->weights[step->weight].columns;
            linear.weight = step->weight;
            linear.bias = step->bias;
            linear.activation = ACTIVATION_NONE;
            linear.out = elements_of<T>(run, step->y) + (to[0] + w.first) * columns;
            launch(run, gather_windows<T>, linear.rows, 1, threads_for(linear.x_stride), w, x, (T *)run->scratch);
            cuda_linear_rows(run, &linear);
            launch(run, scale_rows<T>, linear.rows, 1, threads_for(columns), columns, step->scale, linear.out);
        }
    }
}

/* y[s, c, j] += t[c] E[j, n]; a block takes (s, c). */
template <typename T>
static __global__ void add_tail(int64_t k, int64_t d, const T *tail, const T *last, int64_t stride, T *y)
{
    int64_t row = blockIdx.x;
    for (int64_t j = threadIdx.x; j < k; j += blockDim.x)
        y[row * k + j] = of_float<T>(to_float(y[row * k + j]) + to_float(tail[row % d]) * to_float(last[j * stride]));
}

template <typename T> void cuda_project_call(struct cuda_run *run, const struct plan_step *step)
{
    const struct plan_weight *e = &run->plan->weights[step->weight];
    int64_t d = columns_of(run, step->x);
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        const int64_t *starts = starts_of(run, step->x) + item;
        int64_t width = width_of(run, step->x, item);
        struct product product = {};
        product.rows = width * d;
        product.columns = e->rows;
        product.depth = (starts[1] - starts[0]) / width;
        product.a = elements_of<T>(run, step->x) + starts[0] * d;
        product.a_stride = width * d;
        product.transpose_a = true;
        product.b = weight_of<T>(run, step->weight);
        product.b_stride = e->columns;
        product.transpose_b = true;
        product.bias = weight_of<T>(run, step->bias);
        T *out = elements_of<T>(run, step->y) + starts_of(run, step->y)[item] * d;
        product.out = out;
        product.out_stride = e->rows;
        products_multiply(run, &product);
        if (step->tail != PLAN_NONE)
            launch(run, add_tail<T>, product.rows, 1, threads_for(e->rows), e->rows, d, weight_of<T>(run, step->tail),
                   weight_of<T>(run, step->weight) + product.depth, e->columns, out);
    }
}

template void cuda_linear_rows(struct cuda_run *, const struct linear<float> *);
template void cuda_linear_rows(struct cuda_run *, const struct linear<bf16> *);
template void cuda_linear_rows(struct cuda_run *, const struct linear<f16> *);
FOR_ELEMENTS(cuda_linear)
FOR_ELEMENTS(cuda_feed_forward)
FOR_ELEMENTS(cuda_convolve_image)
FOR_ELEMENTS(cuda_project_call)
