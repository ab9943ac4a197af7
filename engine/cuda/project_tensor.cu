/* Projections along the sequence on tensor cores, for elements of 16 bits. A block multiplies `depth` rows of E and x
 * at a time, which are called a stage. At the same time, it copies later stages. Shared memory has room for STAGES
 * stages. The product is E (k, positions) times x (positions, columns). If the rows of E in memory are positions, its
 * fragments are loaded transposed, like the fragments of x. */
#include "engine/cuda/projection.h"
#include "engine/cuda/tensor.h"

#define STAGES 4
#define WARPS 8 /* warps of a block: 2 along k, 4 along the columns */

/* Number of blocks that a multiprocessor runs at a time. It limits the registers of a thread to 128 with large tiles,
 * and to 80 with small tiles. docs/cuda.md lists the shared memory. */
template <int TALL> constexpr int resident_blocks = TALL < 128 ? 3 : 2;

/* Number of rows of x in a stage. It is larger with small tiles. Their rows are multiplied so fast that warps would
 * mostly wait for each other if a stage had few rows. */
template <int TALL> constexpr int depth = TALL < 128 ? 64 : 32;

/* A tile of E in the same order as E in memory. It is (k, positions) if TURNED, and (positions, k) otherwise. */
template <typename T, int TALL, bool TURNED> struct e_tile {
    T of[depth<TALL>][TALL + PAD];
};
template <typename T, int TALL> struct e_tile<T, TALL, true> {
    T of[TALL][depth<TALL> + PAD];
};

template <typename T, int TALL, int WIDE, bool TURNED> struct tile_stage {
    struct e_tile<T, TALL, TURNED> e;
    T x[depth<TALL>][WIDE + PAD];
};

/* The tile of y that a block computes. It begins with row `j`, and with column `column` of a group. */
struct output_tile {
    int64_t j, group, column;
    bool e_packed, x_packed; /* rows of E, and of x, begin at multiples of 16 bytes */
};

/* Copies `count` rows of WIDE elements to shared memory, like copy_rows. If rows are packed, a thread copies packs of
 * one column. It computes the place of each pack from the previous place, without a multiplication of 64 bits. */
template <typename T, int WIDE>
static __device__ __forceinline__ void copy_tile(T (*to)[WIDE + PAD], const T *x, int64_t stride, int64_t there,
                                                 int64_t columns, bool packed, int count)
{
    constexpr int packs = WIDE / PACK<T>, down = WARPS * WARP / packs;
    static_assert(WARPS * WARP % packs == 0, "each thread copies packs of one column");
    int row = (int)threadIdx.x / packs, c = (int)threadIdx.x % packs * PACK<T>;
    if (!packed) {
        copy_rows<T, WIDE>(to, x, stride, there, columns, false, count, (int)threadIdx.x, WARPS * WARP);
        return;
    }
    const T *from = x + row * stride + c;
    int rows = c < columns ? (int)(there < count ? there : count) : 0;
    int64_t further = down * stride;
#pragma unroll
    for (; row < count; row += down, from += further)
        copy_async(&to[row][c], row < rows ? from : x, row < rows);
}

/* Starts the copies of rows [row, row + depth) of the part, as one group. Rows after the part become 0. */
template <typename T, int TALL, int WIDE, bool TURNED>
static __device__ __forceinline__ void copy_stage(const struct projection<T> *p, const struct sequence_part *part,
                                                  const struct output_tile *place, int64_t row,
                                                  struct tile_stage<T, TALL, WIDE, TURNED> *to)
{
    int64_t position = part->number * p->part_rows + row, left = part->rows - row;
    const T *e = p->own.weight + place->group * p->of_group + position * p->across + place->j * p->along;
    const T *x = p->x + (part->first + row) * p->columns + place->group * p->group_columns + place->column;
    if (left > 0 && TURNED)
        copy_tile<T, TURNED ? depth<TALL> : TALL>(to->e.of, e, p->along, p->k - place->j, left, place->e_packed, TALL);
    else if (left > 0)
        copy_tile<T, TURNED ? depth<TALL> : TALL>(to->e.of, e, p->across, left, p->k - place->j, place->e_packed,
                                                  depth<TALL>);
    if (left > 0)
        copy_tile<T, WIDE>(to->x, x, p->columns, left, p->group_columns - place->column, place->x_packed, depth<TALL>);
    copies_commit();
}

