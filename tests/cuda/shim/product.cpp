/* Computes matrix products in plain loops, in double precision. */
#include "product.h"
#include "kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace shim
{
size_t bytes_of_element(cudaDataType_t type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

/* Returns the size of one matrix in bytes. */
static size_t bytes_of(const cublasLtMatrixLayoutOpaque_t &layout)
{
    return ((layout.columns - 1) * (size_t)layout.stride + layout.rows) * bytes_of_element(layout.type);
}

/* Returns whether neither the columns of a matrix nor written matrices of several products overlap. Columns may be
 * shorter than their stride. Several matrices follow each other, or lie side by side within the stride. All products
 * may share a matrix that is only read. */
static bool lies_apart(const cublasLtMatrixLayoutOpaque_t &layout, bool written)
{
    uint64_t distance = (uint64_t)layout.distance, stride = (uint64_t)layout.stride,
             others = (uint64_t)layout.count - 1;
    if (layout.stride < 1 || layout.rows > stride || layout.distance < 0)
        return false;
    if (layout.count == 1 || !written)
        return true;
    return distance >= (layout.columns - 1) * stride + layout.rows ||
           (distance >= layout.rows && others * distance + layout.rows <= stride);
}

static float element(const void *data, cudaDataType_t type, uint64_t index)
{
    if (type == CUDA_R_16BF)
        return __bfloat162float(((const __nv_bfloat16 *)data)[index]);
    if (type == CUDA_R_16F)
        return __half2float(((const __half *)data)[index]);
    return ((const float *)data)[index];
}

static void set_element(void *data, cudaDataType_t type, uint64_t index, float value)
{
    if (type == CUDA_R_16BF)
        ((__nv_bfloat16 *)data)[index] = __float2bfloat16_rn(value);
    else if (type == CUDA_R_16F)
        ((__half *)data)[index] = __float2half_rn(value);
    else
        ((float *)data)[index] = value;
}

/* Tensor cores read a float as TF32, and may truncate or round its low 13 bits. Truncation has up to twice the error of
 * rounding to nearest, and always goes towards zero. This function truncates, as this is the worst case. */
static float to_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= ~0x1fffu;
    if (std::isfinite(x))
        memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns the matrix, or its transpose, as floats in row-major order. */
static std::vector<float> floats_of(const void *data, const cublasLtMatrixLayoutOpaque_t &layout,
                                    cublasOperation_t transpose, bool tf32)
{
    std::vector<float> floats(layout.rows * layout.columns);
    for (uint64_t column = 0; column < layout.columns; column++)
        for (uint64_t row = 0; row < layout.rows; row++) {
            float value = element(data, layout.type, column * (uint64_t)layout.stride + row);
            uint64_t place = transpose == CUBLAS_OP_N ? row * layout.columns + column : column * layout.rows + row;
            floats[place] = tf32 ? to_tf32(value) : value;
        }
    return floats;
}

/* cuBLASLt's GELU: the tanh approximation. */
static float epilogue_of(cublasLtEpilogue_t epilogue, float x)
{
    if (epilogue & CUBLASLT_EPILOGUE_GELU)
        return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    return x;
}

bool product::fits() const
{
    uint64_t depth = how.transpose_a == CUBLAS_OP_N ? al.columns : al.rows;
    return (how.transpose_a == CUBLAS_OP_N ? al.rows : al.columns) == dl.rows &&
           (how.transpose_b == CUBLAS_OP_N ? bl.columns : bl.rows) == dl.columns &&
           (how.transpose_b == CUBLAS_OP_N ? bl.rows : bl.columns) == depth && cl.rows == dl.rows &&
           cl.columns == dl.columns;
}

bool product::is_laid_out() const
{
    return lies_apart(al, false) && lies_apart(bl, false) && lies_apart(cl, true) && lies_apart(dl, true);
}

bool product::is_aligned(const uint32_t alignment[4]) const
{
    const void *pointers[] = {a, b, c, d};
    const cublasLtMatrixLayoutOpaque_t *layouts[] = {&al, &bl, &cl, &dl};
    bool aligned = true;
    for (int i = 0; i < 4; i++)
        for (int32_t number = 0; number < dl.count; number++)
            aligned = aligned && (uintptr_t)of_product(pointers[i], *layouts[i], number) % alignment[i] == 0;
    return aligned;
}

const void *product::of_product(const void *first, const cublasLtMatrixLayoutOpaque_t &layout, int32_t number)
{
    return (const char *)first + number * layout.distance * (int64_t)bytes_of_element(layout.type);
}

bool product::is_on_device() const
{
    const void *pointers[] = {a, b, c, d};
    const cublasLtMatrixLayoutOpaque_t *layouts[] = {&al, &bl, &cl, &dl};
    bool there = !(how.epilogue & CUBLASLT_EPILOGUE_BIAS) ||
                 shim::is_device_memory(how.bias, dl.rows * bytes_of_element(dl.type));
    for (int i = 0; i < 4; i++)
        for (int32_t number = 0; number < dl.count; number++)
            there =
                there && shim::is_device_memory(of_product(pointers[i], *layouts[i], number), bytes_of(*layouts[i]));
    return there;
}

void product::trace() const
{
    uint64_t depth = how.transpose_a == CUBLAS_OP_N ? al.columns : al.rows;
    std::string products = dl.count > 1 ? " " + std::to_string(dl.count) : "";
    shim::trace("product\t%lu %lu %lu%s\t%zu\t%zu\t%d\t%d\n", dl.rows, dl.columns, depth, products.c_str(),
                bytes_of_element(al.type), bytes_of_element(dl.type), (int)how.epilogue, c_factor != 0);
}

void product::run() const
{
    for (int32_t number = 0; number < dl.count; number++) {
        product one = *this;
        one.a = of_product(a, al, number);
        one.b = of_product(b, bl, number);
        one.c = of_product(c, cl, number);
        one.d = (void *)of_product(d, dl, number);
        one.run_one();
    }
}

void product::run_one() const
{
    bool tf32 = how.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    uint64_t depth = how.transpose_a == CUBLAS_OP_N ? al.columns : al.rows;
    std::vector<float> left = floats_of(a, al, how.transpose_a, tf32);
    std::vector<float> right = floats_of(b, bl, how.transpose_b == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N, tf32);
    for (uint64_t j = 0; j < dl.columns; j++)
        for (uint64_t i = 0; i < dl.rows; i++) {
            double sum = 0;
            for (uint64_t l = 0; l < depth; l++)
                sum += (double)left[i * depth + l] * (double)right[j * depth + l];
            float value = factor * (float)sum;
            if (c_factor != 0)
                value += c_factor * element(c, cl.type, j * (uint64_t)cl.stride + i);
            if (how.epilogue & CUBLASLT_EPILOGUE_BIAS)
                value += element(how.bias, dl.type, i);
            set_element(d, dl.type, j * (uint64_t)dl.stride + i, epilogue_of(how.epilogue, value));
        }
}

cublasStatus_t status_of(cudaError_t error)
{
    return error == cudaErrorNotSupported ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_EXECUTION_FAILED;
}
} // namespace shim
