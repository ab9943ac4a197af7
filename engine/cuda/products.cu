#include "engine/cuda/products.h"
#include "engine/cuda/rows.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#define WORKSPACE_BYTES ((size_t)32 << 20)
#define REMEMBERED 1024        /* algorithms; a power of two */
#define FEED_FORWARD_ROWS 4096 /* whose hidden part is there at a time */

/* What an algorithm was chosen for. */
struct shape {
    int64_t rows, columns, depth, a_stride, b_stride, out_stride;
    uint32_t a_alignment, b_alignment, add_alignment, out_alignment; /* bytes */
    int32_t transpose_a, transpose_b, bias, add;
};

struct remembered {
    struct shape shape;
    cublasLtMatmulAlgo_t algorithm;
};

struct products {
    cublasLtHandle_t handle;
    void *workspace;
    struct remembered remembered[REMEMBERED]; /* by hash; a newer one takes the place of an older one */
};

int products_open(struct products **products, struct error *error)
{
    struct products *opened = (struct products *)calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, "out of memory while opening the CUDA engine");
    if (cublasLtCreate(&opened->handle) != CUBLAS_STATUS_SUCCESS) {
        free(opened);
        return error_set(error, "cuBLASLt does not start on this device");
    }
    if (cudaMalloc(&opened->workspace, WORKSPACE_BYTES) != cudaSuccess) {
        cudaGetLastError();
        cublasLtDestroy(opened->handle);
        free(opened);
        return error_set(error, "the device has no %zu bytes left for products of matrices", WORKSPACE_BYTES);
    }
    *products = opened;
    return 0;
}

void products_close(struct products *products)
{
    cudaFree(products->workspace);
    cublasLtDestroy(products->handle);
    free(products);
}

/* The largest power of two, at most 256, that the address is a multiple of. */
static uint32_t alignment_of(const void *pointer)
{
    uintptr_t bits = (uintptr_t)pointer | 256;
    return (uint32_t)(bits & -bits);
}

/* A product in cuBLASLt's terms, which has matrices column by column: outᵀ = Bᵀ Aᵀ, so B comes first. */
struct description {
    cublasLtMatmulDescOpaque_t how;
    cublasLtMatrixLayoutOpaque_t first, second, out;
};

static void lay_out(cublasLtMatrixLayoutOpaque_t *layout, int64_t rows, int64_t columns, bool transposed,
                    int64_t stride)
{
    cublasLtMatrixLayoutInit(layout, CUDA_R_32F, (uint64_t)(transposed ? rows : columns),
                             (uint64_t)(transposed ? columns : rows), stride);
}

static void describe(const struct product *p, struct description *d)
{
    cublasOperation_t first = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulDescInit(&d->how, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    if (p->bias) {
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
        cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
    }
    lay_out(&d->first, p->depth, p->columns, p->transpose_b, p->b_stride);
    lay_out(&d->second, p->rows, p->depth, p->transpose_a, p->a_stride);
    lay_out(&d->out, p->rows, p->columns, false, p->out_stride);
}

static struct shape shape_of(const struct product *p)
{
    struct shape shape;
    memset(&shape, 0, sizeof shape); /* compared and hashed as bytes */
    shape.rows = p->rows;
    shape.columns = p->columns;
    shape.depth = p->depth;
    shape.a_stride = p->a_stride;
    shape.b_stride = p->b_stride;
    shape.out_stride = p->out_stride;
    shape.a_alignment = alignment_of(p->a);
    shape.b_alignment = alignment_of(p->b);
    shape.add_alignment = alignment_of(p->add ? p->add : p->out);
    shape.out_alignment = alignment_of(p->out);
    shape.transpose_a = p->transpose_a;
    shape.transpose_b = p->transpose_b;
    shape.bias = p->bias != NULL;
    shape.add = p->add != NULL;
    return shape;
}

static uint64_t hash_of(const struct shape *shape)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < sizeof *shape; i++)
        hash = (hash ^ ((const unsigned char *)shape)[i]) * 1099511628211u;
    return hash ^ hash >> 32;
}

