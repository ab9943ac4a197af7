/* tensor: the types of elements, and their conversion to float32. The bytes of a tensor are little-endian and not
 * aligned. */
#include "weights/tensor.h"

#include <stdio.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "elements are read as they are stored, little-endian"
#endif

/* Index: enum weights_dtype. */
static const struct {
    const char *name;
    size_t size; /* bytes of one element */
} dtypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4}, {"I16", 2},
              {"I8", 1},  {"U64", 8}, {"U32", 4}, {"U16", 2},  {"U8", 1},  {"BOOL", 1}};
_Static_assert(sizeof dtypes / sizeof *dtypes == WEIGHTS_DTYPE_COUNT, "the table has a row for each dtype");

const char *weights_dtype_name(enum weights_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t weights_dtype_size(enum weights_dtype dtype)
{
    return dtypes[dtype].size;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* F16 has 1 sign bit, 5 exponent bits (bias 15) and 10 mantissa bits. F32 has 1, 8 (bias 127) and 23. Every F16 number
 * is also an F32 number. There is no branch, so that the compiler can convert several numbers at a time. */
static float float_of_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t shifted = (uint32_t)(half & 0x7fff) << 13;
    /* The product corrects the bias. It is exact, also if `shifted` is subnormal. */
    float magnitude = float_of_bits(shifted) * 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    uint32_t infinite = shifted >= 0x1fu << 23 ? 0x7f800000 : 0; /* infinity, or NaN with its payload */
    return float_of_bits(sign | infinite | bits);
}

static void convert_f16(const char *data, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, data + i * 2, sizeof half);
        out[i] = float_of_f16(half);
    }
}

/* BF16 is the upper half of an F32. */
static void convert_bf16(const char *data, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t upper;
        memcpy(&upper, data + i * 2, sizeof upper);
        uint32_t bits = (uint32_t)upper << 16;
        memcpy(out + i, &bits, sizeof bits);
    }
}

static void convert_f64(const char *data, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, data + i * 8, sizeof value);
        out[i] = (float)value; /* rounds to nearest even, and to infinity beyond the largest float */
    }
}

/* Converts integers of any size. Integers beyond 2^24 are rounded. A boolean becomes 0 or 1. */
static void convert_integers(enum weights_dtype dtype, const char *data, int64_t count, float *out)
{
    size_t size = weights_dtype_size(dtype);
    bool is_signed = dtype == WEIGHTS_I64 || dtype == WEIGHTS_I32 || dtype == WEIGHTS_I16 || dtype == WEIGHTS_I8;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, data + (size_t)i * size, size);
        uint64_t sign = is_signed ? UINT64_C(1) << (8 * size - 1) : 0;
        if (dtype == WEIGHTS_BOOL)
            out[i] = bits != 0;
        else if (is_signed)
            out[i] = (float)(int64_t)((bits ^ sign) - sign);
        else
            out[i] = (float)bits;
    }
}

bool weights_dtype_is_float(enum weights_dtype dtype)
{
    return dtype == WEIGHTS_F64 || dtype == WEIGHTS_F32 || dtype == WEIGHTS_F16 || dtype == WEIGHTS_BF16;
}

void weights_to_f32(const struct weights_tensor *tensor, float *out)
{
    switch (tensor->dtype) {
    case WEIGHTS_F64:
        convert_f64(tensor->data, tensor->elements, out);
        break;
    case WEIGHTS_F32:
        if (tensor->bytes > 0)
            memcpy(out, tensor->data, tensor->bytes);
        break;
    case WEIGHTS_F16:
        convert_f16(tensor->data, tensor->elements, out);
        break;
    case WEIGHTS_BF16:
        convert_bf16(tensor->data, tensor->elements, out);
        break;
    default:
        convert_integers(tensor->dtype, tensor->data, tensor->elements, out);
    }
}

const char *weights_shape_text(int rank, const int64_t *shape, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (int i = 0; i <= rank && used < size; i++) {
        if (i < rank)
            used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i ? ", " : "[", (long long)shape[i]);
        else
            used += (size_t)snprintf(buffer + used, size - used, rank ? "]" : "[]");
    }
    return buffer;
}
