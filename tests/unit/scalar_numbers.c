#include "tests/unit/scalar.h"
#include "tests/unit/scalar_parts.h"

#include <math.h>

static double gelu_of(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

double scalar_activation(struct plan_activation activation, double x)
{
    double a = (double)activation.a, b = (double)activation.b;
    switch (activation.kind) {
    case ACTIVATION_GELU:
        return gelu_of(x);
    case ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_LEAKY_RELU:
        return x > 0 ? x : a * x;
    case ACTIVATION_ELU:
        return x > 0 ? x : a * expm1(x);
    case ACTIVATION_SELU:
        return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * expm1(x));
    case ACTIVATION_SOFTPLUS:
        return a * x > b ? x : log1p(exp(a * x)) / a;
    case ACTIVATION_CLAMP:
        return fmin(fmax(x, a), b);
    case ACTIVATION_HARD_SWISH:
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    case ACTIVATION_HARD_SIGMOID:
        return fmin(fmax(x + 3, 0), 6) / 6;
    case ACTIVATION_MISH:
        return x * tanh(log1p(exp(x)));
    case ACTIVATION_LOG_SIGMOID:
        return -log1p(exp(-x));
    case ACTIVATION_AFFINE:
        return a * x + b;
    case ACTIVATION_ABSOLUTE:
        return fabs(x);
    case ACTIVATION_SQUARE_ROOT:
        return sqrt(x);
    case ACTIVATION_INVERSE_ROOT:
        return 1 / sqrt(x);
    case ACTIVATION_SQUARE:
        return x * x;
    case ACTIVATION_RECIPROCAL:
        return 1 / x;
    case ACTIVATION_EXP:
        return exp(x);
    case ACTIVATION_EXPM1:
        return expm1(x);
    case ACTIVATION_LOG:
        return log(x);
    case ACTIVATION_LOG1P:
        return log1p(x);
    case ACTIVATION_SIN:
        return sin(x);
    case ACTIVATION_COS:
        return cos(x);
    case ACTIVATION_ERF:
        return erf(x);
    case ACTIVATION_FLOOR:
        return floor(x);
    case ACTIVATION_CEIL:
        return ceil(x);
    case ACTIVATION_ROUND:
        return rint(x);
    case ACTIVATION_TRUNCATE:
        return trunc(x);
    case ACTIVATION_SIGN:
        return (x > 0) - (x < 0);
    case ACTIVATION_NOT:
        return x == 0;
    case ACTIVATION_IS_NAN:
        return isnan(x);
    case ACTIVATION_NONE:
    case ACTIVATION_COUNT:
        break;
    }
    return x;
}

static double remainder_of(double a, double b)
{
    return b == 0 ? NAN : fmod(a, b) != 0 && (fmod(a, b) < 0) != (b < 0) ? fmod(a, b) + b : fmod(a, b);
}

double scalar_function(enum plan_function function, double a, double b)
{
    switch (function) {
    case FUNCTION_ADD:
        return a + b;
    case FUNCTION_SUBTRACT:
        return a - b;
    case FUNCTION_MULTIPLY:
        return a * b;
    case FUNCTION_DIVIDE:
        return a / b;
    case FUNCTION_FLOOR_DIVIDE:
        return b == 0 ? a / b : round((a - remainder_of(a, b)) / b);
    case FUNCTION_TRUNCATE_DIVIDE:
        return trunc(a / b);
    case FUNCTION_REMAINDER:
        return remainder_of(a, b);
    case FUNCTION_POWER:
        return pow(a, b);
    case FUNCTION_MAXIMUM:
        return isnan(a) || isnan(b) ? NAN : fmax(a, b);
    case FUNCTION_MINIMUM:
        return isnan(a) || isnan(b) ? NAN : fmin(a, b);
    case FUNCTION_EQUAL:
        return a == b;
    case FUNCTION_NOT_EQUAL:
        return a != b;
    case FUNCTION_LESS:
        return a < b;
    case FUNCTION_LESS_EQUAL:
        return a <= b;
    case FUNCTION_AND:
        return a != 0 && b != 0;
    case FUNCTION_OR:
        return a != 0 || b != 0;
    case FUNCTION_XOR:
        return (a != 0) != (b != 0);
    case FUNCTION_COUNT:
        break;
    }
    return NAN;
}

void scalar_softmax(int64_t n, double scale, double *x)
{
    double maximum = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        maximum = fmax(maximum, scale * x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += x[i] = exp(scale * x[i] - maximum);
    for (int64_t i = 0; i < n; i++)
        x[i] /= sum;
}