/* cuBLASLt takes matrices to be aligned to 256 bytes unless it is told otherwise; an item's rows can begin anywhere. */
static bool choose(struct products *products, struct description *d, const struct shape *shape,
                   cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t result;
    size_t workspace_bytes = WORKSPACE_BYTES;
    int found = 0;
    cublasLtMatmulPreferenceInit(&preference);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                         sizeof workspace_bytes);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &shape->b_alignment,
                                         sizeof shape->b_alignment);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &shape->a_alignment,
                                         sizeof shape->a_alignment);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &shape->add_alignment,
                                         sizeof shape->add_alignment);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &shape->out_alignment,
                                         sizeof shape->out_alignment);
    if (cublasLtMatmulAlgoGetHeuristic(products->handle, &d->how, &d->first, &d->second, &d->out, &d->out, &preference,
                                       1, &result, &found) != CUBLAS_STATUS_SUCCESS ||
        found == 0)
        return false;
    *algorithm = result.algo;
    return true;
}

/* The remembered algorithm, or a new one in its place; NULL: there is none. */
static const cublasLtMatmulAlgo_t *algorithm_for(struct products *products, struct description *d,
                                                 const struct product *product)
{
    struct shape shape = shape_of(product);
    struct remembered *place = &products->remembered[hash_of(&shape) % REMEMBERED];
    if (memcmp(&place->shape, &shape, sizeof shape) != 0) {
        memset(&place->shape, 0, sizeof place->shape);
        if (!choose(products, d, &shape, &place->algorithm))
            return NULL;
        place->shape = shape;
    }
    return &place->algorithm;
}

void products_multiply(struct cuda_run *run, const struct product *product)
{
    struct description d;
    const float one = 1, c_factor = product->add ? 1.0f : 0.0f;
    if (product->rows == 0 || product->columns == 0 || run->status != cudaSuccess || run->product_failed)
        return;
    describe(product, &d);
    const cublasLtMatmulAlgo_t *algorithm = algorithm_for(run->products, &d, product);
    if (!algorithm ||
        cublasLtMatmul(run->products->handle, &d.how, &one, product->b, &d.first, product->a, &d.second, &c_factor,
                       product->add ? product->add : product->out, &d.out, product->out, &d.out, algorithm,
                       run->products->workspace, WORKSPACE_BYTES, run->stream) != CUBLAS_STATUS_SUCCESS)
        run->product_failed = true;
}

/* ---- Linear ---- */

/* Its own kernel where there is an activation: cuBLASLt's GELU is the tanh approximation, and its activations come
 * after what is added. In place. */
static __global__ void finish_linear(int64_t columns, const float *bias, enum activation activation,
                                     const float *residual, float *y)
{
    int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
        float x = y[row * columns + c] + (bias ? bias[c] : 0);
        y[row * columns + c] = activation_of(activation, x) + (residual ? residual[row * columns + c] : 0);
    }
}

void cuda_linear_rows(struct cuda_run *run, const struct linear *linear)
{
    const struct plan_weight *weight = &run->plan->weights[linear->weight];
    const float *bias = weight_of(run, linear->bias);
    bool plain = linear->activation == ACTIVATION_NONE;
    struct product product = {};
    product.rows = linear->rows;
    product.columns = weight->rows;
    product.depth = weight->columns;
    product.a = linear->x;
    product.a_stride = linear->x_stride;
    product.b = weight_of(run, linear->weight);
    product.b_stride = weight->columns;
    product.transpose_b = true;
    product.bias = plain ? bias : NULL;
    product.add = plain ? linear->residual : NULL;
    product.out = linear->out;
    product.out_stride = weight->rows;
    products_multiply(run, &product);
    if (!plain)
        launch(run, finish_linear, linear->rows, 1, threads_for(weight->rows), weight->rows, bias, linear->activation,
               linear->residual, linear->out);
}

static bool selects(const struct cuda_run *run, const struct plan_step *step, int64_t item)
{
    if (step->only.axis == PLAN_NONE)
        return true;
    const int64_t *starts = run->batch->layouts[step->only.axis].starts + item;
    int64_t rows = starts[1] - starts[0];
    return step->only.least <= rows && rows <= step->only.most;
}

