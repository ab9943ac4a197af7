/* Products of matrices by cuBLASLt, and the choice of an algorithm for each shape. cuBLASLt proposes algorithms,
 * beginning with the best by its own estimate. While a model is loaded, these algorithms are timed (fastest.h). The
 * timed products read arbitrary content of memory. The fastest algorithm is remembered. For a shape that was not timed,
 * the first algorithm is used. If cuBLASLt has no algorithm for a shape, the kernels of plain_product.h compute the
 * product.
 *
 * If products of floats run on tensor cores (split.h), the kernel of split_product.h is the first algorithm. */
#include "engine/cuda/cublas_library.h"
#include "engine/cuda/fastest.h"
#include "engine/cuda/grouped_product.h"
#include "engine/cuda/plain_product.h"
#include "engine/cuda/products.h"
#include "engine/cuda/split_product.h"

#include <stdlib.h>
#include <string.h>

#ifndef WORKSPACE_BYTES
#define WORKSPACE_BYTES ((size_t)32 << 20)
#endif
#define SETS 1024    /* number of sets of remembered shapes. They work like the sets of a CPU cache */
#define WAYS 8       /* number of shapes in a set */
#define CANDIDATES 8 /* maximum number of algorithms of cuBLASLt that are timed for a shape */

/* All properties on which the choice of an algorithm depends. */
struct algorithm_shape {
    int64_t rows, columns, depth, a_stride, b_stride, out_stride;
    int64_t count, a_distance, b_distance, out_distance;
    /* In bytes: addresses of the matrices are multiples of these. */
    uint32_t a_alignment, b_alignment, add_alignment, out_alignment;
    int32_t transpose_a, transpose_b, bias, add, gelu, float_out, finish_apart, dtype;
};

/* How much of a product cuBLASLt computes. The values up to LT_NOTHING are tried in this order. The first value for
 * which cuBLASLt has an algorithm is used. */
enum cublas_extent {
    LT_WHOLE,   /* the whole product */
    LT_PRODUCT, /* the product without bias and GELU, which plain_product_finish computes */
    LT_NOTHING, /* nothing. plain_product computes the product */
    LT_SPLIT,   /* nothing. split_product computes the product */
};

struct remembered {
    struct algorithm_shape shape;
    enum cublas_extent extent;
    cublasLtMatmulAlgo_t algorithm; /* the algorithm of cuBLASLt, with LT_WHOLE and LT_PRODUCT */
};

struct cuda_products {
    cublasLtHandle_t handle;
    void *workspace;
    struct remembered remembered[SETS][WAYS]; /* the hash of a shape determines its set */
    unsigned replaced;
    struct stopwatch stopwatch;
    struct cuda_grouped *grouped;
};

int cuda_products_open(struct cuda_products **products, struct error *error)
{
    struct cuda_products *opened = (struct cuda_products *)calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, "out of memory while opening the CUDA engine");
    if (cublasLtCreate(&opened->handle) != CUBLAS_STATUS_SUCCESS) {
        free(opened);
        return error_set(error, "cuBLASLt cannot be initialised on this device");
    }
    opened->grouped = cuda_grouped_open();
    if (!opened->grouped) {
        cuda_products_close(opened);
        return error_set(error, "out of memory while opening the CUDA engine");
    }
    if (stopwatch_open(&opened->stopwatch, error) != 0) {
        cuda_products_close(opened);
        return -1;
    }
    if (cudaMalloc(&opened->workspace, WORKSPACE_BYTES) != cudaSuccess) {
        cudaGetLastError();
        opened->workspace = NULL;
        cuda_products_close(opened);
        return error_set(error, "out of memory on the CUDA device: matrix products need %zu bytes",
                         (size_t)WORKSPACE_BYTES);
    }
    *products = opened;
    return 0;
}

void cuda_products_close(struct cuda_products *products)
{
    cudaFree(products->workspace);
    stopwatch_free(&products->stopwatch);
    cuda_grouped_close(products->grouped);
    cublasLtDestroy(products->handle);
    free(products);
}

struct stopwatch *cuda_products_stopwatch(struct cuda_products *products)
{
    return &products->stopwatch;
}

struct cuda_grouped *cuda_products_grouped(struct cuda_products *products)
{
    return products->grouped;
}

/* The largest power of two, at most 256, that divides the addresses of all matrices. The first address is `pointer`,
 * and two neighbours are `bytes` bytes apart. */
static uint32_t alignment_of(const void *pointer, int64_t bytes)
{
    uintptr_t bits = (uintptr_t)pointer | (uintptr_t)bytes | 256;
    return (uint32_t)(bits & -bits);
}

