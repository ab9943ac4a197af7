/* attention: the parameters of an attention step, with pointers to device memory. The kernels of attend.cu,
 * attend_tensor.cu and attend_split.cu share them. */
#ifndef ENGINE_CUDA_ATTENTION_H
#define ENGINE_CUDA_ATTENTION_H

#include "engine/cuda/run.h"

template <typename T> struct attention {
    const T *queries;       /* (rows, query_columns) */
    const T *keys, *values; /* (rows of keys, key_columns) and (rows of keys, value_columns) */
    /* By sequence: index of its first row of queries, and of its first row of keys. */
    const int64_t *query_starts, *key_starts;
    /* By row of queries: its position. NULL if the position of a row is its number in the sequence. */
    const int32_t *positions;
    const struct score_mask
        *masks; /* by item. Here, each item is one sequence of the axis. NULL if no item may have a mask */
    int64_t query_columns, key_columns, value_columns, out_columns;
    int64_t heads, kv_heads, dim_head, dim_value, key_room;
    float scale, masked_score;
    bool causal, masked_byte;
    bool packed; /* the part of a row that belongs to a head begins and ends at multiples of 16 bytes */
    T *out;      /* (rows, out_columns) */
};

/* One sequence. For OP_ATTEND, it is a sequence of the axis, with width 1 and number 0. OP_ATTEND_CALL reads calls. A
 * call counts as one sequence of the axis, but consists of `width` sequences. Position p of sequence `number` of the
 * call is row p * width + number of the call. */
struct sequence {
    int64_t axis_sequence; /* number of the sequence of the axis */
    int64_t number, width;
    int64_t query, key;     /* indices of the rows of position 0 */
    int64_t keys;           /* number of keys */
    struct score_mask mask; /* the mask of the item */
};

template <typename T>
static __device__ struct sequence sequence_of(const struct attention<T> *a, int64_t axis_sequence, int64_t number,
                                              int64_t width)
{
    struct sequence s;
    s.axis_sequence = axis_sequence;
    s.number = number;
    s.width = width;
    s.query = a->query_starts[axis_sequence] + number;
    s.key = a->key_starts[axis_sequence] + number;
    s.keys = (a->key_starts[axis_sequence + 1] - a->key_starts[axis_sequence]) / width;
    s.mask = a->masks ? a->masks[axis_sequence] : score_mask();
    return s;
}

/* The position of row `index` of the sequence. Rows in earlier batches do not count. */
template <typename T>
static __device__ __forceinline__ int64_t position_of(const struct attention<T> *a, const struct sequence *s,
                                                      int64_t index)
{
    return a->positions ? a->positions[s->query + index] : index;
}

/* The number that the item's mask adds to a score. */
template <typename T>
static __device__ float mask_score(const struct attention<T> *a, const struct sequence *s, int64_t head,
                                   int64_t position, int64_t key)
{
    const struct score_mask *mask = &s->mask;
    if (!mask->data)
        return 0;
    int64_t row = (s->number * a->heads + head) * mask->rows_per_head + (mask->length == 1 ? 0 : position);
    if (mask->floats)
        return ((const float *)mask->data)[row * s->keys + key];
    return (((const uint8_t *)mask->data)[row * s->keys + key] != 0) == a->masked_byte ? a->masked_score : 0;
}

/* exp(x - maximum). If the maximum is minus infinity, all scores are minus infinity, and the result is 0. */
static __device__ __forceinline__ float power_of(float x, float maximum)
{
    return maximum == -INFINITY ? 0 : expf(x - maximum);
}

/* OP_ATTEND for elements of 16 bits. Returns false, and launches nothing, if a head has more than 128 features, or if
 * `heads` is not a multiple of kv_heads. */
template <typename T>
bool attend_on_tensor_cores(struct cuda_run *run, const struct plan_step *step, const struct attention<T> *attention);

/* OP_ATTEND for floats, on tensor cores (split.h). Returns false, and launches nothing, if a head has more than 128
 * features, or if the device has too little shared memory. */
bool attend_split(struct cuda_run *run, const struct plan_step *step, const struct attention<float> *attention);

#endif
