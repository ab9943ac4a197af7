/* vector: arithmetic with the CPU's vector instructions, as a table of functions for each instruction set. Libraries
 * compute the matrix products that are not in the table (products.h).
 *
 * vector_rows.c, vector_combine.c, vector_columns.c and vector_attend.c are compiled once for each set.
 * vector_functions_of returns the table for a set. There is one more variant, for AVX512_BF16. Its products multiply
 * bf16 and add in float, in attention, too. Its GELU and its `weigh` are less exact than those of the other variants.
 * All its other functions compute as those for AVX-512.
 *
 * Each row is summed up in a fixed order, so its result does not depend on the rows beside it. Functions keep no state,
 * so several threads may call them at once. Pointers need no alignment. Letters and shapes are those of run.h. */
#ifndef ENGINE_CPU_VECTOR_H
#define ENGINE_CPU_VECTOR_H

#include "engine/plan/plan.h"

#include <stdint.h>

/* The type of a matrix's elements: float, or bf16, which is the upper half of a float. */
enum element { ELEMENT_F32, ELEMENT_BF16 };

static inline int64_t element_bytes(enum element element)
{
    return element == ELEMENT_BF16 ? 2 : 4;
}

/* An attention mask, which adds numbers to the scores (rows, k). If both pointers are NULL, the mask adds nothing. */
struct vector_mask {
    const float *floats;  /* (rows, k), added to the scores */
    const uint8_t *bytes; /* (rows, k): `score` is added where (*bytes != 0) == byte */
    int64_t stride;
    bool byte;
    float score;
};

/* The keys and values of one head, which are in the arena. */
struct vector_keys {
    int64_t k, dim_head, dim_value;
    const void *keys; /* (k, dim_head) */
    int64_t key_stride;
    const void *values; /* (k, dim_value) */
    int64_t value_stride;
    enum element key_element, value_element;
};

/* One head of a block of rows: out[r] = softmax(scale * queries[r] keysᵀ + mask[r]) values. `scale` is not negative. */
struct vector_attend {
    int64_t rows, k, dim_head, dim_value;
    const void *queries; /* (rows, dim_head) */
    int64_t query_stride;
    enum element query_element;
    const float *packed; /* keys and values, written by pack_keys of the same instruction set */
    float scale;
    struct vector_mask mask;
    bool causal;            /* the row at position p reads only the keys 0 … p */
    int64_t first_position; /* position of the first row. Used only if causal */
    int64_t zero_keys;      /* number of additional keys with score 0 and value 0. Causal rows do not read them */
    void *out;              /* (rows, dim_value) */
    int64_t out_stride;
    enum element out_element;
    float *softmax;       /* (softmax_rows, k + zero_keys): receives the softmax. NULL if it is not needed */
    int64_t softmax_rows; /* number of rows whose softmax is written. Rows after these are padding */
    float *scratch;       /* (vector_attend_scratch(dim_head, dim_value)) */
};

/* The operations after a product: y[r] = activation(x[r] + bias) + residual[r]. */
struct vector_finish {
    int64_t rows, columns;
    const float *x; /* (rows, columns) */
    int64_t x_stride;
    const float *bias; /* (columns). NULL if there is no bias */
    struct plan_activation activation;
    const float *residual; /* (rows, columns). NULL if there is no residual */
    int64_t residual_stride;
    enum element y_element;
    void *y; /* (rows, columns) */
    int64_t y_stride;
};

/* Returns a copy of `finish` for columns [first, first + columns) only. */
static inline struct vector_finish vector_finish_columns(const struct vector_finish *finish, int64_t first,
                                                         int64_t columns)
{
    struct vector_finish part = *finish;
    part.columns = columns;
    if (part.x)
        part.x += first;
    if (part.bias)
        part.bias += first;
    if (part.residual)
        part.residual += first;
    part.y = (char *)part.y + first * element_bytes(part.y_element);
    return part;
}

/* The product x wᵀ for a block of rows and some columns, with the operations after it. In this struct, a word is a pair
 * of bf16 (vector_words.h). A row of x consists of whole words. */
struct vector_linear {
    int64_t depth;
    const float *x;      /* (rows, depth), in words. All PLAN_ROW_BLOCK rows must be readable memory */
    const float *weight; /* written by pack_weight. Points to a column whose number is a multiple of VECTOR_PANEL */
    struct vector_finish finish; /* the rows and columns to compute. finish.x is not used */
    float *scratch;              /* (VECTOR_LINEAR_SCRATCH) */
};

