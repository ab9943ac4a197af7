/* Attention within windows. A warp computes a row of one head, 32 keys at a time, with a running maximum as in
 * attend.cu.
 *
 * The rows of a sequence may come in several batches. In this case, the sequence's slot keeps the keys and values of
 * two windows, as floats. For each head, it contains keys (2 * window, d), followed by values (2 * window, d). Position
 * p is row p % (2 * window). So a new row replaces a row that no later row reads. A block computes one head of one row
 * of such a sequence. Each warp reads every PART_WARPS-th group of 32 keys. The warps' results are added up in a fixed
 * order. */
#include "engine/cuda/local_attend.h"

#define WARPS 4
#define VALUES 128    /* number of features that a warp computes */
#define PART_WARPS 8  /* number of warps that share a row of a sequence whose rows come in several batches */
#define KEY_THREADS 8 /* number of threads of such a warp that read one key together */

template <typename T> struct local_attention {
    const T *queries;       /* (rows, query_columns) */
    const T *keys, *values; /* (rows, key_columns) each */
    const int32_t *mask;    /* (rows), 0 for a masked key. NULL if there is no mask */
    const int64_t *starts;  /* by sequence: index of its first row */
    int64_t query_columns, key_columns, heads, first_head, d, window;
    bool causal;
    struct states states;
    T *out;
};

/* The keys of the windows that a row reads: rows [first, behind). The windows have `positions` positions, and some of
 * them may be outside the sequence. */
struct neighbours {
    int64_t first, behind, positions;
};

template <typename T>
static __device__ struct neighbours neighbours_of(const struct local_attention<T> *a, int64_t sequence, int64_t row)
{
    int64_t start = a->starts[sequence], end = a->starts[sequence + 1], around = a->causal ? 2 : 3;
    int64_t first = start + ((row - start) / a->window - 1) * a->window, behind = first + around * a->window;
    struct neighbours n = {first > start ? first : start, behind < end ? behind : end, around * a->window};
    return n;
}

template <typename T> static __device__ bool is_seen(const struct local_attention<T> *a, int64_t row, int64_t key)
{
    return (!a->causal || key <= row) && (!a->mask || a->mask[key]);
}

/* The result of a row that reads no key: the mean of all values of its windows, where values outside the sequence count
 * as -1. The library has the same result, because it sets the scores of all hidden keys to one number. */
template <typename T>
static __device__ float mean_value(const struct local_attention<T> *a, const struct neighbours *n, const T *values)
{
    float sum = -(float)(n->positions - (n->behind - n->first));
    for (int64_t key = n->first; key < n->behind; key++)
        sum += to_float(values[key * a->key_columns]);
    return sum / (float)n->positions;
}

/* The scalar product of a query and a key. Loads N elements at a time. */
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

