/* project: y (k, columns) = Eᵀ x + e for all sequences of the batch at once. E (n, k) has a row for each position. A
 * sequence with fewer than n rows uses only the first rows of E.
 *
 * There are two methods (product_method.h). Sequences with all n rows may be products of cuBLASLt. In large batches,
 * sequences of several lengths may be grouped products of cuBLAS (project_grouped.cu). Kernels of the engine compute
 * all other sequences.
 *
 * A block of these kernels multiplies one part of the rows of a sequence. This file contains the kernel for floats
 * without tensor cores. project_split.cu contains the kernel for floats on tensor cores, and project_tensor.cu the
 * kernel for elements of 16 bits. Afterwards, finish_projection adds up the parts. */
#include "engine/cuda/product_method.h"
#include "engine/cuda/products.h"
#include "engine/cuda/project.h"
#include "engine/cuda/projection.h"

#define TILE 64  /* number of rows, and of columns, of y that a block computes */
#define DEPTH 16 /* number of rows of x and E in shared memory at a time */
#define EACH 4   /* number of rows, and of columns, of the tile that a thread computes */
/* The number of rows of x in a part. It is small, so that one sequence with thousands of rows keeps a large device
 * busy. With elements of 16 bits, the number is twice as large, because tensor cores sum up rows faster than parts can
 * be written. If y has at most FEW_SUMS elements, the number is a quarter, because there would be few blocks otherwise.
 * The number depends on nothing else. So the sums of a sequence are added in the same order in every batch. */
#ifndef PART_ROWS
#define PART_ROWS 512
#endif
#ifndef FEW_SUMS
#define FEW_SUMS (256 * 64) /* maximum number of elements of a small y */
#endif
#define THREADS (TILE / EACH * (TILE / EACH))

/* A block's shared memory. If E is transposed, a warp stores columns of e. Four unused elements at the end of each row
 * put the elements of a column into different memory banks. */
struct projection_tiles {
    float e[DEPTH][TILE + 4], x[DEPTH][TILE];
};

/* Loads tiles of rows [row, row + DEPTH) of the part. The tile of x begins with column `column`, the tile of E with
 * column `j`. Elements outside of x and E become 0. */
template <typename T>
static __device__ void load_tiles(const struct projection<T> *p, const struct sequence_part *part, int64_t row,
                                  int64_t j, int64_t group, int64_t column, struct projection_tiles *tiles)
{
    int64_t position = part->number * p->part_rows + row;
    const T *e = p->own.weight + group * p->of_group;
    for (int i = (int)threadIdx.x; i < DEPTH * TILE; i += THREADS) {
        int r = p->across == 1 ? i % DEPTH : i / TILE,
            c = p->across == 1 ? i / DEPTH : i % TILE; /* neighbouring threads read neighbouring elements of E */
        bool inside = row + r < part->rows && j + c < p->k;
        tiles->e[r][c] = inside ? to_float(e[(position + r) * p->across + (j + c) * p->along]) : 0;
    }
    for (int i = (int)threadIdx.x; i < DEPTH * TILE; i += THREADS) {
        int r = i / TILE, c = i % TILE;
        bool inside = row + r < part->rows && column + c < p->group_columns;
        tiles->x[r][c] =
            inside ? to_float(p->x[(part->first + row + r) * p->columns + group * p->group_columns + column + c]) : 0;
    }
}

/* Grid: x is the part. y selects rows of y (take_tile). z selects the group and its columns. */
template <typename T> static __global__ void __launch_bounds__(THREADS) project(struct projection<T> p)
{
    struct projection_tiles *tiles = (struct projection_tiles *)dynamic_shared_memory;
    struct sequence_part part = find_part(&p, blockIdx.x);
    if (part.count == 0)
        return;
    int64_t tiles_a_group = (p.group_columns + TILE - 1) / TILE, group = blockIdx.z / tiles_a_group;
    int64_t column = blockIdx.z % tiles_a_group * TILE, j = take_tile(&p, blockIdx.y, TILE);
    int own_row = (int)threadIdx.x / (TILE / EACH) * EACH, own_column = (int)threadIdx.x % (TILE / EACH) * EACH;
    float sums[EACH][EACH] = {};
    for (int64_t row = 0; row < part.rows; row += DEPTH) {
        load_tiles(&p, &part, row, j, group, column, tiles);
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            float e[EACH], x[EACH];
            load(e, &tiles->e[d][own_row]);
            load(x, &tiles->x[d][own_column]);
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int c = 0; c < EACH; c++)
                    sums[r][c] += e[r] * x[c];
        }
        __syncthreads(); /* the next tiles overwrite these tiles */
    }
    for (int r = 0; r < EACH; r++)
        for (int c = 0; c < EACH; c++)
            if (j + own_row + r < p.k && column + own_column + c < p.group_columns)
                write_sum(&p, &part, j + own_row + r, group * p.group_columns + column + own_column + c, sums[r][c]);
}

