/* Products as cuBLASLt has them (column by column), in plain loops. */
#include <cublasLt.h>

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
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

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t description, cublasComputeType_t, cudaDataType_t)
{
    *description = {CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr};
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

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType_t, uint64_t rows, uint64_t columns,
                                        int64_t stride)
{
    *layout = {rows, columns, stride};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference)
{
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
    else
        memcpy(&preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* An algorithm that spoils some of the workspace and relies on the alignment that it was asked for. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t *results, int *found)
{
    results[0].workspaceSize = results[0].algo.workspace_bytes = std::min<size_t>(preference->workspace_bytes, 4096);
    memcpy(results[0].algo.alignment, preference->alignment, sizeof preference->alignment);
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static size_t bytes_of(const cublasLtMatrixLayoutOpaque_t &layout)
{
    return ((layout.columns - 1) * (size_t)layout.stride + layout.rows) * sizeof(float);
}

/* Element (row, column) of the matrix, or of its transpose. */
static float at(const float *data, const cublasLtMatrixLayoutOpaque_t &layout, cublasOperation_t transpose,
                uint64_t row, uint64_t column)
{
    return transpose == CUBLAS_OP_N ? data[column * (uint64_t)layout.stride + row]
                                    : data[row * (uint64_t)layout.stride + column];
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const cublasLtMatmulDescOpaque_t how = *description;
    const cublasLtMatrixLayoutOpaque_t al = *a_layout, bl = *b_layout, cl = *c_layout, dl = *d_layout;
    const float factor = *(const float *)alpha, c_factor = *(const float *)beta;
    const size_t spoiled = algorithm->workspace_bytes;
    const uint64_t m = dl.rows, n = dl.columns, k = how.transpose_a == CUBLAS_OP_N ? al.columns : al.rows;
    const void *pointers[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)pointers[i] % algorithm->alignment[i] != 0)
            shim::die("a matrix is less aligned than the algorithm was asked for");
    if ((how.transpose_a == CUBLAS_OP_N ? al.rows : al.columns) != m ||
        (how.transpose_b == CUBLAS_OP_N ? bl.columns : bl.rows) != n ||
        (how.transpose_b == CUBLAS_OP_N ? bl.rows : bl.columns) != k || cl.rows != m || cl.columns != n)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!shim::is_device_memory(a, bytes_of(al)) || !shim::is_device_memory(b, bytes_of(bl)) ||
        !shim::is_device_memory(c, bytes_of(cl)) || !shim::is_device_memory(d, bytes_of(dl)) ||
        workspace_bytes < algorithm->workspace_bytes || !shim::is_device_memory(workspace, workspace_bytes) ||
        (how.epilogue == CUBLASLT_EPILOGUE_BIAS && !shim::is_device_memory(how.bias, m * sizeof(float))))
        shim::die("a matrix, bias or workspace of a product is not within an allocation");
    shim::enqueue(stream, [=] {
        memset(workspace, 0xff, spoiled);
        for (uint64_t j = 0; j < n; j++) {
            for (uint64_t i = 0; i < m; i++) {
                double sum = 0;
                for (uint64_t l = 0; l < k; l++)
                    sum += (double)at((const float *)a, al, how.transpose_a, i, l) *
                           (double)at((const float *)b, bl, how.transpose_b, l, j);
                float value = factor * (float)sum;
                if (c_factor != 0)
                    value += c_factor * ((const float *)c)[j * (uint64_t)cl.stride + i];
                ((float *)d)[j * (uint64_t)dl.stride + i] =
                    value + (how.epilogue == CUBLASLT_EPILOGUE_BIAS ? how.bias[i] : 0);
            }
        }
    });
    return CUBLAS_STATUS_SUCCESS;
}
