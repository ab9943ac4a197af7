/* Projections of full sequences (shape_full_rows), by products of cuBLASLt.
 *
 * A product computes y (k, columns) = Eᵀ (k, n) x (n, columns) of many neighbouring sequences. They share E. Their x
 * and y are a fixed distance apart. Only sequences of n rows are computed in this way, even if all sequences of a batch
 * have another common length. So the length of a sequence decides in which order its sums are added. The batch matters
 * only if it suits grouped products (shape_groups).
 *
 * The products of E and of F with the same x are two steps of the plan. They need two launches, unless all distances
 * allow one launch with both products (multiply_repeated). */
#include "engine/cuda/products.h"
#include "engine/cuda/projection.h"

/* Products that differ only in the places of their matrices: `count` products with these distances between their
 * matrices, in elements. */
struct repetition {
    int64_t count, e, x, y;
};

/* Computes the products of all combinations of the three repetitions. Each launch computes all products of the longest
 * repetition whose distances are not negative, and loops go over the other two. While algorithms are chosen, the
 * function returns whether cuBLASLt has an algorithm for each launch. */
template <typename T>
static bool multiply_repeated(struct cuda_run *run, struct cuda_product product, const struct repetition repeated[3])
{
    int most = 0;
    for (int i = 1; i < 3; i++)
        if (repeated[i].count > repeated[most].count && repeated[i].e >= 0 && repeated[i].y >= 0)
            most = i;
    const struct repetition *launched = &repeated[most], *outer = &repeated[(most + 1) % 3],
                            *inner = &repeated[(most + 2) % 3];
    const T *e = (const T *)product.a, *x = (const T *)product.b;
    T *y = (T *)product.out;
    bool possible = true;
    product.count = launched->count;
    if (launched->count > 1) {
        product.a_distance = launched->e;
        product.b_distance = launched->x;
        product.out_distance = launched->y;
    }
    for (int64_t i = 0; i < outer->count; i++)
        for (int64_t j = 0; j < inner->count; j++) {
            product.a = e + i * outer->e + j * inner->e;
            product.b = x + i * outer->x + j * inner->x;
            product.out = y + i * outer->y + j * inner->y;
            cuda_products_multiply(run, &product);
            possible = possible && (!run->choosing || cuda_products_has(run, &product));
        }
    return possible;
}

/* Number of elements from `a` to `b`, which may be in different allocations. */
template <typename T> static int64_t distance(const T *a, const T *b)
{
    return ((int64_t)(uintptr_t)b - (int64_t)(uintptr_t)a) / (int64_t)sizeof(T);
}

/* Describes the product of the first group and projection, for the first of several sequences of n rows. The sequence's
 * x begins at `row`. */
template <typename T>
static struct cuda_product product_of(const struct projection<T> *p, int64_t n, int64_t sequence, int64_t row)
{
    struct cuda_product product = sizes_of_product(p);
    product.depth = n;
    product.a = p->own.weight;
    product.b = p->x + row * p->columns;
    product.out = p->own.y + sequence * p->k * p->y_columns;
    return product;
}

template <typename T>
bool multiply_full(struct cuda_run *run, const struct projection<T> *p, int64_t n, int64_t sequence, int64_t row,
                   int64_t count)
{
    struct projection<T> ascending = *p; /* E and F in the order of their addresses, so that distances are positive */
    if (p->count > 1 && p->second.weight < p->own.weight) {
        ascending.own = p->second;
        ascending.second = p->own;
    }
    const struct repetition repeated[3] = {
        {count, 0, n * p->columns, p->k * p->y_columns},
        {p->columns / p->group_columns, p->of_group, p->group_columns, p->group_columns},
        {p->count, p->count > 1 ? distance(ascending.own.weight, ascending.second.weight) : 0, 0,
         p->count > 1 ? distance(ascending.own.y, ascending.second.y) : 0},
    };
    return multiply_repeated<T>(run, product_of(&ascending, n, sequence, row), repeated);
}

static int64_t power_below(int64_t count)
{
    int64_t power = 1;
    while (power <= count / 2)
        power *= 2;
    return power;
}

template <typename T>
void multiply_some(struct cuda_run *run, const struct plan_step *step, const struct projection<T> *p, int64_t n)
{
    const struct layout *layout = &run->batch->layouts[run->plan->values[step->x].axis];
    const int64_t *starts = layout->starts;
    starts_of(run, step->x); /* refuses the batch if a graph may replay it */
    for (int64_t sequence = 0, count; sequence < layout->n_sequences; sequence += count + (count == 0)) {
        for (count = 0; sequence + count < layout->n_sequences &&
                        starts[sequence + count + 1] - starts[sequence + count] == n &&
                        shape_selects(run->batch, step, sequence + count);)
            count++;
        for (int64_t done = 0, launched; done < count; done += launched) {
            launched = power_below(count - done);
            multiply_full(run, p, n, sequence + done, starts[sequence + done], launched);
        }
    }
}

#define FOR_FULL(T)                                                                                            \
    template bool multiply_full<T>(struct cuda_run *, const struct projection<T> *, int64_t, int64_t, int64_t, \
                                   int64_t);                                                                   \
    template void multiply_some<T>(struct cuda_run *, const struct plan_step *, const struct projection<T> *, int64_t);
FOR_FULL(float)
FOR_FULL(bf16)
FOR_FULL(f16)