/* Adds up the parts, adds biases, and writes the columns of y that follow the columns of x. Grid: x is the sequence and
 * the row j of its y, y is the projection. */
template <typename T> static __global__ void finish_projection(struct projection<T> p)
{
    int64_t j = blockIdx.x % p.k, sequence = blockIdx.x / p.k;
    bool multiplied = is_multiplied(&p, p.starts[sequence + 1] - p.starts[sequence]);
    p.multiplied = 0; /* part_of then also finds sequences that cuBLAS has computed */
    struct sequence_part part = part_of(&p, sequence, 0);
    if (part.count == 0)
        return;
    if (blockIdx.y > 0)
        p.own = p.second;
    T *y = p.own.y + (sequence * p.k + j) * p.y_columns, *further = y + p.columns;
    const float *parts = p.own.parts + (first_place(&p, sequence) * p.k + j) * p.columns;
    for (int64_t c = threadIdx.x; !multiplied && part.count > 1 && c < p.columns; c += blockDim.x) {
        float whole = bias_of(&p, j, c);
        for (int64_t i = 0; i < part.count; i++)
            whole += parts[i * p.k * p.columns + c];
        y[c] = of_float<T>(whole);
    }
    for (int64_t c = threadIdx.x; multiplied && p.adds_bias && c < p.columns; c += blockDim.x)
        y[c] = of_float<T>(to_float(y[c]) + bias_of(&p, j, c));
    if (threadIdx.x >= WARP)
        return;
    float sum = 0;
    for (int64_t r = warp_thread(); p.sums_column && r < p.starts[sequence + 1] - p.starts[sequence]; r += WARP)
        sum += to_float(p.own.weight[r * p.across + j * p.along]);
    sum = warp_sum(sum);
    if (threadIdx.x == 0 && p.sums_column)
        *further++ = of_float<T>(sum);
    if (threadIdx.x == 0 && p.bias_column)
        *further = of_float<T>(p.own.bias[j]);
}

template <typename T> static int64_t part_rows_of(int64_t k, int64_t columns)
{
    int64_t rows = (int64_t)(sizeof(float) / sizeof(T)) * PART_ROWS;
    return k * columns > FEW_SUMS ? rows : rows / 4;
}

/* The number of floats for the parts of one projection. It suffices for every batch (first_place). */
template <typename T> static int64_t places_for(const struct plan *plan, const struct plan_step *step)
{
    int64_t k = plan_constant_rows(plan, plan->values[step->y].axis);
    int64_t columns = plan->values[step->x].columns;
    return 2 * plan->max_rows / part_rows_of<T>(k, columns) * k * columns;
}

template <typename T> int64_t cuda_project_sequence_scratch(const struct plan *plan, const struct plan_step *step)
{
    int64_t count = cuda_projects_pair(plan, step) ? 2 : 1, parts = count * places_for<T>(plan, step);
    if (!shape_could_group(plan, step))
        return parts;
    int64_t sequences = plan_most_sequences(plan, plan->values[step->x].axis, plan->max_items);
    return most(parts, grouped_projection_scratch(sequences, step->project_sequence.groups, count));
}

/* Checking the shapes of the weights suffices. They determine k, and the columns of x determine the columns of y. */
bool cuda_projects_pair(const struct plan *plan, const struct plan_step *step)
{
    const struct plan_step *other = step + 1;
    if (other >= plan->steps + plan->n_steps || other->operation != OP_PROJECT_SEQUENCE)
        return false;
    const struct plan_weight *e = &plan->weights[step->weight], *f = &plan->weights[other->weight];
    const struct plan_value *y = &plan->values[step->y], *z = &plan->values[other->y];
    bool apart = y->offset + y->bytes <= z->offset || z->offset + z->bytes <= y->offset;
    return apart && other->x == step->x && other->only.axis == step->only.axis &&
           other->only.least == step->only.least && other->only.most == step->only.most && f->rows == e->rows &&
           f->columns == e->columns && other->project_sequence.groups == step->project_sequence.groups &&
           other->project_sequence.transposed == step->project_sequence.transposed &&
           other->project_sequence.sums_column == step->project_sequence.sums_column &&
           other->project_sequence.bias_column == step->project_sequence.bias_column &&
           (other->bias == PLAN_NONE) == (step->bias == PLAN_NONE);
}