/* One product for each run of selected items. */
void cuda_linear(struct cuda_run *run, const struct plan_step *step)
{
    const int64_t *starts = starts_of(run, step->x);
    int64_t depth = columns_of(run, step->x), columns = columns_of(run, step->y);
    for (int64_t item = 0, behind; item < run->batch->n_items; item = behind) {
        for (behind = item; behind < run->batch->n_items && selects(run, step, behind);)
            behind++;
        struct linear linear = {};
        linear.rows = starts[behind] - starts[item];
        linear.x = floats_of(run, step->x) + starts[item] * depth;
        linear.x_stride = depth;
        linear.weight = step->weight;
        linear.bias = step->bias;
        linear.activation = step->activation;
        linear.residual = step->z == PLAN_NONE ? NULL : floats_of(run, step->z) + starts[item] * columns;
        linear.out = floats_of(run, step->y) + starts[item] * columns;
        cuda_linear_rows(run, &linear);
        behind += behind == item; /* the item is not selected */
    }
}

/* ---- Feed-forward ---- */

int64_t cuda_feed_forward_scratch(const struct plan *plan, const struct plan_step *step)
{
    return least(FEED_FORWARD_ROWS, plan->max_rows) * plan->weights[step->weight].rows;
}

/* h[r, i] = activation(g[r, i]) * g[r, columns + i], in the place of g[r, i]. */
static __global__ void gate_in_place(int64_t columns, enum activation activation, float *g)
{
    g += blockIdx.x * 2 * columns;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        g[c] = activation_of(activation, g[c]) * g[columns + c];
}

/* Block after block of rows, so that the hidden part needs no more than scratch. */
void cuda_feed_forward(struct cuda_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    int64_t rows = rows_of(run, step->x), depth = columns_of(run, step->x), columns = columns_of(run, step->y);
    int64_t hidden = plan->weights[step->second_weight].columns, all = plan->weights[step->weight].rows;
    int64_t at_once = least(FEED_FORWARD_ROWS, plan->max_rows);
    for (int64_t first = 0; first < rows; first += at_once) {
        struct linear linear = {};
        linear.rows = least(at_once, rows - first);
        linear.x = floats_of(run, step->x) + first * depth;
        linear.x_stride = depth;
        linear.weight = step->weight;
        linear.bias = step->bias;
        linear.activation = step->gated ? ACTIVATION_NONE : step->activation;
        linear.out = run->scratch;
        cuda_linear_rows(run, &linear);
        if (step->gated)
            launch(run, gate_in_place, linear.rows, 1, threads_for(hidden), hidden, step->activation, run->scratch);
        linear.x = run->scratch;
        linear.x_stride = all;
        linear.weight = step->second_weight;
        linear.bias = step->second_bias;
        linear.activation = ACTIVATION_NONE;
        linear.residual = step->z == PLAN_NONE ? NULL : floats_of(run, step->z) + first * columns;
        linear.out = floats_of(run, step->y) + first * columns;
        cuda_linear_rows(run, &linear);
    }
}

/* ---- Projections along the sequence ---- */

/* What a product leaves out of y (k, y_columns) of an item: biases and the further columns. A block takes row j. */
struct projection_rest {
    const float *weight, *bias;
    int64_t across, along; /* E[p, j] is weight[p * across + j * along] */
    int64_t rows, columns, y_columns, group_columns, k;
    bool sums_column, bias_column;
    float *y;
};

static __global__ void finish_projection(struct projection_rest rest)
{
    int64_t j = blockIdx.x;
    float *y = rest.y + j * rest.y_columns, *further = y + rest.columns;
    for (int64_t c = threadIdx.x; rest.bias && !rest.bias_column && c < rest.columns; c += blockDim.x)
        y[c] += rest.bias[c / rest.group_columns * rest.k + j];
    float sum = 0;
    for (int64_t p = threadIdx.x; rest.sums_column && threadIdx.x < WARP && p < rest.rows; p += WARP)
        sum += rest.weight[p * rest.across + j * rest.along];
    sum = warp_sum(sum);
    if (threadIdx.x == 0 && rest.sums_column)
        *further++ = sum;
    if (threadIdx.x == 0 && rest.bias_column)
        *further = rest.bias[j];
}

