/* Operations on rows. A warp computes a row. Each of its threads processes N columns at a time. N is 1, or the number
 * of elements of a pack (element.h). */
#include "engine/cuda/activate.h"
#include "engine/cuda/norm.h"
#include "engine/cuda/rows.h"

/* Each id is checked, because ids may be computed from floats of a request. The row of an unknown id is NaN. */
template <typename T, int N>
static __global__ void embed(int64_t rows, const int32_t *ids, struct places places, const T *table, int64_t vocabulary,
                             int64_t columns, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(places, row))
        return;
    bool known = ids[row] >= 0 && ids[row] < vocabulary;
    for (int64_t c = warp_thread() * N; c < columns; c += WARP * N) {
        float values[N];
        for (int i = 0; i < N; i++)
            values[i] = NAN;
        if (known)
            load(values, table + ids[row] * columns + c);
        store(y + row * columns + c, values);
    }
}

template <typename T> void cuda_embed(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->y);
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, embed<T, n.value>, rows_of(run, step->x), ids_of(run, step->x), places_of(run, step->x),
                    weight_of<T>(run, step->table), run->plan->weights[step->table].rows, columns,
                    elements_of<T>(run, step->y));
    });
}

template <typename T, int N>
static __global__ void add_positions(int64_t rows, const T *x, struct places places, const T *major, const T *minor,
                                     int64_t period, int64_t columns, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(places, row))
        return;
    int64_t position = whole_position_of(places, row);
    major += position / period * columns;
    if (minor)
        minor += position % period * columns;
    for (int64_t c = warp_thread() * N; c < columns; c += WARP * N) {
        float sums[N];
        load(sums, x + row * columns + c);
        add_tables(sums, major, minor, c);
        store(y + row * columns + c, sums);
    }
}

template <typename T> void cuda_add_positions(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, add_positions<T, n.value>, rows_of(run, step->x), elements_of<T>(run, step->x),
                    places_of(run, step->x), weight_of<T>(run, step->table), weight_of<T>(run, step->minor_table),
                    step->add_positions.period, columns, elements_of<T>(run, step->y));
    });
}

template <typename T, int N>
static __global__ void layer_norm(int64_t rows, int64_t columns, const T *x, struct norm norm, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows)
        return;
    x += row * columns;
    y += row * columns;
    normalise<N>(
        columns, norm, [=](float(&values)[N], int64_t c) { load(values, x + c); }, (T *)NULL,
        [=](const float(&values)[N], int64_t c) { store(y + c, values); });
}

template <typename T> void cuda_layer_norm(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = run->plan->weights[step->weight].columns; /* each group of columns counts as a row */
    int64_t rows = rows_of(run, step->x) * (columns_of(run, step->x) / columns);
    struct norm norm = {float_weight_of(run, step->weight), float_weight_of(run, step->bias), step->layer_norm.epsilon};
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, layer_norm<T, n.value>, rows, columns, elements_of<T>(run, step->x), norm,
                    elements_of<T>(run, step->y));
    });
}

template <typename T, int N>
static __global__ void activate(int64_t rows, int64_t columns, const T *x, struct plan_activation activation, T *y)
{
    int64_t row = warp_of_grid();
    for (int64_t c = warp_thread() * N; row < rows && c < columns; c += WARP * N) {
        float values[N];
        load(values, x + row * columns + c);
        for (int i = 0; i < N; i++)
            values[i] = activation_of(activation, values[i]);
        store(y + row * columns + c, values);
    }
}

/* Sets *y to the integer part of x. It is INT32_MIN for a NaN, and for a number outside of int32_t, such as 2^31. */
static __device__ __forceinline__ void set_converted(int32_t *y, float x)
{
    *y = fabsf(x) < 2147483648.0f ? (int32_t)x : INT32_MIN;
}

template <typename T> static __device__ __forceinline__ void set_converted(T *y, float x)
{
    *y = of_float<T>(x);
}

static __device__ __forceinline__ float to_float(int32_t x)
{
    return (float)x;
}

