/* Functions of two numbers, and the choice between two numbers. The functions are plain loops, which the compiler
 * vectorises. */
#include "engine/cpu/vector_type.h"

/* The remainder has the sign of z, as in torch and Python. */
INLINE float remainder_of(float x, float z)
{
    float rest = fmodf(x, z);
    return rest != 0 && (z < 0) != (rest < 0) ? rest + z : rest;
}

/* The floor of x / z, as torch computes it. (x - remainder) / z is nearly an integer, so rounding it yields the exact
 * floor. The floor of the quotient x / z would be too large by one if the quotient is rounded up to an integer. */
INLINE float floor_divide(float x, float z)
{
    float rest = fmodf(x, z), quotient = (x - rest) / z;
    bool down = rest != 0 && (z < 0) != (rest < 0);
    return z == 0 ? x / z : rintf(down ? quotient - 1 : quotient);
}

/* If x or z is a NaN, the result is a NaN. */
INLINE float maximum_of(float x, float z)
{
    return x > z || x != x ? x : z;
}

INLINE float minimum_of(float x, float z)
{
    return x < z || x != x ? x : z;
}

#define FOR_EACH(expression)          \
    for (int64_t i = 0; i < n; i++) { \
        float a = x[i], b = z[i];     \
        y[i] = (expression);          \
    }                                 \
    break

void VARIANT(vector_combine)(int64_t n, enum plan_function function, const float *x, const float *z, float *y)
{
    switch (function) {
    case FUNCTION_ADD:
        FOR_EACH(a + b);
    case FUNCTION_SUBTRACT:
        FOR_EACH(a - b);
    case FUNCTION_MULTIPLY:
        FOR_EACH(a * b);
    case FUNCTION_DIVIDE:
        FOR_EACH(a / b);
    case FUNCTION_FLOOR_DIVIDE:
        FOR_EACH(floor_divide(a, b));
    case FUNCTION_TRUNCATE_DIVIDE:
        FOR_EACH(truncf(a / b));
    case FUNCTION_REMAINDER:
        FOR_EACH(remainder_of(a, b));
    case FUNCTION_POWER:
        FOR_EACH(powf(a, b));
    case FUNCTION_MAXIMUM:
        FOR_EACH(maximum_of(a, b));
    case FUNCTION_MINIMUM:
        FOR_EACH(minimum_of(a, b));
    case FUNCTION_EQUAL:
        FOR_EACH(a == b);
    case FUNCTION_NOT_EQUAL:
        FOR_EACH(a != b);
    case FUNCTION_LESS:
        FOR_EACH(a < b);
    case FUNCTION_LESS_EQUAL:
        FOR_EACH(a <= b);
    case FUNCTION_AND:
        FOR_EACH((a != 0) & (b != 0));
    case FUNCTION_OR:
        FOR_EACH((a != 0) | (b != 0));
    case FUNCTION_XOR:
        FOR_EACH((a != 0) ^ (b != 0));
    case FUNCTION_COUNT:
        break;
    }
}

void VARIANT(vector_select)(int64_t n, const float *condition, const float *x, const float *z, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = condition[i] != 0 ? x[i] : z[i];
}
