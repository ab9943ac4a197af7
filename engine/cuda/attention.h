/* attention: what the kernels of attend.cu and attend_tensor.cu share. */
#ifndef ENGINE_CUDA_ATTENTION_H
#define ENGINE_CUDA_ATTENTION_H

#include "engine/cuda/run.h"

template <typename T> struct attention {
    const T *queries, *keys, *values;
    const int64_t *query_starts, *key_starts;
    const int32_t *positions;       /* of query rows; NULL: those in the sequence */
    const struct score_mask *masks; /* by item; NULL: none */
    int64_t query_columns, key_columns, value_columns, out_columns;
    int64_t heads, kv_heads, dim_head, dim_value, key_room;
    float scale, masked_score;
    bool causal, masked_byte;
    bool packed; /* rows of a head begin at multiples of 16 bytes and are as long */
    T *out;
};

/* The sequences of a call lie side by side: position p of sequence s is row p * width + s. For all others width is 1.
 */
struct sequence {
    int64_t item, number, width; /* number: of the sequence in the item */
    int64_t query, key;          /* rows of position 0 */
    int64_t keys;
    struct score_mask mask; /* of the item */
};

template <typename T>
static __device__ struct sequence sequence_of(const struct attention<T> *a, int64_t item, int64_t number, int64_t width)
{
    struct sequence s;
    s.item = item;
    s.number = number;
    s.width = width;
    s.query = a->query_starts[item] + number;
    s.key = a->key_starts[item] + number;
    s.keys = (a->key_starts[item + 1] - a->key_starts[item]) / width;
    s.mask = a->masks ? a->masks[item] : score_mask();
    return s;
}

/* The position of the sequence's row number `index`. */
template <typename T>
static __device__ __forceinline__ int64_t position_of(const struct attention<T> *a, const struct sequence *s,
                                                      int64_t index)
{
    return a->positions ? a->positions[s->query + index] : index;
}

/* What the item's mask adds to a score. */
template <typename T>
static __device__ float mask_score(const struct attention<T> *a, const struct sequence *s, int64_t head,
                                   int64_t position, int64_t key)
{
    const struct score_mask *mask = &s->mask;
    if (!mask->data)
        return 0;
    int64_t row = (s->number * a->heads + head) * mask->each + (mask->length == 1 ? 0 : position);
    if (mask->floats)
        return ((const float *)mask->data)[row * s->keys + key];
    return (((const uint8_t *)mask->data)[row * s->keys + key] != 0) == a->masked_byte ? a->masked_score : 0;
}

/* exp(x - maximum), where minus infinity as the maximum of scores that are all minus infinity gives 0. */
static __device__ __forceinline__ float power_of(float x, float maximum)
{
    return maximum == -INFINITY ? 0 : expf(x - maximum);
}

/* OP_ATTEND for elements of 16 bits; false: heads are too wide for it or for the device, and nothing was launched. */
template <typename T>
bool attend_on_tensor_cores(struct cuda_run *run, const struct plan_step *step, const struct attention<T> *attention);

#endif