/* Computes an activation that reads ids or writes ids. */
template <typename From, typename To>
static __global__ void convert(int64_t rows, int64_t columns, const From *x, struct plan_activation activation, To *y)
{
    int64_t row = warp_of_grid();
    for (int64_t c = warp_thread(); row < rows && c < columns; c += WARP)
        set_converted(y + row * columns + c, activation_of(activation, to_float(x[row * columns + c])));
}

template <typename From, typename To> static void convert_of(struct cuda_run *run, const struct plan_step *step)
{
    launch_rows(run, convert<From, To>, rows_of(run, step->x), columns_of(run, step->x),
                elements_of<From>(run, step->x), step->activate.activation, elements_of<To>(run, step->y));
}

template <typename T> void cuda_activate(struct cuda_run *run, const struct plan_step *step)
{
    bool from_ids = run->plan->values[step->x].ids, to_ids = run->plan->values[step->y].ids;
    if (from_ids || to_ids) {
        (from_ids ? to_ids ? convert_of<int32_t, int32_t> : convert_of<int32_t, T> : convert_of<T, int32_t>)(run, step);
        return;
    }
    int64_t columns = columns_of(run, step->x);
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, activate<T, n.value>, rows_of(run, step->x), columns, elements_of<T>(run, step->x),
                    step->activate.activation, elements_of<T>(run, step->y));
    });
}

template <typename T, int N>
static __global__ void add(int64_t rows, int64_t columns, const T *x, const T *z, float scale, T *y)
{
    int64_t row = warp_of_grid();
    for (int64_t c = warp_thread() * N; row < rows && c < columns; c += WARP * N) {
        float sums[N], others[N];
        load(sums, x + row * columns + c);
        load(others, z + row * columns + c);
        for (int i = 0; i < N; i++)
            sums[i] = scale * (sums[i] + others[i]);
        store(y + row * columns + c, sums);
    }
}

template <typename T> void cuda_add(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, add<T, n.value>, rows_of(run, step->x), columns, elements_of<T>(run, step->x),
                    elements_of<T>(run, step->z), step->add.scale, elements_of<T>(run, step->y));
    });
}

/* y may overwrite x. */
template <typename T, int N>
static __global__ void mask_rows(int64_t rows, int64_t columns, const T *x, const int32_t *mask, T *y)
{
    int64_t row = warp_of_grid();
    for (int64_t c = warp_thread() * N; row < rows && c < columns; c += WARP * N) {
        float values[N];
        load(values, x + row * columns + c);
        for (int i = 0; i < N; i++)
            values[i] = mask[row] ? values[i] : 0;
        store(y + row * columns + c, values);
    }
}

template <typename T> void cuda_mask_rows(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, mask_rows<T, n.value>, rows_of(run, step->x), columns, elements_of<T>(run, step->x),
                    ids_of(run, step->z), elements_of<T>(run, step->y));
    });
}

template <typename T>
static __global__ void add_sinusoids(int64_t rows, int64_t columns, const T *x, struct places places,
                                     const float *frequencies, T *y)
{
    int64_t row = warp_of_grid(), half = columns / 2;
    if (row >= rows || !is_there(places, row))
        return;
    float position = (float)whole_position_of(places, row);
    for (int64_t c = warp_thread(); c < 2 * half; c += WARP)
        y[row * columns + c] = of_float<T>(sinusoid(position, frequencies, c, half) + to_float(x[row * columns + c]));
}

template <typename T> void cuda_add_sinusoids(struct cuda_run *run, const struct plan_step *step)
{
    launch_rows(run, add_sinusoids<T>, rows_of(run, step->x), columns_of(run, step->x), elements_of<T>(run, step->x),
                places_of(run, step->x), float_weight_of(run, step->weight), elements_of<T>(run, step->y));
}