/* Grid: x is a group of WARPS rows, y is the head, z selects a group of VALUES features. */
template <typename T, int N>
static __global__ void local_attend(struct local_attention<T> a, int64_t rows, int64_t n_sequences)
{
    int64_t row = warp_of_grid(), head = blockIdx.y, feature = (int64_t)blockIdx.z * VALUES + warp_thread();
    if (row >= rows || row >= a.starts[n_sequences])
        return;
    int64_t sequence = sequence_of(a.starts, n_sequences, row);
    if (state_of(a.states, sequence))
        return;
    struct neighbours n = neighbours_of(&a, sequence, row);
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
            continue; /* all threads of the warp continue: the row has read no key so far */
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

/* ---- Sequences whose rows come in several batches ---- */

/* One head of a row, with pointers to the keys and values of its sequence in the slot. Positions count from the first
 * row of the whole sequence. */
template <typename T> struct part_row {
    int64_t position, earlier; /* position of the row, and number of rows in earlier batches */
    int64_t first;             /* position of the first key that the row reads. The last key is the row's own key */
    int64_t place;             /* row of the slot for the row's own key */
    const T *keys, *values;    /* of this batch. They begin with position `earlier` */
    float *kept_keys, *kept_values;
};

template <typename T>
static __device__ struct part_row<T> part_row_of(const struct local_attention<T> *a, int64_t sequence, int64_t row,
                                                 int64_t head) {
    part_row<T> p = {};
    int64_t start = a->starts[sequence], column = start * a->key_columns + (a->first_head + head) * a->d;
    p.earlier = a->states.items[sequence].earlier;
    p.position = p.earlier + row - start;
    p.first = (p.position / a->window - 1) * a->window;
    p.first = p.first > 0 ? p.first : 0;
    p.place = p.position % (2 * a->window);
    p.keys = a->keys + column;
    p.values = a->values + column;
    p.kept_keys = state_of(a->states, sequence) + head * 4 * a->window * a->d;
    p.kept_values = p.kept_keys + 2 * a->window * a->d;
    return p;
}

/* The thread's share of the scalar product of a query and the key at a position. KEY_THREADS threads share a key. */
template <typename T, int N>
static __device__ float share_of_key(const struct local_attention<T> *a, const struct part_row<T> *p, const T *query,
                                     int64_t position)
{
    bool kept = position < p->earlier;
    const float *old = p->kept_keys + position % (2 * a->window) * a->d;
    const T *own = p->keys + (position - p->earlier) * a->key_columns;
    float sum = 0;
    for (int64_t i = warp_thread() % KEY_THREADS * N; i < a->d; i += KEY_THREADS * N) {
        float queries[N], keys[N];
        load(queries, query + i);
        if (kept)
            load(keys, old + i);
        else
            load(keys, own + i);
        for (int j = 0; j < N; j++)
            sum += queries[j] * keys[j];
    }
    return sum;
}

/* Computes the scores of WARP keys, beginning with position `first`. Thread j receives the score of key first + j. Keys
 * after the row's own key have the score minus infinity. All threads of the warp must call it. */
template <typename T, int N>
static __device__ float scores_of_keys(const struct local_attention<T> *a, const struct part_row<T> *p, const T *query,
                                       int64_t first)
{
    const int at_once = WARP / KEY_THREADS;
    float score = -INFINITY, scale = 1.0f / sqrtf((float)a->d);
    for (int j = 0; j < WARP; j += at_once) {
        int64_t position = first + j + warp_thread() / KEY_THREADS;
        float sum = position <= p->position ? share_of_key<T, N>(a, p, query, position) : 0;
        for (int apart = KEY_THREADS / 2; apart > 0; apart /= 2)
            sum += __shfl_xor_sync(WHOLE_WARP, sum, apart);
        sum = __shfl_sync(WHOLE_WARP, sum, warp_thread() % at_once * KEY_THREADS);
        if (warp_thread() / at_once == j / at_once && first + warp_thread() <= p->position)
            score = scale * sum;
    }
    return score;
}

template <typename T>
static __device__ float value_at(const struct local_attention<T> *a, const struct part_row<T> *p, int64_t position,
                                 int64_t feature)
{
    return position < p->earlier ? p->kept_values[position % (2 * a->window) * a->d + feature]
                                 : to_float(p->values[(position - p->earlier) * a->key_columns + feature]);
}

/* The result of a warp for the keys that it has read. */
struct warp_result {
    float maximum, sum, values[VALUES / WARP];
};

/* Reads the warp's keys, and adds their values to the result. All threads of the warp must call it. */
template <typename T, int N>
static __device__ void read_keys(const struct local_attention<T> *a, const struct part_row<T> *p, const T *query,
                                 int64_t feature, struct warp_result *result)
{
    for (int64_t first = p->first + threadIdx.x / WARP * WARP; first <= p->position; first += PART_WARPS * WARP) {
        float score = scores_of_keys<T, N>(a, p, query, first), raised = fmaxf(result->maximum, warp_maximum(score));
        float factor = expf(result->maximum - raised), weight = expf(score - raised);
        result->maximum = raised;
        result->sum = result->sum * factor + warp_sum(weight);
        for (int v = 0; v < VALUES / WARP; v++)
            result->values[v] *= factor;
        for (int j = 0; j < WARP && first + j <= p->position; j++) {
            float of_key = __shfl_sync(WHOLE_WARP, weight, j);
            for (int v = 0; v < VALUES / WARP; v++)
                if (feature + v * WARP < a->d)
                    result->values[v] += of_key * value_at(a, p, first + j, feature + v * WARP);
        }
    }
}

/* A block's shared memory. */
struct part_memory {
    float maxima[PART_WARPS], sums[PART_WARPS], values[PART_WARPS][VALUES];
};

/* Combines the results of the warps for one feature. */
static __device__ float join_warps(const struct part_memory *shared, int feature)
{
    float maximum = -INFINITY, sum = 0, value = 0;
    for (int w = 0; w < PART_WARPS; w++)
        maximum = fmaxf(maximum, shared->maxima[w]);
    for (int w = 0; w < PART_WARPS; w++) { /* the row reads its own key, so the maximum is a number */
        float factor = expf(shared->maxima[w] - maximum);
        sum += factor * shared->sums[w];
        value += factor * shared->values[w][feature];
    }
    return value / sum;
}

/* Grid: x is a row, y is the head, z selects a group of VALUES features. If a sequence has only one row in the batch,
 * this kernel also writes the row to the slot. This is safe, because no other row of the batch reads the row's place in
 * the slot. */
template <typename T, int N> static __global__ void attend_part(struct local_attention<T> a, int64_t n_sequences)
{
    struct part_memory *shared = (struct part_memory *)dynamic_shared_memory;
    int64_t row = blockIdx.x, head = blockIdx.y, first = (int64_t)blockIdx.z * VALUES;
    if (row >= a.starts[n_sequences])
        return;
    int64_t sequence = sequence_of(a.starts, n_sequences, row), warp = threadIdx.x / WARP,
            feature = first + threadIdx.x;
    if (!state_of(a.states, sequence))
        return;
    struct part_row<T> p = part_row_of(&a, sequence, row, head);
    const T *query = a.queries + row * a.query_columns + (a.first_head + head) * a.d;
    struct warp_result result = {-INFINITY, 0, {0}};
    read_keys<T, N>(&a, &p, query, first + warp_thread(), &result);
    if (warp_thread() == 0) {
        shared->maxima[warp] = result.maximum;
        shared->sums[warp] = result.sum;
    }
    for (int v = 0; v < VALUES / WARP; v++)
        shared->values[warp][v * WARP + warp_thread()] = result.values[v];
    __syncthreads();
    if (threadIdx.x >= VALUES || feature >= a.d)
        return;
    a.out[(row * a.heads + head) * a.d + feature] = of_float<T>(join_warps(shared, (int)threadIdx.x));
    if (a.starts[sequence + 1] - a.starts[sequence] > 1)
        return;
    p.kept_keys[p.place * a.d + feature] = to_float(p.keys[feature]);
    p.kept_values[p.place * a.d + feature] = to_float(p.values[feature]);
}

/* Writes to the slot the last two windows of sequences that have several rows in the batch. A warp writes a row. Grid:
 * y is the head. */
template <typename T> static __global__ void keep_rows(struct local_attention<T> a, int64_t rows, int64_t n_sequences)
{
    int64_t row = warp_of_grid(), head = blockIdx.y;
    if (row >= rows || row >= a.starts[n_sequences])
        return;
    int64_t sequence = sequence_of(a.starts, n_sequences, row), count = a.starts[sequence + 1] - a.starts[sequence];
    if (!state_of(a.states, sequence) || count == 1 || a.starts[sequence + 1] - row > 2 * a.window)
        return;
    struct part_row<T> p = part_row_of(&a, sequence, row, head);
    int64_t own = (row - a.starts[sequence]) * a.key_columns;
    for (int64_t i = warp_thread(); i < a.d; i += WARP) {
        p.kept_keys[p.place * a.d + i] = to_float(p.keys[own + i]);
        p.kept_values[p.place * a.d + i] = to_float(p.values[own + i]);
    }
}

template <typename T, int N>
static void attend_parts(struct cuda_run *run, const struct local_attention<T> &a, int64_t rows, int64_t n_sequences)
{
    launch_shared(run, attend_part<T, N>, rows, dim3((unsigned)a.heads, (unsigned)parts_of(a.d, VALUES)),
                  PART_WARPS * WARP, sizeof(struct part_memory), a, n_sequences);
    if (computes_several_rows(run))
        launch(run, keep_rows<T>, parts_of(rows, WARPS), dim3((unsigned)a.heads), WARPS * WARP, a, rows, n_sequences);
}

template <typename T> void cuda_local_attend(struct cuda_run *run, const struct plan_step *step)
{
    local_attention<T> a = {};
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
    a.states = states_of(run);
    a.out = elements_of<T>(run, step->y);
    with_pack<T>(a.d | a.key_columns | a.query_columns, [&](auto n) {
        if (computes_whole_sequences(run))
            launch(run, local_attend<T, n.value>, parts_of(rows, WARPS),
                   dim3((unsigned)a.heads, (unsigned)parts_of(a.d, VALUES)), WARPS * WARP, a, rows,
                   sequences_of(run, step->x));
        if (computes_single_rows(run) || computes_several_rows(run))
            attend_parts<T, n.value>(run, a, rows, sequences_of(run, step->x));
    });
}

FOR_ELEMENTS(cuda_local_attend)