/* The description of a product for cuBLASLt. cuBLASLt expects matrices in column-major order. So it computes outᵀ = Bᵀ
 * Aᵀ, and B is its first matrix. */
struct description {
    cublasLtMatmulDescOpaque_t how;
    cublasLtMatrixLayoutOpaque_t first, second, out;
};

static void lay_out(cublasLtMatrixLayoutOpaque_t *layout, cudaDataType_t type, int64_t rows, int64_t columns,
                    bool transposed, int64_t stride)
{
    cublasLtMatrixLayoutInit(layout, type, (uint64_t)(transposed ? rows : columns),
                             (uint64_t)(transposed ? columns : rows), stride);
}

/* Describes `count` matrices of the same layout, which are `distance` elements apart. */
static void repeat(cublasLtMatrixLayoutOpaque_t *layout, int64_t count, int64_t distance)
{
    int32_t products = (int32_t)count;
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &products, sizeof products);
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &distance, sizeof distance);
}

static cublasLtEpilogue_t epilogue_of(const struct cuda_product *p, enum cublas_extent extent)
{
    if (extent != LT_WHOLE)
        return CUBLASLT_EPILOGUE_DEFAULT;
    if (p->gelu)
        return p->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static void describe(const struct cuda_product *p, enum dtype dtype, enum cublas_extent extent, struct description *d)
{
    cudaDataType_t type = cublas_type_of(dtype);
    cublasLtEpilogue_t epilogue = epilogue_of(p, extent);
    cublasOperation_t first = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulDescInit(&d->how, cublas_compute_of(dtype), CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (p->bias && extent == LT_WHOLE)
        cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
    lay_out(&d->first, type, p->depth, p->columns, p->transpose_b, p->b_stride);
    lay_out(&d->second, type, p->rows, p->depth, p->transpose_a, p->a_stride);
    lay_out(&d->out, p->float_out ? CUDA_R_32F : type, p->rows, p->columns, false, p->out_stride);
    if (p->count > 1) {
        repeat(&d->first, p->count, p->b_distance);
        repeat(&d->second, p->count, p->a_distance);
        repeat(&d->out, p->count, p->out_distance);
    }
}

static struct algorithm_shape shape_of(const struct cuda_product *p, enum dtype dtype)
{
    struct algorithm_shape shape;
    int64_t bytes = cublas_type_of(dtype) == CUDA_R_32F ? 4 : 2;
    memset(&shape, 0, sizeof shape); /* clears the padding, because the struct is compared and hashed as bytes */
    shape.rows = p->rows;
    shape.columns = p->columns;
    shape.depth = p->depth;
    shape.a_stride = p->a_stride;
    shape.b_stride = p->b_stride;
    shape.out_stride = p->out_stride;
    shape.count = p->count;
    shape.a_distance = p->a_distance;
    shape.b_distance = p->b_distance;
    shape.out_distance = p->out_distance;
    shape.a_alignment = alignment_of(p->a, p->a_distance * bytes);
    shape.b_alignment = alignment_of(p->b, p->b_distance * bytes);
    shape.add_alignment = alignment_of(p->add ? p->add : p->out, p->out_distance * bytes);
    shape.out_alignment = alignment_of(p->out, p->out_distance * bytes);
    shape.transpose_a = p->transpose_a;
    shape.transpose_b = p->transpose_b;
    shape.bias = p->bias != NULL;
    shape.add = p->add != NULL;
    shape.gelu = p->gelu;
    shape.float_out = p->float_out;
    shape.finish_apart = p->finish_apart;
    shape.dtype = dtype;
    return shape;
}

static uint64_t hash_of(const struct algorithm_shape *shape)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < sizeof *shape; i++)
        hash = (hash ^ ((const unsigned char *)shape)[i]) * 1099511628211u;
    return hash ^ hash >> 32;
}

/* Asks cuBLASLt for algorithms, and returns their number. The algorithm that cuBLASLt estimates to be best comes first.
 * cuBLASLt would assume that matrices are aligned to 256 bytes. The actual alignment is passed, because the rows of an
 * item can begin anywhere. */
