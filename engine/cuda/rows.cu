/* A block takes a row, its threads walk over the columns; layer_norm has a warp for each row. */
#include "engine/cuda/rows.h"

#define ROWS_A_BLOCK 4 /* of layer_norm */

static __global__ void embed(const int32_t *ids, const float *table, int64_t columns, float *y)
{
    int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] = table[ids[row] * columns + c];
}

void cuda_embed(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->y);
    launch(run, embed, rows_of(run, step->x), 1, threads_for(columns), ids_of(run, step->x),
           weight_of(run, step->weight), columns, floats_of(run, step->y));
}

/* The library sums the two tables before it adds them to x. */
static __global__ void add_positions(const float *x, struct places places, const float *major, const float *minor,
                                     int64_t period, int64_t columns, float *y)
{
    int64_t row = blockIdx.x, position = position_of(places, row);
    major += position / period * columns;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] =
            x[row * columns + c] + (minor ? major[c] + minor[position % period * columns + c] : major[c]);
}

void cuda_add_positions(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    launch(run, add_positions, rows_of(run, step->x), 1, threads_for(columns), floats_of(run, step->x),
           places_of(run, step->x), weight_of(run, step->weight), weight_of(run, step->bias), step->period, columns,
           floats_of(run, step->y));
}

/* The variance about the mean in a pass of its own: the difference of sums of squares would lose digits. */
static __global__ void layer_norm(int64_t rows, int64_t columns, const float *x, const float *gain, const float *bias,
                                  float epsilon, float *y)
{
    int64_t row = warp_of_grid();
    if (row >= rows)
        return;
    float sum = 0, squares = 0;
    x += row * columns;
    y += row * columns;
    for (int64_t c = lane(); c < columns; c += WARP)
        sum += x[c];
    float mean = warp_sum(sum) / (float)columns;
    for (int64_t c = lane(); c < columns; c += WARP)
        squares += (x[c] - mean) * (x[c] - mean);
    float factor = 1.0f / sqrtf(warp_sum(squares) / (float)columns + epsilon);
    for (int64_t c = lane(); c < columns; c += WARP)
        y[c] = (x[c] - mean) * factor * gain[c] + bias[c];
}

void cuda_layer_norm(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = run->plan->weights[step->weight].columns; /* a group counts as a row */
    int64_t rows = rows_of(run, step->x) * (columns_of(run, step->x) / columns);
    launch(run, layer_norm, parts_of(rows, ROWS_A_BLOCK), 1, ROWS_A_BLOCK * WARP, rows, columns,
           floats_of(run, step->x), weight_of(run, step->weight), weight_of(run, step->bias), step->epsilon,
           floats_of(run, step->y));
}

static __global__ void activate(int64_t columns, const float *x, enum activation activation, float *y)
{
    int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] = activation_of(activation, x[row * columns + c]);
}

void cuda_activate(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    launch(run, activate, rows_of(run, step->x), 1, threads_for(columns), columns, floats_of(run, step->x),
           step->activation, floats_of(run, step->y));
}

static __global__ void add(int64_t columns, const float *x, const float *z, float scale, float *y)
{
    int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] = scale * (x[row * columns + c] + z[row * columns + c]);
}

void cuda_add(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    launch(run, add, rows_of(run, step->x), 1, threads_for(columns), columns, floats_of(run, step->x),
           floats_of(run, step->z), step->scale, floats_of(run, step->y));
}

/* x and y may be one. */
static __global__ void mask_rows(int64_t columns, const float *x, const int32_t *mask, float *y)
{
    int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] = mask[row] ? x[row * columns + c] : 0;
}

void cuda_mask_rows(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    launch(run, mask_rows, rows_of(run, step->x), 1, threads_for(columns), columns, floats_of(run, step->x),
           ids_of(run, step->z), floats_of(run, step->y));
}

/* Angles are products in float, as the library has them. */
static __global__ void add_sinusoids(int64_t columns, const float *x, struct places places, const float *frequencies,
                                     float *y)
{
    int64_t row = blockIdx.x, half = columns / 2;
    float position = (float)position_of(places, row);
    for (int64_t c = threadIdx.x; c < 2 * half; c += blockDim.x) {
        float angle = position * frequencies[c % half];
        y[row * columns + c] = (c < half ? sinf(angle) : cosf(angle)) + x[row * columns + c];
    }
}

void cuda_add_sinusoids(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    launch(run, add_sinusoids, rows_of(run, step->x), 1, threads_for(columns), columns, floats_of(run, step->x),
           places_of(run, step->x), weight_of(run, step->weight), floats_of(run, step->y));
}

static __global__ void concatenate(int64_t left, int64_t right, const float *x, const float *z, float *y)
{
    int64_t row = blockIdx.x, columns = left + right;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] = c < left ? x[row * left + c] : z[row * right + c - left];
}

void cuda_concatenate(struct cuda_run *run, const struct plan_step *step)
{
    int64_t left = columns_of(run, step->x), right = columns_of(run, step->z);
    launch(run, concatenate, rows_of(run, step->x), 1, threads_for(left + right), left, right, floats_of(run, step->x),
           floats_of(run, step->z), floats_of(run, step->y));
}