template <typename T> static projected<T> projected_of(struct cuda_run *run, const struct plan_step *step)
{
    projected<T> own = {};
    own.weight = weight_of<T>(run, step->weight);
    own.bias = float_weight_of(run, step->bias);
    own.parts = scratch_of(run);
    own.y = elements_of<T>(run, step->y);
    return own;
}

template <typename T> static projection<T> projection_of(struct cuda_run *run, const struct plan_step *step)
{
    const struct plan_weight *weight = &run->plan->weights[step->weight];
    projection<T> p = {};
    p.own = projected_of<T>(run, step);
    p.count = run->launches[step - run->plan->steps].steps;
    if (p.count > 1) {
        p.second = projected_of<T>(run, step + 1);
        p.second.parts += places_for<T>(run->plan, step);
    }
    p.x = elements_of<T>(run, step->x);
    if (!run->choosing) { /* while algorithms are chosen, there is no batch, and no tables */
        p.starts = device_starts_of(run, step->x);
        p.to = device_starts_of(run, step->y);
        p.selecting = step->only.axis == PLAN_NONE ? NULL : run->axes[step->only.axis].starts;
    }
    p.least = step->only.least;
    p.most = step->only.most;
    p.n_sequences = sequences_of(run, step->x);
    p.across = step->project_sequence.transposed ? 1 : weight->columns;
    p.along = step->project_sequence.transposed ? weight->columns : 1;
    p.of_group = weight->rows / step->project_sequence.groups * weight->columns;
    p.columns = columns_of(run, step->x);
    p.group_columns = p.columns / step->project_sequence.groups;
    p.y_columns = columns_of(run, step->y);
    p.k = plan_constant_rows(run->plan, run->plan->values[step->y].axis);
    p.sums_column = step->project_sequence.sums_column;
    p.bias_column = step->project_sequence.bias_column;
    p.adds_bias = p.own.bias && !p.bias_column;
    p.part_rows = part_rows_of<T>(p.k, p.columns);
    return p;
}

/* Computes with the engine's own kernel the sequences that no product of cuBLAS computes. */
template <typename T>
static void project_by_kernel(struct cuda_run *run, const struct plan_step *step, const struct projection<T> *p)
{
    int64_t parts = parts_at_most(rows_of(run, step->x), p->n_sequences, p->part_rows);
    if constexpr (sizeof(T) == 2) {
        project_on_tensor_cores(run, step, p);
    } else if (run->split) {
        project_split(run, step, p);
    } else {
        dim3 others((unsigned)(p->count * parts_of(p->k, TILE)),
                    (unsigned)(step->project_sequence.groups * parts_of(p->group_columns, TILE)));
        launch_shared(run, project<T>, parts, others, THREADS, sizeof(struct projection_tiles), *p);
    }
}

template <typename T> static void finish(struct cuda_run *run, const struct projection<T> *p, bool several_parts)
{
    if (several_parts || p->sums_column || p->bias_column || (p->multiplied > 0 && p->adds_bias))
        launch(run, finish_projection<T>, p->n_sequences * p->k, (unsigned)p->count, threads_for_columns(p->columns),
               *p);
}

/* ---- Choosing a method ---- */

/* Sequences for timing the methods without a batch. The first sequence has n rows. Each other sequence is `shorter`
 * rows shorter than the sequence before it. If `shorter` is 0, all sequences are full. */
struct example {
    int64_t count, n, shorter;
};

/* The first row of a sequence of the example. */
static __device__ int64_t example_start(struct example example, int64_t sequence)
{
    return sequence * example.n - sequence * (sequence - 1) / 2 * example.shorter;
}

/* Writes the tables of the example in device memory: (count + 1) first rows in x, followed by (count + 1) first rows in
 * y. */
static __global__ void lay_out_example(struct example example, int64_t k, int64_t *tables)
{
    for (int64_t i = threadIdx.x; i <= example.count; i += blockDim.x) {
        tables[i] = example_start(example, i);
        tables[example.count + 1 + i] = i * k;
    }
}

/* Fills the tables. Sets the members of p that describe sequences. The kernel that fills the tables is launched
 * although run->choosing is set. */
template <typename T>
static void lay_out_now(struct cuda_run *run, struct example example, int64_t *tables, struct projection<T> *p)
{
    struct cuda_run now = *run;
    now.choosing = false;
    p->starts = tables;
    p->to = tables + example.count + 1;
    p->n_sequences = example.count;
    pthread_mutex_lock(run->submitting);
    launch(&now, lay_out_example, 1, 1, WARP, example, p->k, tables);
    pthread_mutex_unlock(run->submitting);
    note(run, now.status);
}