static int find_algorithms(struct cuda_products *products, struct description *d, const struct algorithm_shape *shape,
                           cublasLtMatmulAlgo_t algorithms[CANDIDATES])
{
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    const size_t workspace_bytes = WORKSPACE_BYTES;
    /* Partial sums are floats, and are added in a fixed order. */
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int found = 0;
    cublasLtMatmulPreferenceInit(&preference);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                         sizeof workspace_bytes);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
                                         sizeof reduction);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &shape->b_alignment,
                                         sizeof shape->b_alignment);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &shape->a_alignment,
                                         sizeof shape->a_alignment);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &shape->add_alignment,
                                         sizeof shape->add_alignment);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &shape->out_alignment,
                                         sizeof shape->out_alignment);
    if (cublasLtMatmulAlgoGetHeuristic(products->handle, &d->how, &d->first, &d->second, &d->out, &d->out, &preference,
                                       CANDIDATES, results, &found) != CUBLAS_STATUS_SUCCESS)
        return 0;
    int usable = 0;
    for (int i = 0; i < found; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS)
            algorithms[usable++] = results[i].algo;
    return usable;
}

static cublasStatus_t multiply(struct cuda_run *run, const struct cuda_product *product, struct description *d,
                               const cublasLtMatmulAlgo_t *algorithm)
{
    const float one = 1, c_factor = product->add ? 1.0f : 0.0f;
    return cublasLtMatmul(run->products->handle, &d->how, &one, product->b, &d->first, product->a, &d->second,
                          &c_factor, product->add ? product->add : product->out, &d->out, product->out, &d->out,
                          algorithm, run->products->workspace, WORKSPACE_BYTES, run->stream);
}

/* ---- Choosing ---- */

static enum cublas_extent first_extent(const struct cuda_product *product)
{
    return product->finish_apart ? LT_PRODUCT : LT_WHOLE;
}

static enum cublas_extent extent_after(enum cublas_extent extent, const struct cuda_product *product)
{
    return extent == LT_WHOLE && (product->bias || product->gelu) ? LT_PRODUCT : LT_NOTHING;
}

/* Finds an algorithm for the shape. Tries `extent` of the product first. If there is no algorithm for it, tries the
 * next smaller extent. If split_product can compute the product, it is algorithm 0, and the algorithms of cuBLASLt
 * follow. */
static void choose(struct cuda_run *run, const struct cuda_product *product, const struct algorithm_shape *shape,
                   enum cublas_extent extent, struct remembered *chosen)
{
    cublasLtMatmulAlgo_t algorithms[CANDIDATES];
    struct description d;
    int own = split_product_fits(run, product) ? 1 : 0;
    for (; extent != LT_NOTHING; extent = extent_after(extent, product)) {
        describe(product, run->dtype, extent, &d);
        int count = own + find_algorithms(run->products, &d, shape, algorithms), fastest = count > 0 ? 0 : -1;
        if (run->choosing)
            fastest = fastest_find(run, &run->products->stopwatch, count, [&](int i) {
                return i < own ? split_product(run, product)
                               : multiply(run, product, &d, &algorithms[i - own]) == CUBLAS_STATUS_SUCCESS;
            });
        if (fastest < 0)
            continue;
        if (fastest < own)
            extent = LT_SPLIT;
        else
            chosen->algorithm = algorithms[fastest - own];
        break;
    }
    chosen->extent = extent;
    chosen->shape = *shape;
}

/* ---- Remembering ---- */

static bool is_of(const struct remembered *place, const struct algorithm_shape *shape)
{
    return memcmp(&place->shape, shape, sizeof *shape) == 0;
}

/* The place of the shape in its set. A new shape receives an empty place. If there is none, it receives the place of
 * another shape. */
static struct remembered *place_of(struct cuda_products *products, const struct algorithm_shape *shape)
{
    struct remembered *set = products->remembered[hash_of(shape) % SETS];
    int way = 0;
    while (way < WAYS && !is_of(&set[way], shape))
        way++;
    if (way < WAYS)
        return &set[way];
    for (way = 0; way < WAYS && set[way].shape.rows != 0;)
        way++;
    return way < WAYS ? &set[way] : &set[products->replaced++ % WAYS];
}

/* Chooses an algorithm and remembers it. The lock is necessary, because batches use remembered algorithms at the same
 * time. */
static void prepare(struct cuda_run *run, const struct cuda_product *product)
{
    struct algorithm_shape shape = shape_of(product, run->dtype);
    struct remembered chosen;
    pthread_mutex_lock(run->submitting);
    bool known = is_of(place_of(run->products, &shape), &shape);
    pthread_mutex_unlock(run->submitting);
    if (known)
        return;
    choose(run, product, &shape, first_extent(product), &chosen);
    if (!has_not_failed(run))
        return;
    pthread_mutex_lock(run->submitting);
    *place_of(run->products, &shape) = chosen;
    pthread_mutex_unlock(run->submitting);
}

/* ---- Launching ---- */

