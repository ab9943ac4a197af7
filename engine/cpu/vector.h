/* vector: the engine's own arithmetic for one instruction set; libraries compute the other matrix products.
 *
 * vector_rows.c, vector_combine.c, vector_columns.c and vector_attend.c are compiled once for each set.
 * vector_functions_of picks one that the processor has. One more variant is for AVX512_BF16. Its products, those of
 * attention too, multiply bf16 and add in float; all else is as with AVX-512.
 *
 * Each row is summed up in a fixed order, so its result does not depend on the rows beside it. Functions keep no state;
 * any thread may call them. Pointers need no alignment. Letters and shapes are those of run.h. */
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

/* What an attention mask adds to scores (rows, k). With both pointers NULL it adds nothing. */
struct vector_mask {
    const float *floats;  /* (rows, k), added as they are */
    const uint8_t *bytes; /* (rows, k): `score` is added where (*bytes != 0) == byte */
    int64_t stride;
    bool byte;
    float score;
};

/* The keys and values of one head, where the arena has them. */
struct vector_keys {
    int64_t k, dim_head, dim_value;
    const void *keys; /* (k, dim_head) */
    int64_t key_stride;
    const void *values; /* (k, dim_value) */
    int64_t value_stride;
    enum element key_element, value_element;
};

/* One head of a block of rows: out[r] = softmax(scale * queries[r] keysᵀ + mask[r]) values. scale >= 0. */
struct vector_attend {
    int64_t rows, k, dim_head, dim_value;
    const void *queries; /* (rows, dim_head) */
    int64_t query_stride;
    enum element query_element;
    const float *packed; /* keys and values; pack_keys of the same set wrote them */
    float scale;
    struct vector_mask mask;
    bool causal;            /* the row at position p sees the keys 0 … p alone */
    int64_t first_position; /* of the first row; read if causal */
    int64_t zero_keys;      /* further keys, with score 0 and value 0; a causal row sees none of them */
    void *out;              /* (rows, dim_value) */
    int64_t out_stride;
    enum element out_element;
    float *weights;       /* (weights_rows, k + zero_keys): the softmax is written there; NULL: it is not wanted */
    int64_t weights_rows; /* rows that have weights; the others are padding */
    float *scratch;       /* vector_attend_scratch floats */
};

/* What follows a product: y[r] = activation(x[r] + bias) + residual[r]. */
struct vector_finish {
    int64_t rows, columns;
    const float *x; /* (rows, columns) */
    int64_t x_stride;
    const float *bias; /* (columns); NULL: none */
    struct plan_activation activation;
    const float *residual; /* (rows, columns); NULL: none */
    int64_t residual_stride;
    enum element y_element;
    void *y; /* (rows, columns) */
    int64_t y_stride;
};

/* The same for columns [first, first + columns). */
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

/* x wᵀ for a block of rows and some columns, and what follows. A word is a pair of bf16 (vector_words.h); a row has
 * whole words. */
struct vector_linear {
    int64_t depth;
    const float *x;              /* words (rows, depth); rows up to PLAN_ROW_BLOCK may be read */
    const float *weight;         /* pack_weight wrote it; at a column that is a multiple of VECTOR_PANEL */
    struct vector_finish finish; /* rows and columns to compute; its x is not read */
    float *scratch;              /* VECTOR_LINEAR_SCRATCH floats */
};

/* c = E[:rows]ᵀ x for some columns of x, at most VECTOR_PANEL. */
struct vector_project {
    int64_t k, rows, columns;
    const float *e; /* Eᵀ (k, rows) in words; VECTOR_TILE_ROWS - 1 rows behind may be read */
    int64_t e_stride;
    const void *x; /* (rows, columns) */
    int64_t x_stride;
    enum element x_element;
    float *c;       /* (k, columns) in room for (k + VECTOR_TILE_ROWS - 1, VECTOR_PANEL) */
    float *scratch; /* VECTOR_PROJECT_SCRATCH floats and k + VECTOR_TILE_ROWS - 1 more */
};

/* What `reduce` does with each x. */
struct vector_reduction {
    enum plan_reduction reduction;
    float order;        /* of REDUCTION_NORM */
    const double *mean; /* (n), of REDUCTION_VARIANCE and REDUCTION_DEVIATION */
    double *places;     /* (n), of REDUCTION_ARGMAX */
    int64_t place, step;
};

struct vector_functions {
    const char *name;

    /* y[r] = (x[r] - mean) / sqrt(variance + epsilon) * gain + bias. The variance is the mean over all columns.
     * In float, and for rows of up to 4096 columns, the error is at most 4e-7 (|gain| X + |bias|). X is the row's
     * largest |x| over sqrt(variance + epsilon): a row far from zero loses digits when its mean is subtracted. */
    void (*layer_norm)(int64_t rows, int64_t columns, const float *x, const float *gain, const float *bias,
                       float epsilon, enum element y_element, void *y);

    /* y = activation(x), also in place. GELU is x Φ(x). Its error is at most 4e-7 |x|, and that of its erf 4e-7
     * relative; in the variant for AVX512_BF16 the error is at most 1.1e-4 |x|. Relative to y it has no bound: where
     * Φ is small, 1 + erf cancels. GELU_TANH is within 1e-6 |x|, and AFFINE within 1e-6 (|a x| + |b|). The others are
     * within 1e-6 relative, if y is no subnormal; exp is then 0. */
    void (*activate)(int64_t n, struct plan_activation activation, const float *x, float *y);