template <typename T, int N>
static __global__ void concatenate(int64_t rows, int64_t left, int64_t right, const T *x, const T *z, T *y)
{
    int64_t row = warp_of_grid(), columns = left + right;
    for (int64_t c = warp_thread() * N; row < rows && c < columns; c += WARP * N)
        copy<N>(y + row * columns + c, c < left ? x + row * left + c : z + row * right + c - left);
}

template <typename T> void cuda_concatenate(struct cuda_run *run, const struct plan_step *step)
{
    int64_t left = columns_of(run, step->x), right = columns_of(run, step->z);
    with_pack<T>(left | right, [&](auto n) {
        launch_rows(run, concatenate<T, n.value>, rows_of(run, step->x), left, right, elements_of<T>(run, step->x),
                    elements_of<T>(run, step->z), elements_of<T>(run, step->y));
    });
}

template <typename T, int N>
static __global__ void gate(int64_t rows, int64_t columns, const T *x, struct plan_activation activation, T *y)
{
    int64_t row = warp_of_grid();
    x += row * 2 * columns;
    for (int64_t c = warp_thread() * N; row < rows && c < columns; c += WARP * N) {
        float values[N], gates[N];
        load(values, x + c);
        load(gates, x + columns + c);
        for (int i = 0; i < N; i++)
            values[i] = activation_of(activation, values[i]) * gates[i];
        store(y + row * columns + c, values);
    }
}

template <typename T> void cuda_gate(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->y);
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, gate<T, n.value>, rows_of(run, step->x), columns, elements_of<T>(run, step->x),
                    step->gate.activation, elements_of<T>(run, step->y));
    });
}

/* The neighbours of a row of x are the rows before and after it in memory. y may have fewer rows than x.
 *
 * The rows of a sequence may come in several batches. The first segment of a row moves to the next row. So the
 * sequence's slot keeps the first segment of the last row. The warp of the sequence's first row in y reads the kept
 * segment, and writes the new segment afterwards. No other warp accesses the slot. */
template <typename T, int N>
static __global__ void shift_tokens(int64_t rows, int64_t columns, const T *x, struct places from, struct places to,
                                    struct shifts shifts, struct states states, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(to, row))
        return;
    int64_t sequence = sequence_of(to, row);
    int64_t position = position_of(to, row), length = from.lengths[sequence];
    float *state = row == to.starts[sequence] ? state_of(states, sequence) : NULL;
    bool reads_state = state && position == 0 && states.items[sequence].earlier > 0;
    const T *last = x + (from.starts[sequence + 1] - 1) * columns;
    x += row_at(from, sequence, position) * columns;
    for (int64_t c = warp_thread() * N; c < columns; c += WARP * N) {
        int64_t shift = shift_of(shifts, columns, c);
        bool inside = position - shift >= 0 && position - shift < length;
        float values[N] = {};
        if (inside)
            load(values, x + c - shift * columns);
        else if (reads_state)
            load(values, state + c);
        store(y + row * columns + c, values);
        if (state && shift > 0) { /* only the first segment is shifted to a later row */
            load(values, last + c);
            store(state + c, values);
        }
    }
}

/* N is chosen so that every pack is in one segment. */
template <typename T> void cuda_shift_tokens(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    with_pack<T>(columns | columns / step->shift_tokens.count, [&](auto n) {
        launch_rows(run, shift_tokens<T, n.value>, rows_of(run, step->y), columns, elements_of<T>(run, step->x),
                    places_of(run, step->x), places_of(run, step->y), shifts_of(step), states_of(run),
                    elements_of<T>(run, step->y));
    });
}

/* Turns each pair of neighbouring features by its angle. A row of the table consists of d / 2 sines, followed by d / 2
 * cosines. */
template <typename T>
static __global__ void rotate(int64_t rows, int64_t columns, int64_t dim_head, const T *x, struct places places,
                              const float *table, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(places, row))
        return;
    const float *angles = table + whole_position_of(places, row) * dim_head;
    x += row * columns;
    y += row * columns;
    for (int64_t c = warp_thread(); c < columns; c += WARP) {
        int64_t i = c % dim_head / 2;
        float other = c % 2 ? to_float(x[c - 1]) : -to_float(x[c + 1]);
        y[c] = of_float<T>(to_float(x[c]) * angles[dim_head / 2 + i] + other * angles[i]);
    }
}

