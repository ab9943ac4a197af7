/* projection: a projection step with its pointers on the device. project.cu and project_tensor.cu share it.
 *
 * A block computes a tile of y from one part of a sequence's rows. A second kernel adds up the parts in their order, so
 * that y is the same in every run. Two projections of the same x may be one launch. Each then has blocks of its own,
 * which work as in a launch of one. */
#ifndef ENGINE_CUDA_PROJECTION_H
#define ENGINE_CUDA_PROJECTION_H

#include "engine/cuda/run.h"

/* The members that differ between two projections in one launch. */
template <typename T> struct projected {
    const T *weight;   /* E of all groups */
    const float *bias; /* (groups, k); NULL: none */
    float *parts;      /* (places, k, columns), for sequences with several parts */
    T *y;              /* (sequences * k, y_columns) */
};

template <typename T> struct projection {
    struct projected<T> own, second; /* a block of the second projection copies it to its `own` */
    int count;                       /* of projections: 1 or 2 */
    const T *x;                      /* (rows, columns) */
    const int64_t *starts, *to;      /* of x and of y, by sequence */
    const int64_t *selecting;        /* starts on the axis that selects sequences; NULL: all are computed */
    int64_t least, most;             /* rows that a selected sequence has there */
    int64_t n_sequences;
    int64_t across, along, of_group; /* E[p, j] of a group is weight[group * of_group + p * across + j * along] */
    int64_t columns, group_columns, y_columns, k;
    bool sums_column, bias_column;
    int64_t part_rows; /* rows of x in a part; the last part of a sequence may have fewer */
};

/* A part of a sequence's rows. The parts of all sequences are numbered together, by the starts of the sequences
 * (first_part). Some numbers have no part. */
struct sequence_part {
    int64_t sequence, number; /* number: of the part, within the sequence */
    int64_t first, rows;      /* of x */
    int64_t count;            /* of the sequence's parts; 0: no part has this number, or the sequence is not selected */
};

template <typename T>
static __device__ __forceinline__ int64_t first_part(const struct projection<T> *p, int64_t sequence)
{
    return p->starts[sequence] / p->part_rows + sequence;
}

template <typename T>
static __device__ struct sequence_part part_of(const struct projection<T> *p, int64_t sequence, int64_t number)
{
    int64_t begin = p->starts[sequence], end = p->starts[sequence + 1];
    struct sequence_part part = {sequence, number, begin + number * p->part_rows, 0,
                                 (end - begin + p->part_rows - 1) / p->part_rows};
    part.rows = end - part.first < p->part_rows ? end - part.first : p->part_rows;
    part.count = part.count < 1 ? 1 : part.count; /* a sequence without rows: zeros */
    if (p->to[sequence + 1] == p->to[sequence])   /* none: it rounds the batch up to its class */
        part.count = 0;
    if (p->selecting) {
        int64_t rows = p->selecting[sequence + 1] - p->selecting[sequence];
        part.count = p->least <= rows && rows <= p->most ? part.count : 0;
    }
    part.count = number < part.count ? part.count : 0;
    return part;
}

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

/* The place of a sequence's first part in `parts`, if it has several. Such a sequence has more than part_rows rows, so
 * there is room for all its parts before the first place of the next sequence. */
template <typename T>
static __device__ __forceinline__ int64_t first_place(const struct projection<T> *p, int64_t sequence)
{
    return 2 * p->starts[sequence] / p->part_rows;
}

/* What is added to an element of y: nothing if the bias has a column of its own. */
template <typename T>
static __device__ __forceinline__ float bias_of(const struct projection<T> *p, int64_t j, int64_t column)
{
    return p->own.bias && !p->bias_column ? p->own.bias[column / p->group_columns * p->k + j] : 0;
}

/* Writes the sum of a part: with its bias to y if it is the sequence's only part, else to the parts. */
template <typename T>
static __device__ __forceinline__ void write_sum(const struct projection<T> *p, const struct sequence_part *part,
                                                 int64_t j, int64_t column, float sum)
{
    if (part->count == 1)
        p->own.y[(part->sequence * p->k + j) * p->y_columns + column] = of_float<T>(sum + bias_of(p, j, column));
    else
        p->own.parts[((first_place(p, part->sequence) + part->number) * p->k + j) * p->columns + column] = sum;
}

/* The first row of y of the block with this number, for tiles of `tall` rows. Blocks of the second projection follow
 * those of the first; for them p->own becomes the second. */
template <typename T>
static __device__ __forceinline__ int64_t take_tile(struct projection<T> *p, int64_t number, int64_t tall)
{
    int64_t tiles = (p->k + tall - 1) / tall;
    if (number < tiles)
        return number * tall;
    p->own = p->second;
    return (number - tiles) * tall;
}

static inline int64_t parts_at_most(int64_t rows, int64_t n_sequences, int64_t part_rows)
{
    return rows / part_rows + n_sequences;
}

/* Launches the products on tensor cores, without finish_projection. */
template <typename T>
void project_on_tensor_cores(struct cuda_run *run, const struct plan_step *step,
                             const struct projection<T> *projection);

#endif
