#include "engine/cuda/activate.h"
#include "engine/cuda/feed_forward.h"
#include "engine/cuda/linear.h"

#ifndef FEED_FORWARD_ROWS
/* Number of rows whose hidden part is in scratch at a time. The hidden part is the result of the first product. With
 * elements of 16 bits, the number is twice as large. */
#define FEED_FORWARD_ROWS 4096
#endif

int64_t cuda_feed_forward_scratch(const struct plan *plan, const struct plan_step *step)
{
    return least(FEED_FORWARD_ROWS, plan->max_rows) * plan->weights[step->weight].rows;
}

/* Overwrites g[r, i] with activation(g[r, i]) * g[r, columns + i]. g is (rows, 2 * columns). */
template <typename T, int N>
static __global__ void gate_in_place(int64_t rows, int64_t columns, struct plan_activation activation, T *g)
{
    int64_t row = warp_of_grid();
    g += row * 2 * columns;
    for (int64_t c = warp_thread() * N; row < rows && c < columns; c += WARP * N) {
        float values[N], gates[N];
        load(values, g + c);
        load(gates, g + columns + c);
        for (int i = 0; i < N; i++)
            values[i] = activation_of(activation, values[i]) * gates[i];
        store(g + c, values);
    }
}

/* Computes the second product for rows [first, first + linear.rows). Their hidden part is in scratch. */
template <typename T>
static void feed_second(struct cuda_run *run, const struct plan_step *step, int64_t first, struct linear<T> linear)
{
    int64_t columns = columns_of(run, step->y);
    linear.x = (T *)scratch_of(run);
    linear.x_stride = run->plan->weights[step->weight].rows;
    linear.weight = step->second_weight;
    linear.bias = step->second_bias;
    linear.activation.kind = ACTIVATION_NONE;
    linear.residual = step->z == PLAN_NONE ? NULL : elements_of<T>(run, step->z) + first * columns;
    linear.out = elements_of<T>(run, step->y) + first * columns;
    cuda_linear_rows(run, &linear);
}

/* Computes the rows in blocks, so that the hidden part fits in scratch. */
template <typename T> void cuda_feed_forward(struct cuda_run *run, const struct plan_step *step)
{
    int64_t rows = rows_of(run, step->x), depth = columns_of(run, step->x);
    int64_t hidden = run->plan->weights[step->second_weight].columns;
    int64_t at_once = least(FEED_FORWARD_ROWS * (int64_t)(sizeof(float) / sizeof(T)), run->plan->max_rows);
    for (int64_t first = 0; first < rows; first += at_once) {
        struct linear<T> linear = {
        };
        linear.rows = least(at_once, rows - first);
        linear.x = elements_of<T>(run, step->x) + first * depth;
        linear.x_stride = depth;
        linear.weight = step->weight;
        linear.bias = step->bias;
        if (!step->feed_forward.gated)
            linear.activation = step->feed_forward.activation;
        linear.out = (T *)scratch_of(run);
        cuda_linear_rows(run, &linear);
        if (step->feed_forward.gated)
            with_pack<T>(hidden, [&](auto n) {
                launch_rows(run, gate_in_place<T, n.value>, linear.rows, hidden, step->feed_forward.activation,
                            (T *)scratch_of(run));
            });
        feed_second(run, step, first, linear);
    }
}

FOR_ELEMENTS(cuda_feed_forward)
