/* A product is computed in blocks of TASK_ROWS rows. A task consists of blocks of one item. The division into blocks
 * depends only on the item. Matrices whose rows or columns are contiguous are multiplied in place. Other matrices are
 * copied tile by tile. */
#include "engine/cpu/multiply.h"
#include "engine/plan/space.h"

#include <string.h>

#define TASK_ROWS 256
#define PRODUCTS_ALONE 65536 /* limit in multiplications. One thread computes a step with fewer multiplications */
#define TASKS_A_THREAD 4

#define TILE_ROWS 64
#define TILE_COLUMNS 64
#define TILE_DEPTH 256

/* Element (r, c) is at[r * row + c * column]. */
struct strided_matrix {
    const float *at;
    int64_t row, column;
};

/* The products of an item: y (m, n) = scale * x (m, k) z (k, n) for each element of the outer dimensions. */
struct multiplication {
    const struct cpu_run *run;
    float scale;
    int n_outer;
    struct space_dimension outer[PLAN_SPACE_RANK];
    struct space_offsets first;
    int64_t m, n, k;
    struct strided_matrix x, z;
    float *y;
    int64_t y_row, y_column;
};

static const float *item_elements(const struct cpu_run *run, int value, int64_t item)
{
    return floats_of(run, value) + layout_of(run, value)->item_starts[item] * columns_of(run, value);
}

static struct multiplication multiplication_of(const struct cpu_run *run, const struct plan_step *step, int64_t item)
{
    struct evaluated_space space = space_evaluate(&run->plan->spaces[step->space], space_operands_of(step),
                                                  run->batch->sizes + item * run->plan->n_sizes);
    struct multiplication p = {.run = run, .scale = step->multiply.scale, .first = space.first};
    const struct space_dimension *m = &space.dimensions[space.rank - 3], *n = m + 1, *k = m + 2;
    memcpy(p.outer, space.dimensions, (size_t)(space.rank - 3) * sizeof *p.outer);
    p.n_outer = space_simplify(p.outer, space.rank - 3);
    p.m = m->count;
    p.n = n->count;
    p.k = k->count;
    p.x = (struct strided_matrix){item_elements(run, step->x, item), m->stride.x, k->stride.x};
    p.z.at = step->z == PLAN_NONE ? weight_of(run, step->z_weight) : item_elements(run, step->z, item);
    p.z.row = k->stride.z;
    p.z.column = n->stride.z;
    p.y = floats_of(run, step->y) + layout_of(run, step->y)->item_starts[item] * columns_of(run, step->y);
    p.y_row = m->stride.y;
    p.y_column = n->stride.y;
    return p;
}

/* ---- Matrices in place ---- */

/* Whether OpenBLAS can read the rows of a matrix (rows, columns) at this stride. OpenBLAS requires that a stride fits
 * into an int. */
static bool is_stride(int64_t stride, int64_t rows, int64_t columns)
{
    return rows <= 1 || (stride >= columns && stride <= INT32_MAX);
}

/* Whether the matrix (rows, columns) can be multiplied in place, perhaps as its transpose. If so, sets *stride. */
static bool is_dense(const struct strided_matrix *matrix, int64_t rows, int64_t columns, bool *transpose,
                     int64_t *stride)
{
    bool by_rows = (matrix->column == 1 || columns == 1) && is_stride(matrix->row, rows, columns);
    bool by_columns = (matrix->row == 1 || rows == 1) && is_stride(matrix->column, columns, rows);
    *transpose = !by_rows;
    *stride = by_rows ? (rows > 1 ? matrix->row : columns) : columns > 1 ? matrix->column : rows;
    return by_rows || by_columns;
}

/* Computes c (m, n) = a (m, k) b (k, n) if all matrices can be used in place, with contiguous rows of c. Otherwise
 * returns false. */
static bool multiply_dense(const struct cpu_run *run, struct strided_matrix a, struct strided_matrix b,
                           struct strided_matrix c, int64_t m, int64_t n, int64_t k)
{
    struct product product = {.m = m, .n = n, .k = k, .a = a.at, .b = b.at, .c = (float *)c.at};
    bool c_transposed, dense = k > 0 && n <= INT32_MAX && k <= INT32_MAX &&
                               is_dense(&a, m, k, &product.transpose_a, &product.a_stride) &&
                               is_dense(&b, k, n, &product.transpose_b, &product.b_stride) &&
                               is_dense(&c, m, n, &c_transposed, &product.c_stride) && !c_transposed;
    if (dense)
        products_multiply(run->products, &product);
    return dense;
}

static struct strided_matrix transpose(struct strided_matrix matrix)
{
    return (struct strided_matrix){matrix.at, matrix.column, matrix.row};
}

/* ---- Matrices that are copied ---- */