template <typename T> void cuda_rotate(struct cuda_run *run, const struct plan_step *step)
{
    launch_rows(run, rotate<T>, rows_of(run, step->x), columns_of(run, step->x),
                run->plan->weights[step->table].columns, elements_of<T>(run, step->x), places_of(run, step->x),
                float_weight_of(run, step->table), elements_of<T>(run, step->y));
}

template <typename T, int N>
static __global__ void cut_padding(int64_t rows, int64_t columns, const T *x, struct places from, struct places to,
                                   T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(to, row))
        return;
    int64_t sequence = sequence_of(to, row);
    x += (from.starts[sequence] + row - to.starts[sequence]) * columns;
    for (int64_t c = warp_thread() * N; c < columns; c += WARP * N)
        copy<N>(y + row * columns + c, x + c);
}

template <typename T> static void cut_padding_of(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, cut_padding<T, n.value>, rows_of(run, step->y), columns, elements_of<T>(run, step->x),
                    places_of(run, step->x), places_of(run, step->y), elements_of<T>(run, step->y));
    });
}

/* The value may contain floats, ids or masks. */
template <typename T> void cuda_cut_padding(struct cuda_run *run, const struct plan_step *step)
{
    if (run->plan->values[step->x].ids)
        cut_padding_of<int32_t>(run, step);
    else
        cut_padding_of<T>(run, step);
}

/* Rows that round the batch up to its shape are not copied, because x may have no room for them. */
template <typename T> static __global__ void reshape(int64_t rows, int64_t columns, const T *x, struct places to, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(to, row))
        return;
    for (int64_t c = warp_thread(); c < columns; c += WARP)
        y[row * columns + c] = x[row * columns + c];
}

template <typename T> static void reshape_of(struct cuda_run *run, const struct plan_step *step)
{
    if (elements_of<T>(run, step->x) != elements_of<T>(run, step->y))
        launch_rows(run, reshape<T>, rows_of(run, step->y), columns_of(run, step->y), elements_of<T>(run, step->x),
                    places_of(run, step->y), elements_of<T>(run, step->y));
}

/* The elements of a batch keep their order, so no work is necessary if the plan places x and y in the same memory. */
template <typename T> void cuda_reshape(struct cuda_run *run, const struct plan_step *step)
{
    if (run->plan->values[step->x].ids)
        reshape_of<int32_t>(run, step);
    else
        reshape_of<T>(run, step);
}

/* Converts the number to the type of y's elements. */
static __device__ __forceinline__ int32_t element_like(const int32_t *, int32_t number)
{
    return number;
}

template <typename T> static __device__ __forceinline__ T element_like(const T *, int32_t number)
{
    return of_float<T>((float)number);
}

/* If `x` is NULL, all its elements count as 1. */
template <typename T>
static __global__ void pad_rows(int64_t rows, int64_t columns, const T *x, struct places from, int32_t fill,
                                struct places to, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(to, row))
        return;
    int64_t sequence = sequence_of(to, row), position = row - to.starts[sequence];
    bool own = position < from.starts[sequence + 1] - from.starts[sequence];
    for (int64_t c = warp_thread(); c < columns; c += WARP)
        y[row * columns + c] =
            own && x ? x[(from.starts[sequence] + position) * columns + c] : element_like(y, own ? 1 : fill);
}

template <typename T> static void pad_rows_of(struct cuda_run *run, const struct plan_step *step)
{
    const T *x = step->pad_rows.ones ? NULL : elements_of<T>(run, step->x);
    launch_rows(run, pad_rows<T>, rows_of(run, step->y), columns_of(run, step->y), x, places_of(run, step->x),
                step->pad_rows.fill, places_of(run, step->y), elements_of<T>(run, step->y));
}