/* The projection c = E[:rows]ᵀ x for some columns of x, at most VECTOR_PANEL columns. */
struct vector_project {
    int64_t k, rows, columns;
    const float *e; /* Eᵀ (k, rows) in words. After it, VECTOR_TILE_ROWS - 1 more rows must be readable memory */
    int64_t e_stride;
    const void *x; /* (rows, columns) */
    int64_t x_stride;
    enum element x_element;
    float *c;       /* (k, columns), in memory for (k + VECTOR_TILE_ROWS - 1, VECTOR_PANEL) */
    float *scratch; /* (VECTOR_PROJECT_SCRATCH + k + VECTOR_TILE_ROWS - 1) */
};

/* The parameters of `reduce` below. */
struct vector_reduction {
    enum plan_reduction reduction;
    float order;        /* order of the norm, for REDUCTION_NORM */
    const double *mean; /* (n), for REDUCTION_VARIANCE and REDUCTION_DEVIATION */
    double *places;     /* (n), for REDUCTION_ARGMAX */
    int64_t place, step;
};

struct vector_functions {
    const char *name;

    /* y[r] = (x[r] - mean) / sqrt(variance + epsilon) * gain + bias. The variance is the mean of (x - mean)² over all
     * columns. For y in float, and rows of up to 4096 columns, the error is at most 4e-7 (|gain| X + |bias|). X is the
     * largest |x| of the row, divided by sqrt(variance + epsilon). If all elements are far from zero, subtracting the
     * mean loses digits. */
    void (*layer_norm)(int64_t rows, int64_t columns, const float *x, const float *gain, const float *bias,
                       float epsilon, enum element y_element, void *y);

    /* y = activation(x). x and y may be the same array. GELU is x Φ(x), with an error of at most 4e-7 |x|. The error of
     * its erf is at most 4e-7 |erf|. In the variant for AVX512_BF16 the error of GELU is at most 1.1e-4 |x|. There is
     * no bound relative to |y|, because 1 + erf cancels where Φ is small. GELU_TANH has an error of at most 1e-6 |x|,
     * and AFFINE of at most 1e-6 (|a x| + |b|). The error of the other functions is at most 1e-6 |y|, unless y is
     * subnormal. ACTIVATION_EXP returns 0 where the result would be subnormal. */
    void (*activate)(int64_t n, struct plan_activation activation, const float *x, float *y);

    /* y = scale * (x + z). */
    void (*add)(int64_t n, const float *x, const float *z, float scale, float *y);

    /* combine computes y = f(x, z). select computes y = x where the condition is not 0, and y = z elsewhere. select
     * copies elements without converting them, so x, y and z may also be int32_t. */
    void (*combine)(int64_t n, enum plan_function function, const float *x, const float *z, float *y);
    void (*select)(int64_t n, const float *condition, const float *x, const float *z, float *y);

    void (*finish_linear)(const struct vector_finish *finish);

    /* y = x as bf16, rounded to the nearest, ties to even. A NaN stays a NaN. A subnormal may become 0. */
    void (*to_bf16)(int64_t n, const float *x, uint16_t *y);

    /* x = softmax(scale * x). `scale` is not negative. The error of exp is at most 2 ulp. If one x is NaN, all results
     * are NaN. */
    void (*softmax)(int64_t n, float scale, float *x);

    /* Returns the natural logarithm of the sum of exp(x). The error is at most 1e-6 plus 1 ulp of float. The sum
     * neither overflows nor becomes 0 if elements of x are very large or small. Returns NaN if one element is NaN or
     * +infinity, or if all elements are -infinity. */
    double (*log_sum)(int64_t n, const float *x);

    /* y = x + (sin(position * frequencies), cos(position * frequencies)). x and y are (2 * half), `frequencies` is
     * (half). Products are computed in float. The error of sines and cosines is at most 1.2e-7. */
    void (*add_sinusoids)(int64_t half, float position, const float *frequencies, const float *x, float *y);

    /* y[r] = exp(x[r] - z) with an error of at most 2 ulp. y is (rows, columns). exp of a number below -87.3365 is 0,
     * so there are no subnormals. exp of 88.7229 or more is infinity. A NaN stays a NaN. */
    void (*exp_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, const float *z, float *y);

    /* maximum_rows sets y to the maximum of y and all rows x[r], and skips NaNs in x. sum_rows adds all rows x[r] to y,
     * row by row.
     */
    void (*maximum_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *y);
    void (*sum_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *y);