static void project_item(struct cuda_run *run, const struct plan_step *step, int64_t item)
{
    const struct plan_weight *weight = &run->plan->weights[step->weight];
    int64_t columns = columns_of(run, step->x), y_columns = columns_of(run, step->y);
    int64_t group_columns = columns / step->groups, k = run->plan->axes[run->plan->values[step->y].axis].rows_per_item;
    const int64_t *starts = starts_of(run, step->x) + item;
    const float *e = weight_of(run, step->weight);
    float *y = floats_of(run, step->y) + starts_of(run, step->y)[item] * y_columns;
    for (int64_t group = 0; group < step->groups; group++) {
        struct product product = {};
        product.rows = k;
        product.columns = group_columns;
        product.depth = starts[1] - starts[0];
        product.a = e + group * (weight->rows / step->groups) * weight->columns;
        product.a_stride = weight->columns;
        product.transpose_a = !step->transposed;
        product.b = floats_of(run, step->x) + starts[0] * columns + group * group_columns;
        product.b_stride = columns;
        product.out = y + group * group_columns;
        product.out_stride = y_columns;
        products_multiply(run, &product);
    }
    struct projection_rest rest = {};
    rest.weight = e;
    rest.bias = weight_of(run, step->bias);
    rest.across = step->transposed ? 1 : weight->columns;
    rest.along = step->transposed ? weight->columns : 1;
    rest.rows = starts[1] - starts[0];
    rest.columns = columns;
    rest.y_columns = y_columns;
    rest.group_columns = group_columns;
    rest.k = k;
    rest.sums_column = step->sums_column;
    rest.bias_column = step->bias_column;
    rest.y = y;
    if (rest.bias || step->sums_column)
        launch(run, finish_projection, k, 1, threads_for(columns), rest);
}

void cuda_project_sequence(struct cuda_run *run, const struct plan_step *step)
{
    for (int64_t item = 0; item < run->batch->n_items; item++)
        if (selects(run, step, item))
            project_item(run, step, item);
}

struct convolution {
    const float *x, *weight, *bias;
    const int64_t *starts; /* of x */
    int64_t columns, d, stride, k, weights;
    float *y;
};

/* A warp for each element of y: the weights that it needs, (d, stride), lie one behind the other. */
static __global__ void convolve_sequence(struct convolution c, int64_t elements)
{
    int64_t element = warp_of_grid();
    if (element >= elements)
        return;
    int64_t column = element % c.columns, row = element / c.columns, item = row / c.k, window = row % c.k;
    int64_t which = c.weights > 1 ? column / c.d : 0, depth = c.d * c.stride;
    int64_t first = c.starts[item] + window * c.stride, end = c.starts[item + 1];
    const float *weight = c.weight + (which * c.d + column % c.d) * depth;
    float sum = 0;
    for (int64_t i = lane(); i < depth; i += WARP)
        if (first + i % c.stride < end)
            sum += weight[i] * c.x[(first + i % c.stride) * c.columns + column / c.d * c.d + i / c.stride];
    sum = warp_sum(sum);
    if (lane() == 0)
        c.y[element] = sum + c.bias[which * c.d + column % c.d];
}

void cuda_convolve_sequence(struct cuda_run *run, const struct plan_step *step)
{
    const struct plan_weight *bias = &run->plan->weights[step->bias];
    struct convolution c = {};
    c.x = floats_of(run, step->x);
    c.weight = weight_of(run, step->weight);
    c.bias = weight_of(run, step->bias);
    c.starts = device_starts_of(run, step->x);
    c.columns = columns_of(run, step->x);
    c.d = c.columns / step->groups;
    c.stride = step->stride;
    c.k = run->plan->axes[run->plan->values[step->y].axis].rows_per_item;
    c.weights = bias->rows * bias->columns / c.d;
    c.y = floats_of(run, step->y);
    int64_t elements = run->batch->n_items * c.k * c.columns;
    launch(run, convolve_sequence, parts_of(elements, 4), 1, 4 * WARP, c, elements);
}