static void copy_tile(struct strided_matrix from, int64_t rows, int64_t columns, float *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[r * columns + c] = from.at[r * from.row + c * from.column];
}

static struct strided_matrix part_of(struct strided_matrix matrix, int64_t row, int64_t column)
{
    matrix.at += row * matrix.row + column * matrix.column;
    return matrix;
}

/* y (m, n) += x z, for at most a tile of each matrix. If `first`, y = x z. */
static void multiply_tile(const struct cpu_run *run, struct strided_matrix x, struct strided_matrix z,
                          struct strided_matrix y, int64_t m, int64_t n, int64_t k, bool first)
{
    float *a = scratch_of(run), *b = a + TILE_ROWS * TILE_DEPTH, *c = b + TILE_DEPTH * TILE_COLUMNS;
    float *out = (float *)y.at;
    copy_tile(x, m, k, a);
    copy_tile(z, k, n, b);
    products_multiply(
        run->products,
        &(struct product){.m = m, .n = n, .k = k, .a = a, .a_stride = k, .b = b, .b_stride = n, .c = c, .c_stride = n});
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            out[i * y.row + j * y.column] = c[i * n + j] + (first ? 0 : out[i * y.row + j * y.column]);
}

static void multiply_by_tiles(const struct cpu_run *run, struct strided_matrix x, struct strided_matrix z,
                              struct strided_matrix y, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i += TILE_ROWS)
        for (int64_t j = 0; j < n; j += TILE_COLUMNS)
            for (int64_t d = 0; d < k; d += TILE_DEPTH)
                multiply_tile(run, part_of(x, i, d), part_of(z, d, j), part_of(y, i, j), least(TILE_ROWS, m - i),
                              least(TILE_COLUMNS, n - j), least(TILE_DEPTH, k - d), d == 0);
}

/* ---- Tasks ---- */

static void scale_rows(struct strided_matrix y, int64_t m, int64_t n, float scale)
{
    float *out = (float *)y.at;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            out[i * y.row + j * y.column] *= scale;
}

/* Computes rows [row, row + m) of one product. `at` gives the places of its matrices. */
static void multiply_rows(const struct multiplication *p, const struct space_offsets *at, int64_t row, int64_t m)
{
    struct strided_matrix x = part_of((struct strided_matrix){p->x.at + at->x, p->x.row, p->x.column}, row, 0);
    struct strided_matrix z = {p->z.at + at->z, p->z.row, p->z.column};
    struct strided_matrix y = part_of((struct strided_matrix){p->y + at->y, p->y_row, p->y_column}, row, 0);
    float *out = (float *)y.at;
    for (int64_t i = 0; p->k == 0 && i < m; i++)
        for (int64_t j = 0; j < p->n; j++)
            out[i * y.row + j * y.column] = 0;
    if (!multiply_dense(p->run, x, z, y, m, p->n, p->k) &&
        !multiply_dense(p->run, transpose(z), transpose(x), transpose(y), p->n, m, p->k))
        multiply_by_tiles(p->run, x, z, y, m, p->n, p->k);
    if (p->scale != 1.0f)
        scale_rows(y, m, p->n, p->scale);
}

/* Computes part number `part` of an item's products, which are divided into `parts` parts. */
static void multiply_part(const struct multiplication *p, int64_t part, int64_t parts)
{
    int64_t blocks = parts_of(p->m, TASK_ROWS), all = space_count(p->outer, p->n_outer) * blocks;
    for (int64_t i = all * part / parts; i < all * (part + 1) / parts; i++) {
        struct space_place place = space_at(p->outer, p->n_outer, p->first, i / blocks);
        int64_t row = i % blocks * TASK_ROWS;
        if (p->n > 0)
            multiply_rows(p, &place.at, row, least(TASK_ROWS, p->m - row));
    }
}

void cpu_multiply(const struct cpu_run *run, const struct plan_step *step)
{
    int64_t items = run->batch->n_items, work = 0;
    for (int64_t b = 0; b < items; b++) {
        struct multiplication p = multiplication_of(run, step, b);
        work += space_count(p.outer, p.n_outer) * p.m * p.n * p.k;
    }
    int64_t parts = work < PRODUCTS_ALONE ? 1 : parts_of(run->threads * TASKS_A_THREAD, items);
    int64_t tasks = work < PRODUCTS_ALONE ? 1 : items * parts;
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < items * parts; t++) {
        struct multiplication p = multiplication_of(run, step, t / parts);
        multiply_part(&p, t % parts, parts);
    }
}

int64_t cpu_multiply_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    (void)run, (void)step;
    return TILE_ROWS * TILE_DEPTH + TILE_DEPTH * TILE_COLUMNS + TILE_ROWS * TILE_COLUMNS;
}
