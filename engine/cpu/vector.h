/* vector: the arithmetic that is not a matrix product of a library's, for one instruction set. vector_rows.c and
 * vector_attend.c are compiled once for each; vector_functions_of picks what the processor has. A further variant is
 * for AVX512_BF16: products, those of attention too, multiply bf16, and add in float; all else is as with AVX-512. Sums
 * have a fixed order per row, so a row's result does not depend on the rows beside it. Any thread; no state. Pointers
 * need no alignment. */
#ifndef ENGINE_CPU_VECTOR_H
#define ENGINE_CPU_VECTOR_H

#include "engine/plan/plan.h"

#include <stdint.h>

/* What a matrix's elements are: float, or bf16, the upper half of one. */
enum element { ELEMENT_F32, ELEMENT_BF16 };

static inline int64_t element_bytes(enum element element)
{
    return element == ELEMENT_BF16 ? 2 : 4;
}

/* What an attention mask adds to a row block's scores, a row every `stride` elements. Both NULL: nothing. */
struct vector_mask {
    const float *floats;
    const uint8_t *bytes; /* adds `score` where (*bytes != 0) == byte */
    int64_t stride;
    bool byte;
    float score;
};

/* A head's keys and values, in the places that the engine has them. */
struct vector_keys {
    int64_t k, dim_head, dim_value;
    const void *keys; /* k x dim_head, a row every key_stride elements */
    int64_t key_stride;
    const void *values; /* k x dim_value */
    int64_t value_stride;
    enum element key_element, value_element;
};

/* One head of a row block: out[r] = softmax(scale * queries[r] keysᵀ + mask[r]) values; scale >= 0. */
struct vector_attend {
    int64_t rows, k, dim_head, dim_value;
    const void *queries; /* rows x dim_head, a row every query_stride elements */
    int64_t query_stride;
    enum element query_element;
    const float *packed; /* the keys and values, from pack_keys of the same set */
    float scale;
    struct vector_mask mask;
    bool causal;            /* the row at position p sees the keys 0 … p */
    int64_t first_position; /* of rows[0]; causal only */
    int64_t zero_keys;      /* so many further keys have score 0 and value 0; none of them is seen when causal */
    void *out;              /* rows x dim_value, a row every out_stride elements */
    int64_t out_stride;
    enum element out_element;
    float *weights;       /* weights_rows x (k + zero_keys), the softmax's; NULL: not wanted */
    int64_t weights_rows; /* the first rows; those beyond are padding */
    float *scratch;       /* vector_attend_scratch floats */
};

struct vector_finish {
    int64_t rows, columns;
    const float *x; /* a row every x_stride floats */
    int64_t x_stride;
    const float *bias; /* NULL: none */
    enum activation activation;
    const float *residual; /* a row every residual_stride floats; NULL: none */
    int64_t residual_stride;
    enum element y_element;
    void *y; /* a row every y_stride elements */
    int64_t y_stride;
};

/* The same for some of its columns. */
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

/* Columns of x wᵀ for a block of rows, and what comes after. Words are pairs of bf16 (vector_words.h); rows are padded
 * to whole words. */
struct vector_linear {
    int64_t depth;
    const float *x;              /* words; rows up to PLAN_ROW_BLOCK may be read */
    const float *weight;         /* from pack_weight, at a column that VECTOR_PANEL divides */
    struct vector_finish finish; /* for all these rows and columns; its x is not looked at */
    float *scratch;              /* VECTOR_LINEAR_SCRATCH floats */
};

/* c = E[:rows]ᵀ x for some columns of x, at most VECTOR_PANEL. */
struct vector_project {
    int64_t k, rows, columns;
    const float *e; /* Eᵀ in words, k rows, of which VECTOR_TILE_ROWS - 1 more may be read */
    int64_t e_stride;
    const void *x; /* a row every x_stride elements */
    int64_t x_stride;
    enum element x_element;
    float *c;       /* (k + VECTOR_TILE_ROWS - 1, VECTOR_PANEL) */
    float *scratch; /* VECTOR_PROJECT_SCRATCH floats and k + VECTOR_TILE_ROWS - 1 more */
};

struct vector_functions {
    const char *name;

    /* y[r] = (x[r] - mean) / sqrt(variance + epsilon) * gain + bias, the variance over `columns` (not columns - 1). In
     * float, of rows of up to 4096, each is off by at most 4e-7 (|gain| X + |bias|), X being the row's largest |x|
     * over sqrt(variance + epsilon): a row far from zero has few digits left when its mean is taken off. */
    void (*layer_norm)(int64_t rows, int64_t columns, const float *x, const float *gain, const float *bias,
                       float epsilon, enum element y_element, void *y);

