/* Projections of sequences of several lengths, in one launch of cuBLAS (grouped_product.h). The products of a sequence
 * form a group of this launch. They are one product for each group of columns, first of the first projection, and then
 * of the second. */
#include "engine/cuda/grouped_product.h"
#include "engine/cuda/products.h"
#include "engine/cuda/projection.h"

#define MATRICES 3 /* number of matrices of a product: E, x and y */

template <typename T> static int products_of(const struct projection<T> *p)
{
    return (int)(p->columns / p->group_columns) * p->count;
}

/* Whether grouped products compute the sequence. */
template <typename T> static __device__ bool is_grouped(const struct projection<T> *p, int64_t sequence)
{
    return is_selected(p, sequence) && !is_multiplied(p, p->starts[sequence + 1] - p->starts[sequence]);
}

/* Writes the addresses of each product's matrices. The grid's x is the sequence. The products of the computed sequences
 * follow one another, without gaps for other sequences. */
template <typename T>
static __global__ void address_matrices(struct projection<T> p, const void **e, const void **x, void **y)
{
    int groups = (int)(p.columns / p.group_columns), products = groups * p.count;
    int64_t sequence = blockIdx.x, earlier = 0; /* number of computed sequences before this sequence */
    if (!is_grouped(&p, sequence))
        return;
    for (int64_t i = 0; i < sequence; i++)
        earlier += is_grouped(&p, i);
    for (int i = (int)threadIdx.x; i < products; i += (int)blockDim.x) {
        int64_t group = i % groups, product = earlier * products + i;
        const struct projected<T> *own = i < groups ? &p.own : &p.second;
        e[product] = own->weight + group * p.of_group;
        x[product] = p.x + p.starts[sequence] * p.columns + group * p.group_columns;
        y[product] = own->y + sequence * p.k * p.y_columns + group * p.group_columns;
    }
}

int64_t grouped_projection_scratch(int64_t sequences, int64_t groups, int64_t count)
{
    return MATRICES * sequences * groups * count * (int64_t)(sizeof(void *) / sizeof(float));
}

template <typename T> bool grouped_projection_possible(struct cuda_run *run, const struct projection<T> *p, int64_t n)
{
    struct cuda_product common = sizes_of_product(p);
    bool packed = (p->group_columns | p->of_group) % PACK<T> == 0;
    return packed && cuda_grouped_possible(cuda_products_grouped(run->products), run, &common, n);
}

template <typename T>
bool project_by_groups(struct cuda_run *run, const struct projection<T> *p, const int *depths, int n_groups,
                       int64_t n_sequences)
{
    int products = products_of(p);
    void **matrices = (void **)scratch_of(run);
    struct grouped_product product = {};
    product.common = sizes_of_product(p);
    product.n_groups = n_groups;
    product.depths = depths;
    product.group_size = products;
    product.a = (const void **)matrices;
    product.b = product.a + (int64_t)n_groups * products;
    product.out = matrices + 2 * (int64_t)n_groups * products;
    launch(run, address_matrices<T>, n_sequences, 1, threads_for_columns(products), *p, product.a, product.b,
           product.out);
    return cuda_grouped_multiply(cuda_products_grouped(run->products), run, &product);
}

#define FOR_GROUPED(T)                                                                                      \
    template bool grouped_projection_possible<T>(struct cuda_run *, const struct projection<T> *, int64_t); \
    template bool project_by_groups<T>(struct cuda_run *, const struct projection<T> *, const int *, int, int64_t);
FOR_GROUPED(float)
FOR_GROUPED(bf16)
FOR_GROUPED(f16)