/* ---- Convolution of images: each pixel's window as a row (window, channels), times W ---- */

#define IMAGE_ROWS 1024 /* whose windows are there at a time */

struct image_windows {
    struct plan_window window;
    struct plan_image image;
    int64_t channels, width, first; /* width of y; the first of its pixels */
};

static __global__ void gather_windows(struct image_windows w, const float *x, float *rows)
{
    int64_t pixel = w.first + blockIdx.x, depth = w.window.size[0] * w.window.size[1] * w.channels;
    int64_t top = pixel / w.width * w.window.stride[0] - w.window.before[0];
    int64_t left = pixel % w.width * w.window.stride[1] - w.window.before[1];
    for (int64_t i = threadIdx.x; i < depth; i += blockDim.x) {
        int64_t u = top + i / w.channels / w.window.size[1], v = left + i / w.channels % w.window.size[1];
        bool inside = u >= 0 && u < w.image.height && v >= 0 && v < w.image.width;
        rows[blockIdx.x * depth + i] = inside ? x[(u * w.image.width + v) * w.channels + i % w.channels] : 0;
    }
}

static __global__ void scale_rows(int64_t columns, float scale, float *y)
{
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[blockIdx.x * columns + c] *= scale;
}

int64_t cuda_convolve_image_scratch(const struct plan *plan, const struct plan_step *step)
{
    return IMAGE_ROWS * plan->weights[step->weight].columns;
}

void cuda_convolve_image(struct cuda_run *run, const struct plan_step *step)
{
    int64_t channels = columns_of(run, step->x), columns = columns_of(run, step->y);
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        const int64_t *to = starts_of(run, step->y) + item;
        const float *x = floats_of(run, step->x) + starts_of(run, step->x)[item] * channels;
        struct image_windows w = {};
        w.window = step->kernel;
        w.image = padder_axis_image(run->plan, &run->batch->items[item], run->plan->values[step->x].axis);
        w.channels = channels;
        if (to[1] == to[0])
            continue;
        w.width = plan_convolved(&step->kernel, w.image).width;
        for (; w.first < to[1] - to[0]; w.first += IMAGE_ROWS) {
            struct linear linear = {};
            linear.rows = least(IMAGE_ROWS, to[1] - to[0] - w.first);
            linear.x = run->scratch;
            linear.x_stride = run->plan->weights[step->weight].columns;
            linear.weight = step->weight;
            linear.bias = step->bias;
            linear.activation = ACTIVATION_NONE;
            linear.out = floats_of(run, step->y) + (to[0] + w.first) * columns;
            launch(run, gather_windows, linear.rows, 1, threads_for(linear.x_stride), w, x, run->scratch);
            cuda_linear_rows(run, &linear);
            launch(run, scale_rows, linear.rows, 1, threads_for(columns), columns, step->scale, linear.out);
        }
    }
}

/* y[s, c, j] += t[c] E[j, n]; a block takes (s, c). */
static __global__ void add_tail(int64_t k, int64_t d, const float *tail, const float *last, int64_t stride, float *y)
{
    int64_t row = blockIdx.x;
    for (int64_t j = threadIdx.x; j < k; j += blockDim.x)
        y[row * k + j] += tail[row % d] * last[j * stride];
}

void cuda_project_call(struct cuda_run *run, const struct plan_step *step)
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
        product.a = floats_of(run, step->x) + starts[0] * d;
        product.a_stride = width * d;
        product.transpose_a = true;
        product.b = weight_of(run, step->weight);
        product.b_stride = e->columns;
        product.transpose_b = true;
        product.bias = weight_of(run, step->bias);
        product.out = floats_of(run, step->y) + starts_of(run, step->y)[item] * d;
        product.out_stride = e->rows;
        products_multiply(run, &product);
        if (step->tail != PLAN_NONE)
            launch(run, add_tail, product.rows, 1, threads_for(e->rows), e->rows, d, weight_of(run, step->tail),
                   weight_of(run, step->weight) + product.depth, e->columns, product.out);
    }
}