    /* y[c] += the sum of x[r, c] over all rows. If `mean` (columns) is not NULL, adds the sum of (x[r, c] - mean[c])²
     * instead. */
    void (*sum_columns)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, const float *mean, double *y);

    /* y[r] = (x[r] - mean) * factor + bias. mean, factor and bias are (columns). bias may be NULL. `stride` is the
     * distance between rows of x, and between rows of y. */
    void (*normalise_rows)(int64_t rows, int64_t columns, const float *x, int64_t stride, const float *mean,
                           const float *factor, const float *bias, float *y);

    /* Updates n running results y[i], such as sums, products or maxima, by one new element x[i] each. A sum starts with
     * 0, a product with 1, and so on. Variances and deviations are sums of (x - mean)². With REDUCTION_ARGMAX,
     * places[i] becomes place + i * step if x[i] is a new maximum. */
    void (*reduce)(const struct vector_reduction *reduction, int64_t n, const float *x, double *y);

    /* y = scale * (bias + the sum over t < taps of x[t] w[t]). y, bias, x[t] and w[t] are (columns). bias may be
     * NULL. */
    void (*convolve_channels)(int64_t taps, int64_t columns, const float *const *x, const float *const *w,
                              const float *bias, float scale, float *y);

    /* Adds powersᵀ value to the context, and computes y = query context from the new context. Each element of the
     * context is read once for both. `powers` are the exponentials of a key. `context` is (rows, columns). `query` and
     * `powers` are (rows). `value` and y are (columns). If `powers` is NULL, the context does not change. If `query` is
     * NULL, y is not computed. */
    void (*step_context)(int64_t rows, int64_t columns, const float *query, const float *powers, const float *value,
                         float *context, float *y);

    /* Copies keys and values into the order that `attend` reads. All blocks of rows that read these keys share the
     * copy. Writes vector_packed_keys() floats.
     */
    void (*pack_keys)(const struct vector_keys *keys, float *packed);
    void (*attend)(const struct vector_attend *attend);

    /* y = exp(x) for x <= 0, with the same code as in `attend`. The error is at most 2 ulp. For x below -87.3365 the
     * result is 0. In the variant for AVX512_BF16 the relative error is at most 6.5e-6, and results may be subnormal. A
     * NaN stays a NaN. */
    void (*weigh)(int64_t n, const float *x, float *y);

    /* The functions below are NULL in all variants except AVX512_BF16. In the other variants, libraries multiply. The
     * terms of each element of a product are added in the order of the depth. This order does not depend on the other
     * rows and columns that are computed. */
    void (*to_words)(int64_t rows, int64_t depth, enum element element, const void *x, float *words);
    void (*pack_weight)(int64_t columns, int64_t depth, const float *w, float *packed);
    void (*linear)(const struct vector_linear *linear);
    void (*project)(const struct vector_project *project);
};

/* Sets *set to `wanted`. If `wanted` is SET_AUTO, sets *set to the best set that the processor has. Returns -1 if the
 * processor lacks the wanted set. */
int instruction_set_choose(enum instruction_set wanted, enum instruction_set *set, struct error *error);

/* Whether the processor has AVX512_BF16, which multiplies pairs of bf16. */
bool cpu_has_bf16(void);

const struct vector_functions *vector_functions_of(enum instruction_set set); /* NULL if this build lacks the set */
const struct vector_functions *vector_functions_of_bf16(
    void); /* NULL if this build lacks the variant. Call it only if cpu_has_bf16() */

/* The number of floats that pack_weight writes. Columns are rounded up to whole vectors. */
int64_t vector_packed_weight(int64_t columns, int64_t depth);

/* The number of floats that pack_keys writes, and the number of floats of scratch for `attend`. Both numbers suffice
 * for every instruction set. */
int64_t vector_packed_keys(int64_t k, int64_t dim_head, int64_t dim_value);
int64_t vector_attend_scratch(int64_t dim_head, int64_t dim_value);

#define VECTOR_WIDTH 16        /* number of floats of a vector in the widest instruction set */
#define VECTOR_GROUP_ROWS 24   /* number of query rows that attend computes together */
#define VECTOR_TILE_KEYS 256   /* maximum number of keys for which attend computes scores at a time */
#define VECTOR_TILE_ROWS 6     /* maximum number of rows that a product computes together */
#define VECTOR_PANEL 64        /* number of columns that a product computes at a time */
#define PRODUCTS_PANEL 256     /* number of columns of a tile of products.h, including oneDNN's tiles */
#define VECTOR_CHUNK_WORDS 256 /* number of words of each column of x that a projection packs at a time */
#define VECTOR_LINEAR_SCRATCH (VECTOR_TILE_ROWS * VECTOR_PANEL)
#define VECTOR_PROJECT_SCRATCH (VECTOR_CHUNK_WORDS * VECTOR_PANEL)

#endif
