/* Products of matrices by cuBLASLt, and which of its algorithms takes which shape: of those that cuBLASLt thinks best
 * the one that is fastest when a model is loaded, with whatever its memory holds; where none were timed, the first. */
#include "engine/cuda/products.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORKSPACE_BYTES ((size_t)32 << 20)
#define SETS 1024            /* of remembered algorithms */
#define WAYS 8               /* in a set */
#define CANDIDATES 8         /* algorithms that are timed for a shape */
#define REPETITIONS 3        /* of each, after one that lets CUDA load its kernel */
#define CLEARLY_FASTER 0.97f /* times the other's time: else it is chance, and would be another the next time */

/* What an algorithm was chosen for. */
struct algorithm_shape {
    int64_t rows, columns, depth, a_stride, b_stride, out_stride;
    uint32_t a_alignment, b_alignment, add_alignment, out_alignment; /* bytes */
    int32_t transpose_a, transpose_b, bias, add, gelu, float_out, dtype;
};

struct remembered {
    struct algorithm_shape shape;
    cublasLtMatmulAlgo_t algorithm;
};

struct products {
    cublasLtHandle_t handle;
    void *workspace;
    struct remembered remembered[SETS][WAYS]; /* the set by hash; in a full one the new takes an old one's place */
    unsigned replaced;
    cudaEvent_t begin, end; /* of what is timed */
};

static cudaError_t open_events(struct products *products)
{
    cudaError_t status = cudaEventCreateWithFlags(&products->begin, cudaEventBlockingSync);
    if (status != cudaSuccess) {
        products->begin = NULL;
        return status;
    }
    status = cudaEventCreateWithFlags(&products->end, cudaEventBlockingSync);
    if (status != cudaSuccess)
        products->end = NULL;
    return status;
}

int products_open(struct products **products, struct error *error)
{
    struct products *opened = (struct products *)calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, "out of memory while opening the CUDA engine");
    if (cublasLtCreate(&opened->handle) != CUBLAS_STATUS_SUCCESS) {
        free(opened);
        return error_set(error, "cuBLASLt does not start on this device");
    }
    cudaError_t status = open_events(opened);
    if (status != cudaSuccess) {
        products_close(opened);
        return cuda_fail(error, "no event on the CUDA device", status);
    }
    if (cudaMalloc(&opened->workspace, WORKSPACE_BYTES) != cudaSuccess) {
        cudaGetLastError();
        opened->workspace = NULL;
        products_close(opened);
        return error_set(error, "the device has no %zu bytes left for products of matrices", WORKSPACE_BYTES);
    }
    *products = opened;
    return 0;
}

