/* projection: the parameters of a projection along the sequence, with pointers to device memory. Also declares the
 * functions of the files project_….cu, which compute projections.
 *
 * A block computes a tile of y from one part of a sequence's rows. A part has `part_rows` rows. A second kernel adds up
 * the parts in a fixed order, so y has the same bits in every run. One launch may compute two projections of the same
 * x. Each projection has its own blocks, which work as in the launch of a single projection. */
#ifndef ENGINE_CUDA_PROJECTION_H
#define ENGINE_CUDA_PROJECTION_H

#include "engine/cuda/product.h"
#include "engine/cuda/run.h"

/* The members that differ between two projections in one launch. */
template <typename T> struct projected {
    const T *weight;   /* E of all groups of columns */
    const float *bias; /* (groups, k). NULL if there is no bias */
    float *parts;      /* (places, k, columns): sums of parts, for sequences with several parts. See first_place */
    T *y;              /* (sequences * k, y_columns) */
};

template <typename T> struct projection {
    /* The first and the second projection. A block of the second projection copies `second` to `own`. */
    struct projected<T> own, second;
    int count;                  /* number of projections: 1 or 2 */
    const T *x;                 /* (rows, columns) */
    const int64_t *starts, *to; /* by sequence: index of its first row in x, and in y */
    /* By sequence: index of its first row on the axis that selects sequences. NULL if all sequences are computed. */
    const int64_t *selecting;
    int64_t least, most; /* a sequence is selected if its number of rows on this axis is in [least, most] */
    int64_t n_sequences;
    int64_t across, along, of_group; /* E[p, j] of a group is weight[group * of_group + p * across + j * along] */
    int64_t columns, group_columns, y_columns, k;
    bool sums_column, bias_column;
    bool adds_bias;    /* there is a bias, and it is added to the columns */
    int64_t part_rows; /* rows of x in a part. The last part of a sequence may have fewer rows */
    /* cuBLAS computes the sequences with this number of rows. 0 if it computes no sequence, EVERY_LENGTH if it computes
     * all sequences */
    int64_t multiplied;
};

#define EVERY_LENGTH INT64_MAX

/* Whether cuBLAS computes a sequence with this number of rows. */
template <typename T> static __device__ __forceinline__ bool is_multiplied(const struct projection<T> *p, int64_t rows)
{
    return p->multiplied == EVERY_LENGTH || (p->multiplied > 0 && p->multiplied == rows);
}

/* A part of a sequence's rows. The parts of all sequences share one numbering. first_part computes the number of a
 * sequence's first part from the sequence's first row. Some numbers of this numbering belong to no part. */
struct sequence_part {
    int64_t sequence, number; /* `number` counts the parts of the sequence from 0 */
    int64_t first, rows;      /* index of the first row of x, and number of rows */
    /* Number of parts of the sequence. 0 if no part has this number, if the sequence is not selected, or if cuBLAS
     * computes the sequence. */
    int64_t count;
};

template <typename T>
static __device__ __forceinline__ int64_t first_part(const struct projection<T> *p, int64_t sequence)
{
    return p->starts[sequence] / p->part_rows + sequence;
}

/* Whether the step computes the sequence. */
template <typename T>
static __device__ __forceinline__ bool is_selected(const struct projection<T> *p, int64_t sequence)
{
    if (!p->selecting)
        return true;
    int64_t rows = p->selecting[sequence + 1] - p->selecting[sequence];
    return p->least <= rows && rows <= p->most;
}

template <typename T>
static __device__ struct sequence_part part_of(const struct projection<T> *p, int64_t sequence, int64_t number)
{
    int64_t begin = p->starts[sequence], end = p->starts[sequence + 1];
    struct sequence_part part = {sequence, number, begin + number * p->part_rows, 0,
                                 (end - begin + p->part_rows - 1) / p->part_rows};
    part.rows = end - part.first < p->part_rows ? end - part.first : p->part_rows;
    part.count = part.count < 1 ? 1 : part.count; /* a sequence without rows has one part, whose sum is 0 */
    /* Two kinds of sequences need no work: sequences that only round the batch up to its shape (shape.h), and sequences
     * that cuBLAS computes. */
    if (p->to[sequence + 1] == p->to[sequence] || is_multiplied(p, end - begin))
        part.count = 0;
    part.count = number < part.count && is_selected(p, sequence) ? part.count : 0;
    return part;
}

/* Finds the part with this number in the numbering of all sequences. */
template <typename T> static __device__ struct sequence_part find_part(const struct projection<T> *p, int64_t index)
{
    int64_t sequence = 0, behind = p->n_sequences;
    while (behind - sequence > 1) {
        int64_t middle = (sequence + behind) / 2;
        if (first_part(p, middle) <= index)
            sequence = middle;
        else
            behind = middle;
    }
    return part_of(p, sequence, index - first_part(p, sequence));
}