template <typename T>
static void choose_for_full_sequences(struct cuda_run *run, const struct plan_step *step, struct projection<T> p,
                                      struct example example, bool possible, int64_t *tables)
{
    lay_out_now(run, example, tables, &p);
    product_method_choose(run, &cuda_launch::method, possible, PRODUCT_BY_LIBRARY,
                          [&](struct cuda_run *now, enum product_method method) {
                              p.multiplied = method == PRODUCT_BY_LIBRARY ? example.n : 0;
                              if (method == PRODUCT_BY_LIBRARY)
                                  multiply_full(now, &p, example.n, 0, 0, example.count);
                              else
                                  project_by_kernel(now, step, &p);
                              finish(now, &p, method == PRODUCT_BY_KERNEL && example.n > p.part_rows);
                              return true;
                          });
}

/* Chooses the method for sequences of several lengths. The kernel is the usual method, because a graph can replay
 * it. */
template <typename T>
static void choose_by_length(struct cuda_run *run, const struct plan_step *step, struct projection<T> p,
                             struct example example, int64_t *tables)
{
    int *depths = (int *)calloc((size_t)example.count, sizeof *depths);
    bool possible = depths && example.count > 1 && shape_could_group(run->plan, step) &&
                    grouped_projection_possible(run, &p, example.n);
    for (int64_t i = 0; depths && i < example.count; i++)
        depths[i] = (int)(example.n - i * example.shorter);
    lay_out_now(run, example, tables, &p);
    product_method_choose(run, &cuda_launch::method_by_length, possible, PRODUCT_BY_KERNEL,
                          [&](struct cuda_run *now, enum product_method method) {
                              bool grouped = method == PRODUCT_BY_LIBRARY;
                              p.multiplied = 0;
                              bool supported =
                                  !grouped || project_by_groups(now, &p, depths, (int)example.count, example.count);
                              if (!grouped)
                                  project_by_kernel(now, step, &p);
                              p.multiplied = grouped ? EVERY_LENGTH : 0;
                              finish(now, &p, !grouped && example.n > p.part_rows);
                              return supported;
                          });
    free(depths);
}

/* Chooses algorithms for the products of the shape, and methods that are PRODUCT_UNDECIDED. */
template <typename T>
static void choose_projection(struct cuda_run *run, const struct plan_step *step, struct projection<T> p, int64_t n)
{
    struct cuda_launch *launch = &run->launches[step - run->plan->steps];
    struct example full = {shape_full_count(run->plan, run->shape, (int)(step - run->plan->steps)), n, 0};
    struct error error;
    int64_t *tables;
    if (run->split) /* cuBLAS is less exact on tensor cores, and slower without them */
        launch->method = launch->method_by_length = PRODUCT_BY_KERNEL;
    bool possible = launch->method != PRODUCT_BY_KERNEL && multiply_full(run, &p, n, 0, 0, full.count);
    if (launch->method != PRODUCT_UNDECIDED && launch->method_by_length != PRODUCT_UNDECIDED)
        return;
    if (cuda_take_memory((void **)&tables, (size_t)(2 * (full.count + 1)) * sizeof *tables, "tables", &error) != 0)
        return; /* the methods stay PRODUCT_UNDECIDED, so the kernel computes the step */
    choose_for_full_sequences(run, step, p, full, possible, tables);
    choose_by_length(run, step, p, (struct example){full.count, n, n / (2 * full.count)}, tables);
    cudaFree(tables);
}

/* ---- Running ---- */

/* The number of rows of the sequences that cuBLASLt computes in this batch. 0 if it computes no sequence. */
static int64_t multiplied_rows(const struct cuda_run *run, const struct plan_step *step)
{
    int number = (int)(step - run->plan->steps);
    bool library = run->launches[number].method == PRODUCT_BY_LIBRARY && run->shape->full[number] != SELECTED_NONE;
    return library ? shape_full_rows(run->plan, step) : 0;
}

/* Whether grouped products compute the sequences that cuBLASLt does not compute. */
static bool is_grouped(const struct cuda_run *run, const struct plan_step *step)
{
    const struct cuda_launch *launch = &run->launches[step - run->plan->steps];
    return launch->method_by_length == PRODUCT_BY_LIBRARY &&
           shape_groups(run->plan, run->batch, step, multiplied_rows(run, step));
}