static cublasStatus_t launch_as(struct cuda_run *run, const struct cuda_product *product,
                                const struct remembered *chosen)
{
    struct description d;
    if (chosen->extent == LT_NOTHING) {
        plain_product(run, product);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (chosen->extent == LT_SPLIT) {
        split_product(run, product);
        return CUBLAS_STATUS_SUCCESS;
    }
    describe(product, run->dtype, chosen->extent, &d);
    cublasStatus_t status = multiply(run, product, &d, &chosen->algorithm);
    if (status == CUBLAS_STATUS_SUCCESS && chosen->extent == LT_PRODUCT)
        plain_product_finish(run, product);
    return status;
}

void cuda_products_multiply(struct cuda_run *run, const struct cuda_product *product)
{
    if (product->rows == 0 || product->columns == 0 || !has_not_failed(run))
        return;
    if (run->choosing) {
        prepare(run, product);
        return;
    }
    struct algorithm_shape shape = shape_of(product, run->dtype);
    struct remembered *place = place_of(run->products, &shape);
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (!is_of(place, &shape) && !run->capturing)
        choose(run, product, &shape, first_extent(product), place);
    if (is_of(place, &shape))
        status = launch_as(run, product, place);
    while (cublas_refuses(status) && !run->capturing) {
        choose(run, product, &shape, extent_after(place->extent, product), place);
        status = launch_as(run, product, place);
    }
    /* During capturing, an algorithm may be missing, and cannot be chosen. The next launch of this product chooses
     * it. */
    if (cublas_refuses(status))
        run->refusal = "a matrix product cannot be captured in a CUDA graph";
    else if (status != CUBLAS_STATUS_SUCCESS)
        run->product_failed = true;
}

bool cuda_products_has(struct cuda_run *run, const struct cuda_product *product)
{
    struct algorithm_shape shape = shape_of(product, run->dtype);
    pthread_mutex_lock(run->submitting);
    const struct remembered *place = place_of(run->products, &shape);
    bool has = is_of(place, &shape) && place->extent != LT_NOTHING;
    pthread_mutex_unlock(run->submitting);
    return has;
}

/* ---- Before the first batch ---- */

/* Runs the steps of the plan that are products with weights, for the shape run->shape. Only the algorithms are
 * chosen. */
static void choose_for(struct cuda_run *run)
{
    for (int i = 0; i < run->plan->n_steps; i++) {
        const struct plan_step *step = &run->plan->steps[i];
        run->step = step;
        if (step->operation == OP_LINEAR || step->operation == OP_FEED_FORWARD || step->operation == OP_GIVE_OUTPUT)
            cuda_operation_of(run->dtype, step->operation)->run(run, step);
    }
}

/* Runs the projections that may multiply full sequences (shape_full_rows), for shapes with full sequences. With
 * `largest`, runs only the largest shape, and the method is chosen for this shape. Otherwise runs all shapes. */
static void choose_for_full(struct cuda_run *run, struct batch_shape *shape, bool largest)
{
    const struct plan *plan = run->plan;
    for (int i = 0; i < plan->n_steps; i += run->launches[i].steps) {
        int64_t known = 0;
        run->step = &plan->steps[i];
        if (shape_full_rows(plan, run->step) == 0)
            continue;
        for (int64_t count = shape_most_full(plan, i); count > 0 && has_not_failed(run);
             count = largest ? 0 : count - 1) {
            shape_of_full(plan, i, count, shape);
            if (shape_full_count(plan, shape, i) != known)
                cuda_operation_of(run->dtype, run->step->operation)->run(run, run->step);
            known = shape_full_count(plan, shape, i);
        }
    }
}

/* The largest power of two below `count`. */
static int64_t count_below(int64_t count)
{
    int64_t power = 1;
    while (power < (count + 1) / 2)
        power *= 2;
    return power;
}

int cuda_products_warm(struct cuda_run run, struct error *error)
{
    const struct plan *plan = run.plan;
    struct batch_shape shape = {};
    if (shape_open(plan, &shape, error) != 0)
        return -1;
    run.shape = &shape;
    run.choosing = true;
    choose_for_full(&run, &shape, true);
    /* Algorithms are chosen for several numbers of items. The largest number of rows is assumed for each. */
    for (int64_t items = plan->max_items; items > 1; items = count_below(items)) {
        shape_of_size(plan, plan->max_rows, items, &shape);
        choose_for(&run);
    }
    for (int64_t rows = plan->max_rows; rows > 0; rows = shape_rows_below(rows)) {
        shape_of_size(plan, rows, 1, &shape);
        shape.n_wanted = rows;
        choose_for(&run);
    }
    choose_for_full(&run, &shape, false);
    shape_free(&shape);
    return run.status == cudaSuccess ? 0 : cuda_fail(error, "the CUDA device failed in a matrix product", run.status);
}
