#include "engine/cuda/activate.h"
#include "engine/cuda/linear.h"
#include "engine/cuda/product_method.h"

/* Applies bias, activation and residual after a product, in place. cuBLASLt cannot compute this, because it has few
 * activations, and would add the residual before the activation. */
template <typename T, int N>
static __global__ void finish_linear(int64_t rows, int64_t columns, const T *bias, struct plan_activation activation,
                                     const T *residual, T *y)
{
    int64_t row = warp_of_grid();
    for (int64_t c = warp_thread() * N; row < rows && c < columns; c += WARP * N) {
        float values[N], others[N] = {};
        load(values, y + row * columns + c);
        if (bias)
            load(others, bias + c);
        for (int i = 0; i < N; i++)
            values[i] = activation_of(activation, values[i] + others[i]);
        if (residual)
            load(others, residual + row * columns + c);
        for (int i = 0; residual && i < N; i++)
            values[i] += others[i];
        store(y + row * columns + c, values);
    }
}

/* Chooses the method for bias and GELU of the step's product: cuBLASLt, or a kernel after the product. Both use the
 * tanh approximation. */
static void choose_gelu(struct cuda_run *run, struct cuda_product product)
{
    struct cuda_product apart = product;
    apart.finish_apart = true;
    cuda_products_multiply(run, &product);
    cuda_products_multiply(run, &apart);
    bool possible = cuda_products_has(run, &product);
    product_method_choose(run, &cuda_launch::method, possible, PRODUCT_BY_LIBRARY,
                          [&](struct cuda_run *now, enum product_method method) {
                              cuda_products_multiply(now, method == PRODUCT_BY_KERNEL ? &apart : &product);
                              return true;
                          });
}

/* cuBLASLt's GELU is the tanh approximation, with an error of up to 4.7e-4. Among the dtypes, only bfloat16 has a
 * larger rounding error. So only bfloat16 uses this approximation. */
template <typename T> void cuda_linear_rows(struct cuda_run *run, const struct linear<T> *linear)
{
    const struct plan_weight *weight = &run->plan->weights[linear->weight];
    bool gelu = run->dtype == DTYPE_BF16 && linear->activation.kind == ACTIVATION_GELU && !linear->residual;
    bool plain = linear->activation.kind == ACTIVATION_NONE || gelu;
    const T *bias = weight_of<T>(run, linear->bias);
    struct cuda_product product = {};
    product.rows = linear->rows;
    product.columns = weight->rows;
    product.depth = weight->columns;
    product.a = linear->x;
    product.a_stride = linear->x_stride;
    product.b = weight_of<T>(run, linear->weight);
    product.b_stride = weight->columns;
    product.transpose_b = true;
    product.bias = plain ? bias : NULL;
    product.add = plain ? linear->residual : NULL;
    product.gelu = gelu;
    product.out = linear->out;
    product.out_stride = weight->rows;
    if (gelu && run->choosing && product_method_of(run) == PRODUCT_UNDECIDED)
        choose_gelu(run, product);
    product.finish_apart = gelu && product_method_of(run) == PRODUCT_BY_KERNEL;
    cuda_products_multiply(run, &product);
    if (!plain)
        with_pack<T>(weight->rows, [&](auto n) {
            launch_rows(run, finish_linear<T, n.value>, linear->rows, weight->rows, bias, linear->activation,
                        linear->residual, linear->out);
        });
}

template <typename T>
static void linear_part(struct cuda_run *run, const struct plan_step *step, int64_t first, int64_t rows)
{
    int64_t depth = columns_of(run, step->x), columns = columns_of(run, step->y);
    linear<T> linear = {};
    linear.rows = rows;
    linear.x = elements_of<T>(run, step->x) + first * depth;
    linear.x_stride = depth;
    linear.weight = step->weight;
    linear.bias = step->bias;
    linear.activation = step->linear.activation;
    linear.residual = step->z == PLAN_NONE ? NULL : elements_of<T>(run, step->z) + first * columns;
    linear.out = elements_of<T>(run, step->y) + first * columns;
    cuda_linear_rows(run, &linear);
}

/* Computes one product of all rows, if the step computes all sequences or omits few rows. Otherwise computes one
 * product for each group of neighbouring selected sequences, with the rows rounded up by shape_round_rows. */
template <typename T> void cuda_linear(struct cuda_run *run, const struct plan_step *step)
{
    int number = (int)(step - run->plan->steps);
    if (run->shape->selected[number] == SELECTED_NONE)
        return;
    if (!shape_launches_apart(run->plan, run->shape, number)) {
        linear_part<T>(run, step, 0, rows_of(run, step->x));
        return;
    }
    starts_of(run, step->x); /* refuses the batch if a graph may replay it */
    const struct layout *layout = &run->batch->layouts[run->plan->values[step->x].axis];
    for (int64_t sequence = 0, behind; sequence < layout->n_sequences; sequence = behind) {
        for (behind = sequence; behind < layout->n_sequences && shape_selects(run->batch, step, behind);)
            behind++;
        int64_t first = layout->starts[sequence];
        linear_part<T>(run, step, first,
                       shape_round_rows(layout->starts[behind] - first, rows_of(run, step->x) - first));
        behind += behind == sequence; /* this sequence is not selected */
    }
}

template void cuda_linear_rows(struct cuda_run *, const struct linear<float> *);
template void cuda_linear_rows(struct cuda_run *, const struct linear<bf16> *);
template void cuda_linear_rows(struct cuda_run *, const struct linear<f16> *);
FOR_ELEMENTS(cuda_linear)
