/* Projections along the sequence on tensor cores, for floats (split.h). The product is E (k, positions) times x
 * (positions, columns). A block multiplies one part of a sequence's rows. */
#include "engine/cuda/projection.h"
#include "engine/cuda/split_tile.h"

#define LARGE 128 /* number of lines of a large tile. A small tile consists of SMALL lines */
#define SMALL 64

/* Grid: x is the part. y selects rows of y (take_tile). z selects the group and its columns. If E is TURNED, the
 * positions of a row of E are neighbours in memory. */
template <int LINES, bool TURNED>
static __global__ void __launch_bounds__(SPLIT_WARPS *WARP, split_resident<LINES>)
    multiply_part(struct projection<float> p, bool e_packed, bool x_packed)
{
    struct sequence_part part = find_part(&p, blockIdx.x);
    if (part.count == 0)
        return;
    int64_t tiles = (p.group_columns + LINES - 1) / LINES, group = blockIdx.z / tiles;
    int64_t column = blockIdx.z % tiles * LINES, j = take_tile(&p, blockIdx.y, LINES);
    const float *e = p.own.weight + group * p.of_group + part.number * p.part_rows * p.across + j * p.along;
    const float *x = p.x + part.first * p.columns + group * p.group_columns + column;
    struct split_operand a = {e, TURNED ? p.along : p.across, p.k - j, e_packed};
    struct split_operand b = {x, p.columns, p.group_columns - column, x_packed};
    struct split_sums<LINES> sums = {
    };
    split_multiply<LINES, TURNED, false>(a, b, part.rows, &sums);
    split_give(sums, [&](int r, int c, float first, float second) {
        int64_t own = group * p.group_columns + column + c;
        if (j + r < p.k && column + c < p.group_columns)
            write_sum(&p, &part, j + r, own, first);
        if (j + r < p.k && column + c + 1 < p.group_columns)
            write_sum(&p, &part, j + r, own + 1, second);
    });
}

/* With TURNED, a pack of E may contain positions after the part. These are multiplied by zeros. */
template <int LINES, bool TURNED>
static void launch_tiles(struct cuda_run *run, const struct plan_step *step, const struct projection<float> *p)
{
    int64_t e_stride = TURNED ? p->along : p->across;
    bool e_packed = (e_stride | p->of_group) % PACK<float> == 0 && (TURNED || p->k % PACK<float> == 0);
    bool x_packed = (p->columns | p->group_columns) % PACK<float> == 0;
    dim3 others((unsigned)(p->count * parts_of(p->k, LINES)),
                (unsigned)(step->project_sequence.groups * parts_of(p->group_columns, LINES)));
    launch_shared(run, multiply_part<LINES, TURNED>, parts_at_most(rows_of(run, step->x), p->n_sequences, p->part_rows),
                  others, SPLIT_WARPS * WARP, SPLIT_STAGES * sizeof(struct split_stage<LINES, TURNED, false>), *p,
                  e_packed, x_packed);
}

/* Chooses the faster tiles that fit into shared memory. With both sizes of tiles, the result has the same bits. */
template <bool TURNED>
static void choose_tiles(struct cuda_run *run, const struct plan_step *step, const struct projection<float> *p)
{
    int64_t others =
        p->count * parts_at_most(rows_of(run, step->x), p->n_sequences, p->part_rows) * step->project_sequence.groups;
    int64_t large = others * parts_of(p->k, LARGE) * parts_of(p->group_columns, LARGE);
    int64_t small = others * parts_of(p->k, SMALL) * parts_of(p->group_columns, SMALL);
    size_t bytes = SPLIT_STAGES * sizeof(struct split_stage<LARGE, TURNED, false>);
    if (bytes <= run->shared_bytes && split_large_are_faster(large, small, run->processors))
        launch_tiles<LARGE, TURNED>(run, step, p);
    else
        launch_tiles<SMALL, TURNED>(run, step, p);
}

void project_split(struct cuda_run *run, const struct plan_step *step, const struct projection<float> *p)
{
    if (step->project_sequence.transposed)
        choose_tiles<true>(run, step, p);
    else
        choose_tiles<false>(run, step, p);
}