    /* y = scale * (x + z) */
    void (*add)(int64_t n, const float *x, const float *z, float scale, float *y);

    /* y = f(x, z), and y = x where the condition is not 0, else z. select moves 4 bytes as they are. */
    void (*combine)(int64_t n, enum plan_function function, const float *x, const float *z, float *y);
    void (*select)(int64_t n, const float *condition, const float *x, const float *z, float *y);

    void (*finish_linear)(const struct vector_finish *finish);

    /* y = x as bf16, rounded to the nearest, ties to even. A NaN stays one. A subnormal may become 0. */
    void (*to_bf16)(int64_t n, const float *x, uint16_t *y);

    /* x = softmax(scale * x), scale >= 0, with exp within 2 ulp. One NaN makes all of it NaN. */
    void (*softmax)(int64_t n, float scale, float *x);

    /* y = x + (sin(position * frequencies), cos(position * frequencies)). x, y (2 * half), frequencies (half). Products
     * are in float. Sines and cosines are at most 1.2e-7 off. */
    void (*add_sinusoids)(int64_t half, float position, const float *frequencies, const float *x, float *y);

    /* y[r] = exp(x[r] - z) within 2 ulp, y (rows, columns). Below -87.3365 it is 0, so there are no subnormals. From
     * 88.7229 on it is infinity. A NaN stays one. */
    void (*exp_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, const float *z, float *y);

    /* maximum_rows: y = the larger of y and every x[r]; NaNs in x are skipped. sum_rows: y += every x[r], row by row.
     */
    void (*maximum_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *y);
    void (*sum_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *y);

    /* y[c] += the sum of x[r, c] over all rows; with `mean` (columns) the sum of (x[r, c] - mean[c])². */
    void (*sum_columns)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, const float *mean, double *y);

    /* y[r] = (x[r] - mean) * factor + bias, each (columns); bias NULL: none. x and y have one stride. */
    void (*normalise_rows)(int64_t rows, int64_t columns, const float *x, int64_t stride, const float *mean,
                           const float *factor, const float *bias, float *y);

    /* Takes one more x into each of n results y, which hold those before: sums, products or maxima. The results start
     * with the number that changes nothing. Deviations are sums of (x - mean)². With REDUCTION_ARGMAX places[i] becomes
     * place + i * step where x[i] is a new maximum. */
    void (*reduce)(const struct vector_reduction *reduction, int64_t n, const float *x, double *y);

    /* y = scale * (bias + the sum over t < taps of x[t] w[t]), each (columns); bias NULL: none */
    void (*convolve_channels)(int64_t taps, int64_t columns, const float *const *x, const float *const *w,
                              const float *bias, float scale, float *y);

    /* Brings keys and values into attend's order, once for all blocks of rows that see them: vector_packed_keys floats.
     */
    void (*pack_keys)(const struct vector_keys *keys, float *packed);
    void (*attend)(const struct vector_attend *attend);

    /* y = exp(x) for x <= 0, as attend computes it from scores. It is within 2 ulp, and 0 below -87.3365. In the
     * variant for AVX512_BF16 the relative error is at most 6.5e-6, and there are subnormals. A NaN stays one. */
    void (*weigh)(int64_t n, const float *x, float *y);

    /* For AVX512_BF16 alone; NULL in the other variants, where libraries multiply. An element of a product is summed up
     * along the depth in order, whatever rows and columns are beside it. */
    void (*to_words)(int64_t rows, int64_t depth, enum element element, const void *x, float *words);
    void (*pack_weight)(int64_t columns, int64_t depth, const float *w, float *packed);
    void (*linear)(const struct vector_linear *linear);
    void (*project)(const struct vector_project *project);
};

/* The wanted set; SET_AUTO: the best that the processor has. -1: the processor lacks it. */
int instruction_set_choose(enum instruction_set wanted, enum instruction_set *set, struct error *error);

/* Whether the processor has AVX512_BF16, which multiplies pairs of bf16. */
bool cpu_has_bf16(void);

const struct vector_functions *vector_functions_of(enum instruction_set set); /* NULL: not in this build */
const struct vector_functions *vector_functions_of_bf16(void);                /* the same; call it if cpu_has_bf16 */

/* Floats that pack_weight writes: columns are rounded up to whole vectors. */
int64_t vector_packed_weight(int64_t columns, int64_t depth);

/* Floats that pack_keys writes, and of attend's scratch; enough for every set. */
int64_t vector_packed_keys(int64_t k, int64_t dim_head, int64_t dim_value);
int64_t vector_attend_scratch(int64_t dim_head, int64_t dim_value);

#define VECTOR_WIDTH 16        /* floats of a vector, in the widest set */
#define VECTOR_GROUP_ROWS 24   /* query rows that attend computes together */
#define VECTOR_TILE_KEYS 256   /* keys that it scores at a time, at most */
#define VECTOR_TILE_ROWS 6     /* rows that a product computes together, at most */
#define VECTOR_PANEL 64        /* columns that a product computes at a time */
#define PRODUCTS_PANEL 256     /* columns of a linear tile (products.h), oneDNN's too */
#define VECTOR_CHUNK_WORDS 256 /* of a projection's rows, packed at a time */
#define VECTOR_LINEAR_SCRATCH (VECTOR_TILE_ROWS * VECTOR_PANEL)
#define VECTOR_PROJECT_SCRATCH (VECTOR_CHUNK_WORDS * VECTOR_PANEL)

#endif