static __global__ void gate(int64_t columns, const float *x, enum activation activation, float *y)
{
    int64_t row = blockIdx.x;
    x += row * 2 * columns;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] = activation_of(activation, x[c]) * x[columns + c];
}

void cuda_gate(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->y);
    launch(run, gate, rows_of(run, step->x), 1, threads_for(columns), columns, floats_of(run, step->x),
           step->activation, floats_of(run, step->y));
}

struct shifts {
    int64_t count, by[3];
};

/* x has a row's neighbours beside it; y may have fewer rows. */
static __global__ void shift_tokens(int64_t columns, const float *x, struct places from, struct places to,
                                    struct shifts shifts, float *y)
{
    int64_t row = blockIdx.x, item = item_of(to, row), segment_columns = columns / shifts.count;
    int64_t position = position_of(to, row), length = from.lengths[item];
    x += row_at(from, item, position) * columns;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
        int64_t segment = segment_columns > 0 ? c / segment_columns : shifts.count;
        int64_t shift = segment < shifts.count ? shifts.by[segment] : 0; /* what is left over stays */
        bool inside = position - shift >= 0 && position - shift < length;
        y[row * columns + c] = inside ? x[c - shift * columns] : 0;
    }
}

void cuda_shift_tokens(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    struct shifts shifts = {step->n_shifts, {step->shifts[0], step->shifts[1], step->shifts[2]}};
    launch(run, shift_tokens, rows_of(run, step->y), 1, threads_for(columns), columns, floats_of(run, step->x),
           places_of(run, step->x), places_of(run, step->y), shifts, floats_of(run, step->y));
}

/* Pairs of neighbouring features, turned by the position's angles: sines, then cosines. */
static __global__ void rotate(int64_t columns, int64_t dim_head, const float *x, struct places places,
                              const float *table, float *y)
{
    int64_t row = blockIdx.x;
    const float *angles = table + position_of(places, row) * dim_head;
    x += row * columns;
    y += row * columns;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
        int64_t i = c % dim_head / 2;
        float other = c % 2 ? x[c - 1] : -x[c + 1];
        y[c] = x[c] * angles[dim_head / 2 + i] + other * angles[i];
    }
}

void cuda_rotate(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    launch(run, rotate, rows_of(run, step->x), 1, threads_for(columns), columns,
           run->plan->weights[step->weight].columns, floats_of(run, step->x), places_of(run, step->x),
           weight_of(run, step->weight), floats_of(run, step->y));
}

/* Four bytes an element, ids (masks) too. */
static __global__ void cut_padding(int64_t columns, const int32_t *x, const int64_t *from, const int64_t *to,
                                   int64_t n_items, int32_t *y)
{
    int64_t row = blockIdx.x, item = item_of(to, n_items, row);
    x += (from[item] + row - to[item]) * columns;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] = x[c];
}

void cuda_cut_padding(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    launch(run, cut_padding, rows_of(run, step->y), 1, threads_for(columns), columns, ids_of(run, step->x),
           device_starts_of(run, step->x), device_starts_of(run, step->y), run->batch->n_items, ids_of(run, step->y));
}

static __global__ void append_rows(int64_t columns, const float *x, const float *z, const int64_t *upper,
                                   const int64_t *lower, struct places places, float *y)
{
    int64_t row = blockIdx.x, item = item_of(places, row), position = row - places.starts[item];
    int64_t own = upper[item + 1] - upper[item];
    const float *from =
        position < own ? x + (upper[item] + position) * columns : z + (lower[item] + position - own) * columns;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] = from[c];
}

void cuda_append_rows(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    launch(run, append_rows, rows_of(run, step->y), 1, threads_for(columns), columns, floats_of(run, step->x),
           floats_of(run, step->z), device_starts_of(run, step->x), device_starts_of(run, step->z),
           places_of(run, step->y), floats_of(run, step->y));
}

static __global__ void gather_rows(int64_t columns, const float *x, struct places from, struct places to, float *y)
{
    int64_t row = blockIdx.x, item = item_of(to, row);
    x += row_at(from, item, position_of(to, row)) * columns;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] = x[c];
}

static __global__ void copy_rows(int64_t columns, const float *x, float *y)
{
    int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[row * columns + c] = x[row * columns + c];
}

int64_t cuda_gather_rows_scratch(const struct plan *plan, const struct plan_step *step)
{
    bool in_place = plan->values[step->x].offset == plan->values[step->y].offset;
    return in_place ? plan->max_rows * plan->values[step->x].columns : 0;
}

/* Where x and y are one place, blocks would read what others wrote: by way of scratch. */
void cuda_gather_rows(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x), rows = rows_of(run, step->y);
    bool in_place = floats_of(run, step->x) == floats_of(run, step->y);
    launch(run, gather_rows, rows, 1, threads_for(columns), columns, floats_of(run, step->x), places_of(run, step->x),
           places_of(run, step->y), in_place ? run->scratch : floats_of(run, step->y));
    if (in_place)
        launch(run, copy_rows, rows, 1, threads_for(columns), columns, run->scratch, floats_of(run, step->y));
}