    /* y = activation(x). GELU, x Φ(x), is within 4e-7 |x|, its erf within a relative error of 4e-7; in the variant for
     * AVX512_BF16 within 1.1e-4 |x|. That is relative to x: where Φ is small, 1 + erf cancels, and relative to y the
     * error has no bound. In place is fine. */
    void (*activate)(int64_t n, enum activation activation, const float *x, float *y);

    /* y = scale * (x + z) */
    void (*add)(int64_t n, const float *x, const float *z, float scale, float *y);

    /* After a product: y[r] = activation(x[r] + bias) + residual[r]. */
    void (*finish_linear)(const struct vector_finish *finish);

    /* y = x as bf16, to the nearest, ties to even; a NaN stays one, a subnormal may become 0. */
    void (*to_bf16)(int64_t n, const float *x, uint16_t *y);

    /* x = softmax(scale * x), exp within 2 ulp; scale >= 0. Any NaN makes all of it NaN. */
    void (*softmax)(int64_t n, float scale, float *x);

    /* y = x + (sin(position * frequencies), cos(position * frequencies)), products in float; sines 1.2e-7 off at most.
     */
    void (*add_sinusoids)(int64_t half, float position, const float *frequencies, const float *x, float *y);

    /* y[r] = exp(x[r] - z): within 2 ulp; 0 below -87.3365, so no subnormals; infinity from 88.7229 on; NaN stays. x
     * has a row every x_stride floats, y every `columns`. */
    void (*exp_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, const float *z, float *y);

    /* y = the largest of y and all x[r]; NaNs in x are passed over. And y += the sum of all x[r], one by one. */
    void (*maximum_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *y);
    void (*sum_rows)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *y);

    /* Brings keys and values into the order that attend reads them in: once for all row blocks that look at them. */
    void (*pack_keys)(const struct vector_keys *keys, float *packed);
    void (*attend)(const struct vector_attend *attend);

    /* y = exp(x), x <= 0, as attend takes it of scores: within 2 ulp and 0 below -87.3365; in the variant for
     * AVX512_BF16 within a relative error of 6.5e-6, and subnormals below that. NaN stays. */
    void (*weigh)(int64_t n, const float *x, float *y);

    /* Of the variant for AVX512_BF16; NULL in the others, where libraries multiply. Each element of a product is summed
     * up along the depth in its order, whatever rows and columns are beside it. */
    void (*to_words)(int64_t rows, int64_t depth, enum element element, const void *x, float *words);
    void (*pack_weight)(int64_t columns, int64_t depth, const float *w, float *packed);
    void (*linear)(const struct vector_linear *linear);
    void (*project)(const struct vector_project *project);
};

enum instruction_set { SET_BASELINE, SET_AVX2, SET_AVX512, SET_COUNT }; /* x86-64-v3 and -v4; each holds those before */

/* The best set that the processor has, or the one named ("auto", "avx512", "avx2", "baseline"). -1: it has it not. */
int instruction_set_choose(const char *name, enum instruction_set *set, struct error *error);

/* Whether it multiplies pairs of bf16. */
bool cpu_has_bf16(void);

const struct vector_functions *vector_functions_of(enum instruction_set set); /* NULL: not in this build */
const struct vector_functions *vector_functions_of_bf16(void);                /* the same; for cpu_has_bf16 alone */

/* Floats. pack_weight's; vectors of columns are whole. */
int64_t vector_packed_weight(int64_t columns, int64_t depth);

/* Floats; enough for any set. */
int64_t vector_packed_keys(int64_t k, int64_t dim_head, int64_t dim_value);
int64_t vector_attend_scratch(int64_t dim_head, int64_t dim_value);

#define VECTOR_WIDTH 16      /* floats of a vector, in the widest set */
#define VECTOR_GROUP_ROWS 24 /* whose scores of VECTOR_TILE_KEYS keys stand in attend's scratch at a time */
#define VECTOR_TILE_KEYS 256 /* at most */
#define VECTOR_TILE_ROWS 6
#define VECTOR_PANEL 64        /* columns that a product computes at a time */
#define PRODUCTS_PANEL 256     /* columns of a linear tile (products.h), oneDNN's too */
#define VECTOR_CHUNK_WORDS 256 /* of a projection's rows, packed at a time */
#define VECTOR_LINEAR_SCRATCH (VECTOR_TILE_ROWS * VECTOR_PANEL)
#define VECTOR_PROJECT_SCRATCH (VECTOR_CHUNK_WORDS * VECTOR_PANEL)

#endif
