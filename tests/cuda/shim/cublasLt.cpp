/* Simulates cuBLASLt. Several algorithms are available, with artificial times. */
#include "faults.h"
#include "kernels.h"
#include "product.h"
#include "streams.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

static uint64_t multiplied; /* number of products since cublasLtCreate */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    shim::guard lock(shim::mutex);
    multiplied = 0;
    *handle = nullptr;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion()
{
    return 0;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t description, size_t bytes,
                                               cublasComputeType_t compute, cudaDataType_t scale)
{
    if (bytes < sizeof *description)
        return CUBLAS_STATUS_INVALID_VALUE;
    *description = {compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes)
{
    void *places[] = {&description->transpose_a, &description->transpose_b, &description->epilogue, &description->bias};
    int place = attribute == CUBLASLT_MATMUL_DESC_TRANSA     ? 0
                : attribute == CUBLASLT_MATMUL_DESC_TRANSB   ? 1
                : attribute == CUBLASLT_MATMUL_DESC_EPILOGUE ? 2
                                                             : 3;
    if (bytes != (place == 3 ? sizeof description->bias : sizeof(int32_t)))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(places[place], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t bytes, cudaDataType_t type,
                                                 uint64_t rows, uint64_t columns, int64_t stride)
{
    if (bytes < sizeof *layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    *layout = {type, rows, columns, stride, 1, 0};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes)
{
    bool counts = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    if (bytes != (counts ? sizeof layout->count : sizeof layout->distance))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(counts ? (void *)&layout->count : &layout->distance, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t bytes)
{
    if (bytes < sizeof *preference)
        return CUBLAS_STATUS_INVALID_VALUE;
    *preference = {0, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    bool workspace = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    if (bytes != (workspace ? sizeof(size_t) : sizeof(uint32_t)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace)
        memcpy(&preference->workspace_bytes, value, bytes);
    else if (attribute != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) /* the shim does not split sums */
        memcpy(&preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* Returns true if A and B have the same type, D has this type or float, C has the type of D, and the scales are float.
 * TF32 needs floats. All matrices must have the same count. Several products must have no epilogue. */
static bool is_supported(const cublasLtMatmulDescOpaque_t &how, const cublasLtMatrixLayoutOpaque_t &a,
                         const cublasLtMatrixLayoutOpaque_t &b, const cublasLtMatrixLayoutOpaque_t &c,
                         const cublasLtMatrixLayoutOpaque_t &d)
{
    bool compute =
        how.compute == CUBLAS_COMPUTE_32F || (how.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type == CUDA_R_32F);
    bool counts = a.count >= 1 && a.count == b.count && a.count == c.count && a.count == d.count &&
                  (d.count == 1 || how.epilogue == CUBLASLT_EPILOGUE_DEFAULT);
    return compute && counts && how.scale == CUDA_R_32F && a.type == b.type && c.type == d.type &&
           (d.type == a.type || d.type == CUDA_R_32F);
}

/* Time of each algorithm, in milliseconds. An algorithm with time 0 fails when it runs. For an algorithm with a
 * negative time, the heuristic reports that it is not supported. All other algorithms give the same result. They
 * overwrite a part of the workspace, and rely on the requested alignment. */
static const float algorithm_milliseconds[] = {3, 0, -1, 2, 1, 2};
static const int algorithms = sizeof algorithm_milliseconds / sizeof *algorithm_milliseconds;

/* If SHIM_COLD is set, the first algorithm is the fastest. If the value of SHIM_COLD is N, the first N products take
 * ten times as long, as on a cold device. */
static float milliseconds_of(int algorithm)
{
    return algorithm == 0 && getenv("SHIM_COLD") ? 0.5f : algorithm_milliseconds[algorithm];
}

static int fastest_algorithm()
{
    return getenv("SHIM_COLD") ? 0 : 4;
}

/* SHIM_GELU_MS is the additional time of a product with GELU, in milliseconds. The default is 0. */
static float epilogue_milliseconds(cublasLtEpilogue_t epilogue)
{
    const char *given = getenv("SHIM_GELU_MS");
    return given && (epilogue & CUBLASLT_EPILOGUE_GELU) ? strtof(given, nullptr) : 0;
}

/* Counts a product. Returns the factor by which it takes longer because of SHIM_COLD. */
static float slowness_of_next()
{
    const char *cold = getenv("SHIM_COLD");
    return cold && multiplied++ < strtoull(cold, nullptr, 10) ? 10 : 1;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t *results, int *found)
{
    if (shim::is_capturing())
        shim::die("cublasLtMatmulAlgoGetHeuristic is called while a graph is captured");
    shim::count(HEURISTICS);
    *found = 0;
    if (cudaError_t error = shim::fault(shim::call::algorithm))
        return shim::status_of(error);
    if (how->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        if (cudaError_t error = shim::fault(shim::call::epilogue))
            return shim::status_of(error);
    if (!is_supported(*how, *a, *b, *c, *d))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *found = std::min(wanted, algorithms);
    for (int i = 0; i < *found; i++) {
        results[i].workspaceSize = results[i].algo.workspace_bytes =
            std::min<size_t>(preference->workspace_bytes, 4096);
        memcpy(results[i].algo.alignment, preference->alignment, sizeof preference->alignment);
        results[i].algo.number = i;
        results[i].state = algorithm_milliseconds[i] < 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const shim::product product = {
        *description,          *a_layout,           *b_layout, *c_layout, *d_layout, a, b, c, d,
        *(const float *)alpha, *(const float *)beta};
    if (cudaError_t error = shim::fault(shim::call::product))
        return shim::status_of(error);
    const size_t spoiled = algorithm->workspace_bytes;
    if (!product.is_aligned(algorithm->alignment))
        shim::die("a matrix has less alignment than the engine requested for the algorithm");
    if (!product.is_laid_out())
        shim::die("columns of a matrix, or results of several products, overlap");
    if (!product.fits())
        shim::die("matrices of a product do not fit each other");
    if (!is_supported(product.how, product.al, product.bl, product.cl, product.dl))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const float milliseconds = milliseconds_of(algorithm->number);
    if (milliseconds < 0)
        shim::die("the engine uses an algorithm that the heuristic does not support");
    if (milliseconds == 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (algorithm->number != fastest_algorithm())
        shim::count(SLOW_PRODUCTS);
    if (product.dl.count > 1)
        shim::count(SEVERAL_PRODUCTS);
    if (product.how.epilogue & CUBLASLT_EPILOGUE_GELU)
        shim::count(GELU_PRODUCTS);
    if (!product.is_on_device() || workspace_bytes < spoiled || !shim::is_device_memory(workspace, workspace_bytes))
        shim::die("a matrix, bias or workspace of a product is not within an allocation");
    shim::enqueue(stream, [=] {
        memset(workspace, 0xff, spoiled);
        if (shim::is_traced())
            product.trace();
        else
            product.run();
        shim::pass(milliseconds * slowness_of_next() + epilogue_milliseconds(product.how.epilogue));
    });
    return CUBLAS_STATUS_SUCCESS;
}