/* Loads a fragment of E (k, positions): rows j … j + 15, positions d … d + 15. */
template <typename T, int TALL>
static __device__ __forceinline__ void load_e(uint32_t (&a)[4], const struct e_tile<T, TALL, false> *e, int j, int d)
{
    load_matrices_transposed(a, &e->of[d + warp_thread() / 16 * 8 + warp_thread() % 8][j + warp_thread() / 8 % 2 * 8]);
}

template <typename T, int TALL>
static __device__ __forceinline__ void load_e(uint32_t (&a)[4], const struct e_tile<T, TALL, true> *e, int j, int d)
{
    load_matrices(a, &e->of[j + warp_thread() % 16][d + warp_thread() / 16 * 8]);
}

/* Computes the part of the tile that belongs to a warp. It is (TALL / 2, WIDE / 4), and begins with `row` and
 * `column`. */
template <typename T, int TALL, int WIDE, bool TURNED>
static __device__ __forceinline__ void multiply_stage(const struct tile_stage<T, TALL, WIDE, TURNED> *stage, int row,
                                                      int column, float (&sums)[TALL / 32][WIDE / 32][4])
{
#pragma unroll
    for (int d = 0; d < depth<TALL>; d += 16) {
        uint32_t a[TALL / 32][4], b[WIDE / 64][4];
#pragma unroll
        for (int i = 0; i < TALL / 32; i++)
            load_e(a[i], &stage->e, row + i * 16, d);
#pragma unroll
        for (int n = 0; n < WIDE / 64; n++)
            load_matrices_transposed(b[n], &stage->x[d + warp_thread() % 16][column + n * 16 + warp_thread() / 16 * 8]);
#pragma unroll
        for (int i = 0; i < TALL / 32; i++)
#pragma unroll
            for (int n = 0; n < WIDE / 32; n++)
                multiply_add<T>(sums[i][n], a[i], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
}

static __device__ __forceinline__ void store_pair(float *to, float lower, float upper)
{
    *(float2 *)to = make_float2(lower, upper);
}

template <typename T> static __device__ __forceinline__ void store_pair(T *to, float lower, float upper)
{
    *(uint32_t *)to = pair_of<T>(lower, upper);
}

/* The place for a thread's sums. The thread stores rows 0, 8, 16 … of `to`, as far as they are below `rows`. Of each
 * row, it stores the columns 0, 1, 8, 9 …, as far as they are below `columns`. */
template <typename To> struct thread_output {
    To *to;
    int64_t stride, rows, columns;
    const float *bias; /* by row. NULL if no bias is added */
    bool pairs;        /* columns 2 i and 2 i + 1 can be stored at once */
};

template <int TALL, int WIDE, typename To>
static __device__ __forceinline__ void store_sums(const struct thread_output<To> &output,
                                                  const float (&sums)[TALL / 32][WIDE / 32][4])
{
#pragma unroll
    for (int i = 0; i < TALL / 16; i++) {
        To *to = output.to + i * 8 * output.stride;
        if (i * 8 >= output.rows)
            continue;
        float bias = output.bias ? output.bias[i * 8] : 0;
#pragma unroll
        for (int n = 0; n < WIDE / 32; n++) {
            float lower = sums[i / 2][n][i % 2 * 2] + bias, upper = sums[i / 2][n][i % 2 * 2 + 1] + bias;
            if (output.pairs && n * 8 < output.columns) {
                store_pair(to + n * 8, lower, upper);
                continue;
            }
            if (n * 8 < output.columns)
                to[n * 8] = of_float<To>(lower);
            if (n * 8 + 1 < output.columns)
                to[n * 8 + 1] = of_float<To>(upper);
        }
    }
}

/* Writes the sums of a warp. If the sequence has only one part, adds the bias and writes to y. Otherwise writes to
 * `parts`. */
template <typename T, int TALL, int WIDE>
static __device__ __forceinline__ void write_sums(const struct projection<T> *p, const struct sequence_part *part,
                                                  const struct output_tile *place, int row, int column,
                                                  const float (&sums)[TALL / 32][WIDE / 32][4])
{
    int64_t j = place->j + row + warp_thread() / 4, c = place->column + column + warp_thread() % 4 * 2;
    int64_t rows = p->k - j, columns = p->group_columns - c, first = place->group * p->group_columns + c;
    bool pairs = (p->y_columns | p->columns | p->group_columns) % 2 == 0;
    if (part->count == 1) {
        const float *bias = p->adds_bias ? p->own.bias + place->group * p->k + j : NULL;
        store_sums<TALL, WIDE>(thread_output<T>{p->own.y + (part->sequence * p->k + j) * p->y_columns + first,
                                                p->y_columns, rows, columns, bias, pairs},
                               sums);
        return;
    }
    int64_t number = first_place(p, part->sequence) + part->number;
    store_sums<TALL, WIDE>(thread_output<float>{p->own.parts + (number * p->k + j) * p->columns + first, p->columns,
                                                rows, columns, NULL, pairs},
                           sums);
}

/* Grid: x is the part. y selects rows of y (take_tile). z selects the group and its columns. */
template <typename T, int TALL, int WIDE, bool TURNED>
static __global__ void __launch_bounds__(WARPS *WARP, resident_blocks<TALL>)
    project_tensor(struct projection<T> p, bool e_packed, bool x_packed)
{
    typedef struct tile_stage<T, TALL, WIDE, TURNED> stage;
    stage *stages = (stage *)dynamic_shared_memory;
    struct sequence_part part = find_part(&p, blockIdx.x);
    if (part.count == 0)
        return;
    int64_t tiles = (p.group_columns + WIDE - 1) / WIDE, steps = (part.rows + depth<TALL> - 1) / depth<TALL>;
    struct output_tile place = {take_tile(&p, blockIdx.y, TALL), blockIdx.z / tiles, blockIdx.z % tiles * WIDE,
                                e_packed, x_packed};
    int warp = (int)threadIdx.x / WARP, row = warp / 4 * (TALL / 2), column = warp % 4 * (WIDE / 4);
    float sums[TALL / 32][WIDE / 32][4] = {};
    for (int ahead = 0; ahead < STAGES - 1; ahead++)
        copy_stage(&p, &part, &place, ahead * depth<TALL>, &stages[ahead]);
    for (int64_t step = 0; step < steps; step++) {
        copies_wait<STAGES - 2>();
        __syncthreads(); /* all threads see this stage, and have read the previous one */
        int64_t next = step + STAGES - 1;
        copy_stage(&p, &part, &place, next * depth<TALL>, &stages[next % STAGES]);
        multiply_stage(&stages[step % STAGES], row, column, sums);
    }
    copies_wait<0>();
    write_sums<T, TALL, WIDE>(&p, &part, &place, row, column, sums);
}

template <typename T, int TALL, int WIDE, bool TURNED>
static void launch_projection(struct cuda_run *run, const struct plan_step *step, const struct projection<T> *p)
{
    int64_t e_stride = TURNED ? p->along : p->across;
    bool e_packed = (e_stride | p->of_group) % PACK<T> == 0 && (TURNED || p->k % PACK<T> == 0);
    bool x_packed = (p->columns | p->group_columns) % PACK<T> == 0;
    dim3 others((unsigned)(p->count * parts_of(p->k, TALL)),
                (unsigned)(step->project_sequence.groups * parts_of(p->group_columns, WIDE)));
    launch_shared(run, project_tensor<T, TALL, WIDE, TURNED>,
                  parts_at_most(rows_of(run, step->x), p->n_sequences, p->part_rows), others, WARPS * WARP,
                  STAGES * sizeof(struct tile_stage<T, TALL, WIDE, TURNED>), *p, e_packed, x_packed);
}

/* Chooses small tiles if large tiles would leave multiprocessors idle. With both sizes, the sums of an element of y are
 * added in the same order. */
template <typename T, bool TURNED>
static void choose_tile(struct cuda_run *run, const struct plan_step *step, const struct projection<T> *p)
{
    int64_t parts = parts_at_most(rows_of(run, step->x), p->n_sequences, p->part_rows);
    int64_t blocks =
        p->count * parts * parts_of(p->k, 128) * step->project_sequence.groups * parts_of(p->group_columns, 128);
    if (p->group_columns <= 64 || blocks < resident_blocks<128> * run->processors)
        launch_projection<T, 64, 64, TURNED>(run, step, p);
    else
        launch_projection<T, 128, 128, TURNED>(run, step, p);
}

template <typename T>
void project_on_tensor_cores(struct cuda_run *run, const struct plan_step *step, const struct projection<T> *p)
{
    if (step->project_sequence.transposed)
        choose_tile<T, true>(run, step, p);
    else
        choose_tile<T, false>(run, step, p);
}

template void project_on_tensor_cores<bf16>(struct cuda_run *, const struct plan_step *,
                                            const struct projection<bf16> *);
template void project_on_tensor_cores<f16>(struct cuda_run *, const struct plan_step *, const struct projection<f16> *);