/* The index in `parts` of the first part of a sequence with several parts. Such a sequence has n > part_rows rows, and
 * at most 2 n / part_rows parts. `parts` has room for two parts for each part_rows rows of x. So the parts of two
 * sequences do not overlap. */
template <typename T>
static __device__ __forceinline__ int64_t first_place(const struct projection<T> *p, int64_t sequence)
{
    return 2 * p->starts[sequence] / p->part_rows;
}

/* The bias of an element of y. 0 if the bias is written to a separate column instead. */
template <typename T>
static __device__ __forceinline__ float bias_of(const struct projection<T> *p, int64_t j, int64_t column)
{
    return p->adds_bias ? p->own.bias[column / p->group_columns * p->k + j] : 0;
}

/* Writes the sum of a part. If the sequence has only one part, adds the bias and writes the result to y. Otherwise
 * writes the sum to `parts`. */
template <typename T>
static __device__ __forceinline__ void write_sum(const struct projection<T> *p, const struct sequence_part *part,
                                                 int64_t j, int64_t column, float sum)
{
    if (part->count == 1)
        p->own.y[(part->sequence * p->k + j) * p->y_columns + column] = of_float<T>(sum + bias_of(p, j, column));
    else
        p->own.parts[((first_place(p, part->sequence) + part->number) * p->k + j) * p->columns + column] = sum;
}

/* The first row of y that the block with this number computes, for tiles of `tall` rows. Blocks of the second
 * projection follow the blocks of the first. For blocks of the second projection, the function sets p->own to
 * p->second. */
template <typename T>
static __device__ __forceinline__ int64_t take_tile(struct projection<T> *p, int64_t number, int64_t tall)
{
    int64_t tiles = (p->k + tall - 1) / tall;
    if (number < tiles)
        return number * tall;
    p->own = p->second;
    return (number - tiles) * tall;
}

/* An upper bound of the number of parts of n_sequences sequences with `rows` rows together. */
static inline int64_t parts_at_most(int64_t rows, int64_t n_sequences, int64_t part_rows)
{
    return rows / part_rows + n_sequences;
}

/* Launches the kernel that computes the parts on tensor cores. The caller must launch finish_projection afterwards. */
template <typename T>
void project_on_tensor_cores(struct cuda_run *run, const struct plan_step *step,
                             const struct projection<T> *projection);

/* Like project_on_tensor_cores, for floats (split.h). */
void project_split(struct cuda_run *run, const struct plan_step *step, const struct projection<float> *projection);

/* Describes the product y = Eᵀ x of one group of columns, without its depth and without pointers to its matrices. */
template <typename T> static inline struct cuda_product sizes_of_product(const struct projection<T> *p)
{
    struct cuda_product product = {};
    product.rows = p->k;
    product.columns = p->group_columns;
    product.transpose_a = p->along == 1;
    product.a_stride = p->along == 1 ? p->across : p->along;
    product.b_stride = p->columns;
    product.out_stride = p->y_columns;
    return product;
}

/* Projections of full sequences, of n rows, by products of cuBLASLt (project_full.cu). These functions do not write
 * biases, nor the additional columns of y for sums and biases.
 *
 * multiply_full launches the products of `count` neighbouring sequences. x of the first sequence begins at `row`. While
 * algorithms are chosen, the function returns whether cuBLASLt has an algorithm for each launch. multiply_some computes
 * all full sequences of the batch that are selected. It launches neighbouring sequences as products of 1, 2, 4, 8 …
 * sequences. cuda_products_warm has chosen algorithms for these numbers. */
template <typename T>
bool multiply_full(struct cuda_run *run, const struct projection<T> *projection, int64_t n, int64_t sequence,
                   int64_t row, int64_t count);
template <typename T>
void multiply_some(struct cuda_run *run, const struct plan_step *step, const struct projection<T> *projection,
                   int64_t n);

/* Projections by grouped products of cuBLAS. The next three functions are in project_grouped.cu.
 *
 * grouped_projection_scratch returns the number of floats of scratch for `sequences` sequences. Each sequence has
 * `count` projections of `groups` groups. */
int64_t grouped_projection_scratch(int64_t sequences, int64_t groups, int64_t count);

/* While algorithms are chosen: returns whether cuBLAS can compute the projections of sequences with at most n rows. */
template <typename T>
bool grouped_projection_possible(struct cuda_run *run, const struct projection<T> *projection, int64_t n);

/* Computes the selected ones of n_sequences sequences, without biases and without the additional columns. The function
 * omits sequences with projection->multiplied rows. `depths` (n_groups) contains the number of rows of each computed
 * sequence, in host memory. Returns false if cuBLAS does not support the products, or if memory is lacking. */
template <typename T>
bool project_by_groups(struct cuda_run *run, const struct projection<T> *projection, const int *depths, int n_groups,
                       int64_t n_sequences);

#endif