/* The value may contain floats, ids or masks. */
template <typename T> void cuda_pad_rows(struct cuda_run *run, const struct plan_step *step)
{
    if (run->plan->values[step->y].ids)
        pad_rows_of<int32_t>(run, step);
    else
        pad_rows_of<T>(run, step);
}

template <typename T, int N>
static __global__ void append_rows(int64_t rows, int64_t columns, const T *x, const T *z, const int64_t *upper,
                                   const int64_t *lower, struct places places, T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(places, row))
        return;
    int64_t sequence = sequence_of(places, row), position = row - places.starts[sequence];
    int64_t own = upper[sequence + 1] - upper[sequence];
    const T *from =
        position < own ? x + (upper[sequence] + position) * columns : z + (lower[sequence] + position - own) * columns;
    for (int64_t c = warp_thread() * N; c < columns; c += WARP * N)
        copy<N>(y + row * columns + c, from + c);
}

template <typename T> void cuda_append_rows(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, append_rows<T, n.value>, rows_of(run, step->y), columns, elements_of<T>(run, step->x),
                    elements_of<T>(run, step->z), device_starts_of(run, step->x), device_starts_of(run, step->z),
                    places_of(run, step->y), elements_of<T>(run, step->y));
    });
}

template <typename T, int N>
static __global__ void gather_rows(int64_t rows, int64_t columns, const T *x, struct places from, struct places to,
                                   T *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows || !is_there(to, row))
        return;
    int64_t sequence = sequence_of(to, row);
    x += row_at(from, sequence, position_of(to, row)) * columns;
    for (int64_t c = warp_thread() * N; c < columns; c += WARP * N)
        copy<N>(y + row * columns + c, x + c);
}

template <typename T, int N> static __global__ void copy_rows(int64_t rows, int64_t columns, const T *x, T *y)
{
    int64_t row = warp_of_grid();
    for (int64_t c = warp_thread() * N; row < rows && c < columns; c += WARP * N)
        copy<N>(y + row * columns + c, x + row * columns + c);
}

int64_t cuda_gather_rows_scratch(const struct plan *plan, const struct plan_step *step)
{
    bool in_place = plan->values[step->x].offset == plan->values[step->y].offset;
    return in_place ? plan->max_rows * plan->values[step->x].columns : 0;
}

/* If x and y are in the same memory, warps would read rows that other warps have overwritten. In this case, rows are
 * copied through scratch. */
template <typename T> static void gather_rows_of(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x), rows = rows_of(run, step->y);
    T *x = elements_of<T>(run, step->x), *y = elements_of<T>(run, step->y), *to = x == y ? (T *)scratch_of(run) : y;
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, gather_rows<T, n.value>, rows, columns, x, places_of(run, step->x), places_of(run, step->y),
                    to);
        if (to != y)
            launch_rows(run, copy_rows<T, n.value>, rows, columns, to, y);
    });
}

/* The value may contain floats, ids or masks. */
template <typename T> void cuda_gather_rows(struct cuda_run *run, const struct plan_step *step)
{
    if (run->plan->values[step->x].ids)
        gather_rows_of<int32_t>(run, step);
    else
        gather_rows_of<T>(run, step);
}

FOR_ELEMENTS(cuda_embed)
FOR_ELEMENTS(cuda_add_positions)
FOR_ELEMENTS(cuda_layer_norm)
FOR_ELEMENTS(cuda_activate)
FOR_ELEMENTS(cuda_add)
FOR_ELEMENTS(cuda_mask_rows)
FOR_ELEMENTS(cuda_add_sinusoids)
FOR_ELEMENTS(cuda_concatenate)
FOR_ELEMENTS(cuda_gate)
FOR_ELEMENTS(cuda_shift_tokens)
FOR_ELEMENTS(cuda_rotate)
FOR_ELEMENTS(cuda_reshape)
FOR_ELEMENTS(cuda_cut_padding)
FOR_ELEMENTS(cuda_pad_rows)
FOR_ELEMENTS(cuda_append_rows)
FOR_ELEMENTS(cuda_gather_rows)