void products_close(struct products *products)
{
    cudaFree(products->workspace);
    if (products->begin)
        cudaEventDestroy(products->begin);
    if (products->end)
        cudaEventDestroy(products->end);
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

static void lay_out(cublasLtMatrixLayoutOpaque_t *layout, cudaDataType_t type, int64_t rows, int64_t columns,
                    bool transposed, int64_t stride)
{
    cublasLtMatrixLayoutInit(layout, type, (uint64_t)(transposed ? rows : columns),
                             (uint64_t)(transposed ? columns : rows), stride);
}

static cudaDataType_t type_of(enum cuda_dtype dtype)
{
    return dtype == CUDA_BF16 ? CUDA_R_16BF : dtype == CUDA_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static cublasLtEpilogue_t epilogue_of(const struct product *p)
{
    if (p->gelu)
        return p->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static void describe(const struct product *p, enum cuda_dtype dtype, struct description *d)
{
    cudaDataType_t type = type_of(dtype);
    cublasLtEpilogue_t epilogue = epilogue_of(p);
    cublasOperation_t first = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulDescInit(&d->how, dtype == CUDA_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (p->bias)
        cublasLtMatmulDescSetAttribute(&d->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
    lay_out(&d->first, type, p->depth, p->columns, p->transpose_b, p->b_stride);
    lay_out(&d->second, type, p->rows, p->depth, p->transpose_a, p->a_stride);
    lay_out(&d->out, p->float_out ? CUDA_R_32F : type, p->rows, p->columns, false, p->out_stride);
}

static struct algorithm_shape shape_of(const struct product *p, enum cuda_dtype dtype)
{
    struct algorithm_shape shape;
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
    shape.gelu = p->gelu;
    shape.float_out = p->float_out;
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

/* At most `wanted` algorithms, what cuBLASLt thinks best first; it takes matrices to be aligned to 256 bytes unless it
 * is told otherwise, and an item's rows can begin anywhere. Returns how many. */
static int find_algorithms(struct products *products, struct description *d, const struct algorithm_shape *shape,
                           int wanted, cublasLtMatmulAlgo_t *algorithms)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    size_t workspace_bytes = WORKSPACE_BYTES;
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* parts of a sum are floats, added in one order */
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
                                       wanted, results, &found) != CUBLAS_STATUS_SUCCESS)
        return 0;
    int usable = 0;
    for (int i = 0; i < found; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS)
            algorithms[usable++] = results[i].algo;
    return usable;
}

static cublasStatus_t multiply(struct cuda_run *run, const struct product *product, struct description *d,
                               const cublasLtMatmulAlgo_t *algorithm)
{
    const float one = 1, c_factor = product->add ? 1.0f : 0.0f;
    return cublasLtMatmul(run->products->handle, &d->how, &one, product->b, &d->first, product->a, &d->second,
                          &c_factor, product->add ? product->add : product->out, &d->out, product->out, &d->out,
                          algorithm, run->products->workspace, WORKSPACE_BYTES, run->stream);
}

/* ---- Which is the fastest ---- */

static double now_milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Milliseconds of REPETITIONS. Negative: the algorithm does not run, which is no failure; or the device failed, which
 * run->status says. */
static float time_of(struct cuda_run *run, const struct product *product, struct description *d,
                     const cublasLtMatmulAlgo_t *algorithm)
{
    struct products *products = run->products;
    float milliseconds = -1;
    if (multiply(run, product, d, algorithm) != CUBLAS_STATUS_SUCCESS)
        return -1;
    note(run, cudaEventRecord(products->begin, run->stream));
    for (int i = 0; i < REPETITIONS; i++)
        if (multiply(run, product, d, algorithm) != CUBLAS_STATUS_SUCCESS)
            return -1;
    note(run, cudaEventRecord(products->end, run->stream));
    if (run->status == cudaSuccess)
        note(run, cudaEventSynchronize(products->end));
    if (run->status == cudaSuccess)
        note(run, cudaEventElapsedTime(&milliseconds, products->begin, products->end));
    return run->status == cudaSuccess ? milliseconds : -1;
}

/* Which of them runs fastest, or the first where time is up before. -1: none of those tried runs. */
static int find_fastest(struct cuda_run *run, const struct product *product, struct description *d, int count,
                        const cublasLtMatmulAlgo_t *algorithms)
{
    int fastest = -1;
    float least = 0;
    if (run->tuning_milliseconds <= 0)
        return 0;
    double started = now_milliseconds(), end = started + run->tuning_milliseconds;
    for (int i = 0; i < count && goes_on(run) && (fastest < 0 || now_milliseconds() < end); i++) {
        float milliseconds = time_of(run, product, d, &algorithms[i]);
        if (milliseconds < 0 || (fastest >= 0 && milliseconds > least * CLEARLY_FASTER))
            continue;
        fastest = i;
        least = milliseconds;
    }
    run->tuning_milliseconds -= now_milliseconds() - started;
    return fastest;
}

/* False: there is none. */
static bool choose(struct cuda_run *run, const struct product *product, struct description *d,
                   const struct algorithm_shape *shape, cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulAlgo_t algorithms[CANDIDATES];
    int count = find_algorithms(run->products, d, shape, run->choosing ? CANDIDATES : 1, algorithms), chosen = 0;
    if (count > 1)
        chosen = find_fastest(run, product, d, count, algorithms);
    if (count == 0 || chosen < 0)
        return false;
    *algorithm = algorithms[chosen];
    return true;
}

/* ---- What is remembered ---- */

static bool is_of(const struct remembered *place, const struct algorithm_shape *shape)
{
    return memcmp(&place->shape, shape, sizeof *shape) == 0;
}

/* The shape's place in its set; where it has none, one that is empty, or else has to make room. */
static struct remembered *place_of(struct products *products, const struct algorithm_shape *shape)
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

/* The remembered algorithm, or a new one; NULL: there is none. */
static const cublasLtMatmulAlgo_t *algorithm_for(struct cuda_run *run, struct description *d,
                                                 const struct product *product)
{
    struct algorithm_shape shape = shape_of(product, run->dtype);
    struct remembered *place = place_of(run->products, &shape);
    if (is_of(place, &shape))
        return &place->algorithm;
    if (run->capturing) /* another took its place since it was launched; launching it again brings it back */
        return NULL;
    memset(&place->shape, 0, sizeof place->shape);
    if (!choose(run, product, d, &shape, &place->algorithm))
        return NULL;
    place->shape = shape;
    return &place->algorithm;
}

void products_multiply(struct cuda_run *run, const struct product *product)
{
    struct description d;
    if (product->rows == 0 || product->columns == 0 || !goes_on(run))
        return;
    describe(product, run->dtype, &d);
    const cublasLtMatmulAlgo_t *algorithm = algorithm_for(run, &d, product);
    if (run->choosing)
        return;
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (algorithm)
        status = multiply(run, product, &d, algorithm);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
        run->refusal = "cuBLASLt has no algorithm for a product of matrices";
    else if (status != CUBLAS_STATUS_SUCCESS)
        run->product_failed = true;
}