bool cuda_projects_by_length(const struct cuda_run *run, const struct plan_step *step)
{
    bool divided = run->shape->full[step - run->plan->steps] == SELECTED_SOME && multiplied_rows(run, step) > 0;
    return divided || is_grouped(run, step);
}

/* Computes by grouped products the sequences that cuBLASLt does not compute. Returns false if cuBLAS cannot compute
 * them, or if memory is lacking. */
template <typename T>
static bool multiply_lengths(struct cuda_run *run, const struct plan_step *step, const struct projection<T> *p)
{
    const struct layout *layout = &run->batch->layouts[run->plan->values[step->x].axis];
    int *depths = (int *)calloc((size_t)layout->n_sequences, sizeof *depths), selected = 0;
    starts_of(run, step->x); /* refuses the batch if a graph may replay it */
    for (int64_t i = 0; depths && i < layout->n_sequences; i++) {
        int64_t rows = layout->starts[i + 1] - layout->starts[i];
        if (shape_selects(run->batch, step, i) && rows != p->multiplied)
            depths[selected++] = (int)rows;
    }
    bool done = depths && project_by_groups(run, p, depths, selected, layout->n_sequences);
    free(depths);
    return done;
}

template <typename T> void cuda_project_sequence(struct cuda_run *run, const struct plan_step *step)
{
    int number = (int)(step - run->plan->steps);
    int64_t n = shape_full_rows(run->plan, step);
    enum selected full = run->shape->full[number];
    if (run->shape->selected[number] == SELECTED_NONE)
        return;
    struct projection<T> p = projection_of<T>(run, step);
    if (run->choosing) {
        choose_projection(run, step, p, n);
        return;
    }
    p.multiplied = multiplied_rows(run, step);
    bool whole = p.multiplied > 0 && full == SELECTED_ALL;
    if (whole)
        multiply_full(run, &p, n, 0, 0, shape_full_count(run->plan, run->shape, number));
    else if (p.multiplied > 0)
        multiply_some(run, step, &p, n);
    if (!whole && is_grouped(run, step) && multiply_lengths(run, step, &p))
        p.multiplied = EVERY_LENGTH;
    bool by_kernel = !whole && p.multiplied != EVERY_LENGTH;
    if (by_kernel)
        project_by_kernel(run, step, &p);
    finish(run, &p, by_kernel && rows_of(run, step->x) > p.part_rows);
}

/* ---- OP_PROJECT_CALL: an item is w sequences, and y is (w, d, k) ---- */

/* y[s, c, j] += t[c] E[j, n], where t is a row that follows the n rows of each sequence. Each block computes all j of
 * one pair (s, c). */
template <typename T>
static __global__ void add_tail(int64_t k, int64_t d, const T *tail, const T *last, int64_t stride, T *y)
{
    int64_t row = blockIdx.x;
    for (int64_t j = threadIdx.x; j < k; j += blockDim.x)
        y[row * k + j] = of_float<T>(to_float(y[row * k + j]) + to_float(tail[row % d]) * to_float(last[j * stride]));
}

template <typename T> void cuda_project_call(struct cuda_run *run, const struct plan_step *step)
{
    const struct plan_weight *e = &run->plan->weights[step->weight];
    int64_t d = columns_of(run, step->x);
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        const int64_t *starts = starts_of(run, step->x) + item;
        int64_t width = width_of(run, step->x, item);
        struct cuda_product product = {};
        product.rows = width * d;
        product.columns = e->rows;
        product.depth = (starts[1] - starts[0]) / width;
        product.a = elements_of<T>(run, step->x) + starts[0] * d;
        product.a_stride = width * d;
        product.transpose_a = true;
        product.b = weight_of<T>(run, step->weight);
        product.b_stride = e->columns;
        product.transpose_b = true;
        product.bias = weight_of<T>(run, step->bias);
        T *out = elements_of<T>(run, step->y) + starts_of(run, step->y)[item] * d;
        product.out = out;
        product.out_stride = e->rows;
        cuda_products_multiply(run, &product);
        if (step->tail != PLAN_NONE)
            launch(run, add_tail<T>, product.rows, 1, threads_for_columns(e->rows), e->rows, d,
                   weight_of<T>(run, step->tail), weight_of<T>(run, step->weight) + product.depth, e->columns, out);
    }
}

FOR_ELEMENTS(cuda_project_sequence)
FOR_ELEMENTS(cuda_project_call)
template int64_t cuda_project_sequence_scratch<float>(const struct plan *, const struct plan_step *);
template int64_t cuda_project_sequence_scratch<bf16>(const struct plan *, const struct plan_step *);
template int64_t cuda_project_sequence_scratch<f16>(const struct plan *, const struct plan_step *);
