/* Attention within windows. A warp computes a row of one head, 32 keys at a time, with a running maximum as in
 * attend.cu.
 */
#include "engine/cuda/local_attend.h"

#define WARPS 4
#define VALUES 128 /* features that a warp computes */

template <typename T> struct local_attention {
    const T *queries;       /* (rows, query_columns) */
    const T *keys, *values; /* (rows, key_columns) */
    const int32_t *mask;    /* (rows), 0 for a masked key. NULL if there is no mask */
    const int64_t *starts;  /* by sequence */
    int64_t query_columns, key_columns, heads, first_head, d, window;
    bool causal;
    T *out;
};

/* The keys of the windows that a row reads: rows [first, behind). The windows have `slots` positions, of which some may
 * be outside the item. */
struct neighbours {
    int64_t first, behind, slots;
};

template <typename T>
static __device__ struct neighbours neighbours_of(const struct local_attention<T> *a, int64_t item, int64_t row)
{
    int64_t start = a->starts[item], end = a->starts[item + 1], around = a->causal ? 2 : 3;
    int64_t first = start + ((row - start) / a->window - 1) * a->window, behind = first + around * a->window;
    struct neighbours n = {first > start ? first : start, behind < end ? behind : end, around * a->window};
    return n;
}

template <typename T> static __device__ bool is_seen(const struct local_attention<T> *a, int64_t row, int64_t key)
{
    return (!a->causal || key <= row) && (!a->mask || a->mask[key]);
}

/* The result of a row that reads no key: the mean of all values of its windows, where values outside the item count as
 * -1. The library behaves like this, because it sets the scores of hidden keys to one number. */
template <typename T>
static __device__ float mean_value(const struct local_attention<T> *a, const struct neighbours *n, const T *values)
{
    float sum = -(float)(n->slots - (n->behind - n->first));
    for (int64_t key = n->first; key < n->behind; key++)
        sum += to_float(values[key * a->key_columns]);
    return sum / (float)n->slots;
}

/* The product of a query and a key, N elements at a time. */
template <typename T, int N> static __device__ float product_of(const T *query, const T *key, int64_t d)
{
    float sum = 0;
    for (int64_t i = 0; i < d; i += N) {
        float queries[N], keys[N];
        load(queries, query + i);
        load(keys, key + i);
        for (int j = 0; j < N; j++)
            sum += queries[j] * keys[j];
    }
    return sum;
}

/* Grid: x is a group of WARPS rows, y is the head, z selects features. */
template <typename T, int N>
static __global__ void local_attend(struct local_attention<T> a, int64_t rows, int64_t n_items)
{
    int64_t row = warp_of_grid(), head = blockIdx.y, feature = (int64_t)blockIdx.z * VALUES + warp_thread();
    if (row >= rows || row >= a.starts[n_items])
        return;
    struct neighbours n = neighbours_of(&a, item_of(a.starts, n_items, row), row);
    const T *query = a.queries + row * a.query_columns + (a.first_head + head) * a.d;
    const T *keys = a.keys + (a.first_head + head) * a.d, *values = a.values + (a.first_head + head) * a.d;
    T *out = a.out + (row * a.heads + head) * a.d;
    float scale = 1.0f / sqrtf((float)a.d);
    float maximum = -INFINITY, sum = 0, results[VALUES / WARP] = {0};
    for (int64_t first = n.first; first < n.behind; first += WARP) {
        int64_t key = first + warp_thread(), count = n.behind - first < WARP ? n.behind - first : WARP;
        float score = -INFINITY;
        if (key < n.behind && is_seen(&a, row, key))
            score = scale * product_of<T, N>(query, keys + key * a.key_columns, a.d);
        float raised = fmaxf(maximum, warp_maximum(score));
        if (raised == -INFINITY)
            continue; /* for all threads of the warp: the row has read no key so far */
        float factor = expf(maximum - raised), weight = expf(score - raised);
        maximum = raised;
        sum = sum * factor + warp_sum(weight);
        for (int v = 0; v < VALUES / WARP; v++)
            results[v] *= factor;
        for (int j = 0; j < count; j++) {
            float of_key = __shfl_sync(WHOLE_WARP, weight, j);
            for (int v = 0; v < VALUES / WARP; v++)
                if (feature + v * WARP < a.d)
                    results[v] += of_key * to_float(values[(first + j) * a.key_columns + feature + v * WARP]);
        }
    }
    for (int v = 0; v < VALUES / WARP; v++)
        if (feature + v * WARP < a.d)
            out[feature + v * WARP] =
                of_float<T>(maximum == -INFINITY ? mean_value(&a, &n, values + feature + v * WARP) : results[v] / sum);
}

template <typename T> void cuda_local_attend(struct cuda_run *run, const struct plan_step *step)
{
    struct local_attention<T> a = {
    };
    int64_t rows = rows_of(run, step->x);
    a.queries = elements_of<T>(run, step->x);
    a.keys = elements_of<T>(run, step->keys);
    a.values = elements_of<T>(run, step->values);
    a.mask = step->z == PLAN_NONE ? NULL : ids_of(run, step->z);
    a.starts = device_starts_of(run, step->x);
    a.query_columns = columns_of(run, step->x);
    a.key_columns = columns_of(run, step->keys);
    a.heads = step->local_attend.heads;
    a.first_head = step->local_attend.first_head;
    a.d = step->local_attend.dim_head;
    a.window = step->local_attend.window;
    a.causal = step->local_attend.causal;
    a.out = elements_of<T>(run, step->y);
    with_pack<T>(a.d | a.key_columns | a.query_columns, [&](auto n) {
        launch(run, local_attend<T, n.value>, parts_of(rows, WARPS),
               dim3((unsigned)a.heads, (unsigned)parts_of(a.d, VALUES)), WARPS * WARP, a, rows,
               sequences_of(run, step->x));
    });
}

FOR_ELEMENTS(cuda_local_attend)
