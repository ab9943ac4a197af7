/* run: what an operation on the device reads while a batch runs, how it launches kernels, and one row of the table of
 * operations.
 *
 * The kernels of this folder use the letters of engine/plan/operations.h. T is the type of elements (element.h). A
 * shape is (rows, columns), row-major. A stride is the distance between two rows, in elements. */
#ifndef ENGINE_CUDA_RUN_H
#define ENGINE_CUDA_RUN_H

#include <pthread.h>
#include <type_traits>

#include "engine/cuda/element.h"
#include "engine/cuda/gpu.h"
#include "engine/cuda/shape.h"
#include "engine/plan/arithmetic.h"

struct cuda_products;
struct results;
struct upload;

/* An attention mask of an item, on the device; see engine_item. */
struct score_mask {
    const void *data; /* (masks, length, keys); NULL: the item gives none */
    int64_t length;   /* rows of one mask; 1: one row for all positions */
    int64_t each;     /* distance in rows between the masks of two heads; 0: one mask for all heads */
    bool floats;      /* else bytes */
};

/* The data of an item that kernels need. */
struct device_item {
    int64_t own_rows;    /* of the last hidden state, without padding */
    int64_t first, last; /* the rows of its first and last position */
    int64_t top_k;       /* requested for each of its rows of the output */
    bool softmax;
    enum pooling pooling;
};

/* The rows of an axis: tables on the device, like those of padder.h.
 *
 * Tables have as many entries as the batch's shape class (shape.h). The entries after the batch's own are items without
 * rows, blocks without rows, and requests for row 0. */
struct device_axis {
    const int64_t *starts;      /* by sequence */
    const int64_t *item_starts; /* by item; `starts` if each item is one sequence */
    const int64_t *lengths;     /* by sequence: its full row count, including rows that this axis omits */
    const int32_t *positions;   /* by row; NULL: a row's position is its number in the sequence */
    const struct row_block *blocks;
};

/* The tables that a kernel needs to find sequences and positions of rows. On most axes an item is one sequence. */
struct places {
    const int64_t *starts, *lengths;
    const int32_t *positions;
    int64_t n_sequences;
};

/* Whether the row belongs to an item. Rows that round the batch up to its shape class have no item, position or
 * neighbours.
 */
static __device__ __forceinline__ bool is_there(struct places places, int64_t row)
{
    return row < places.starts[places.n_sequences];
}

static __device__ __forceinline__ int64_t sequence_of(struct places places, int64_t row)
{
    return item_of(places.starts, places.n_sequences, row);
}

static __device__ __forceinline__ int64_t position_of(struct places places, int64_t row)
{
    return places.positions ? places.positions[row] : row - places.starts[sequence_of(places, row)];
}

/* The row at a position of a sequence, like padder_row. The sequence must have that row. */
static __device__ __forceinline__ int64_t row_at(struct places places, int64_t sequence, int64_t position)
{
    int64_t row = places.starts[sequence], behind = places.starts[sequence + 1];
    if (!places.positions)
        return row + position;
    while (behind - row > 1) {
        int64_t middle = (row + behind) / 2;
        if (places.positions[middle] <= position)
            row = middle;
        else
            behind = middle;
    }
    return row;
}

struct cuda_run;

/* How a step is launched: alone, or with those that follow it (fusion.h). */
struct cuda_launch {
    void (*run)(struct cuda_run *run, const struct plan_step *step);
    int steps;  /* number of steps in the launch, from this one on */
    bool keeps; /* the launch also stores the last step's input, because other steps read it */
};

struct cuda_run {
    const struct plan *plan;
    const struct cuda_launch *launches; /* by step of the plan: fusion.h */
    const struct batch *batch;
    const struct shape_class *shape; /* of the batch. Launches depend on it, and not on the batch's own counts */
    struct cuda_products *products;
    cudaStream_t stream;
    char *arena;
    enum dtype dtype;
    size_t shared_bytes;                   /* shared memory that a block may ask for */
    size_t shared_by_two;                  /* the same if two blocks must fit on a multiprocessor */
    int processors;                        /* multiprocessors of the device */
    void *const *weights;                  /* by weight: its elements on the device; the array is the host's */
    float *const *float_weights;           /* the same for weights that are read as floats */
    const struct device_axis *axes;        /* by axis; the array is the host's */
    const struct device_item *items;       /* on the device */
    const int64_t *sizes;                  /* (items, sizes of the plan), like batch->sizes; on the device */
    const struct wanted_row *wanted;       /* all requested rows of the batch; on the device */
    const struct score_mask *const *masks; /* by input, then by item; the outer array is the host's */
    float *scratch;                        /* of the current step: scratch_of */
    int64_t scratch_floats;
    const struct upload *upload;
    struct results *results;      /* the results of OP_GIVE_… */
    const struct plan_step *step; /* the current one; NULL: none yet */
    bool is_repeatable;           /* launches depend only on the shape class, so a graph can replay them */
    bool capturing;             /* launches go into a graph: nothing runs, and calls that query the device are errors */
    bool choosing;              /* algorithms of products are chosen; nothing else is launched */
    double tuning_milliseconds; /* while choosing: the time that is left for measuring */
    pthread_mutex_t *submitting; /* the device's mutex. The caller holds it, except while choosing algorithms: then
                                    functions lock it themselves */
    cudaError_t status;          /* the first failure; after it nothing is launched */
    bool product_failed;         /* cuBLASLt failed, and perhaps the device */
    const char *refusal;         /* why a working device cannot run this batch; NULL: it can */
};

/* Whether the run has not failed so far. */
static inline bool goes_on(const struct cuda_run *run)
{
    return run->status == cudaSuccess && !run->product_failed && !run->refusal;
}

/* A value. The arena has room for floats, so elements of 16 bits fit too. */
template <typename T> static inline T *elements_of(const struct cuda_run *run, int value)
{
    return (T *)(run->arena + run->plan->values[value].offset);
}

static inline int32_t *ids_of(const struct cuda_run *run, int value)
{
    return (int32_t *)(run->arena + run->plan->values[value].offset);
}

static inline int64_t columns_of(const struct cuda_run *run, int value)
{
    return run->plan->values[value].columns;
}

/* Refuses the batch, with the reason `refusal`, if a kernel contradicts its row in operations.cu. */
static inline void refuse_unless(struct cuda_run *run, bool said, const char *refusal)
{
    if (!said && !run->refusal)
        run->refusal = refusal;
}

static inline bool is_empty(const struct plan_weight *weight)
{
    return weight->rows * weight->columns == 0;
}

template <typename T> static inline const T *weight_of(struct cuda_run *run, int weight)
{
    if (weight == PLAN_NONE)
        return NULL;
    refuse_unless(run, run->weights[weight] || is_empty(&run->plan->weights[weight]),
                  "it reads a weight as elements, which its row in operations.cu does not say");
    return (const T *)run->weights[weight];
}

/* A weight that the step reads as floats: cuda_operation.floats. */
static inline const float *float_weight_of(struct cuda_run *run, int weight)
{
    if (weight == PLAN_NONE)
        return NULL;
    refuse_unless(run, run->float_weights[weight] || is_empty(&run->plan->weights[weight]),
                  "it reads a weight as floats, which its row in operations.cu does not say");
    return run->float_weights[weight];
}

/* The index of each item's first row in the value. The array is on the host. A step that reads it cannot be part of a
 * graph. */
static inline const int64_t *starts_of(struct cuda_run *run, int value)
{
    refuse_unless(run, !run->is_repeatable,
                  "it reads the rows of single items, and its row in operations.cu lacks by_item");
    return run->batch->layouts[run->plan->values[value].axis].item_starts;
}

/* Rows and items to compute: the batch's numbers, rounded up to its shape class. The results of added rows are not
 * read. */
static inline int64_t rows_of(const struct cuda_run *run, int value)
{
    return run->shape->rows[run->plan->values[value].axis];
}

static inline int64_t items_of(const struct cuda_run *run)
{
    return run->shape->n_items;
}

static inline int64_t sequences_of(const struct cuda_run *run, int value)
{
    return run->shape->sequences[run->plan->values[value].axis];
}

/* The index of each sequence's first row in the value. On the device, and possible in graphs. */
static inline const int64_t *device_starts_of(const struct cuda_run *run, int value)
{
    return run->axes[run->plan->values[value].axis].starts;
}

/* starts_of, but on the device, and possible in graphs. */
static inline const int64_t *device_item_starts_of(const struct cuda_run *run, int value)
{
    return run->axes[run->plan->values[value].axis].item_starts;
}

static inline struct places places_of(const struct cuda_run *run, int value)
{
    const struct device_axis *axis = &run->axes[run->plan->values[value].axis];
    struct places places = {axis->starts, axis->lengths, axis->positions, sequences_of(run, value)};
    return places;
}

/* The number of sequences in a call's item; 1 for other layouts. */
static inline int64_t width_of(const struct cuda_run *run, int value, int64_t item)
{
    int input = run->plan->axes[run->plan->values[value].axis].input;
    return input == PLAN_NONE ? 1 : padder_width(run->plan, &run->batch->items[item], input);
}

/* The threads of a block that goes over a row of `columns` columns: whole warps. */
static inline unsigned threads_for_columns(int64_t columns)
{
    return (unsigned)least(256, parts_of(columns, WARP) * WARP);
}

static inline void note(struct cuda_run *run, cudaError_t status)
{
    if (run->status == cudaSuccess)
        run->status = status;
}

#define SHARED_BYTES ((size_t)48 << 10) /* shared memory that every kernel may have */

/* Raises the kernel's limit of shared memory. The limit belongs to kernel and device. It is never lowered, because
 * captured graphs rely on it. */
template <typename... Parameters> static cudaError_t allow_shared(void (*kernel)(Parameters...), size_t bytes)
{
    cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
    if (status == cudaSuccess && (size_t)attributes.maxDynamicSharedSizeBytes < bytes)
        status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    return status;
}

/* Launches a kernel over a grid (blocks, others.x, others.y), with shared_bytes of dynamic_shared_memory. An empty grid
 * launches nothing. */
template <typename... Parameters, typename... Arguments>
static void launch_shared(struct cuda_run *run, void (*kernel)(Parameters...), int64_t blocks, dim3 others,
                          unsigned threads, size_t shared_bytes, Arguments... arguments)
{
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = dim3((unsigned)blocks, others.x, others.y);
    configuration.blockDim = dim3(threads);
    configuration.dynamicSmemBytes = shared_bytes;
    configuration.stream = run->stream;
    if (run->choosing || run->refusal)
        return;
    if (shared_bytes > SHARED_BYTES)
        note(run, allow_shared(kernel, shared_bytes));
    if (blocks > 0 && others.x > 0 && others.y > 0 && run->status == cudaSuccess)
        note(run, cudaLaunchKernelEx(&configuration, kernel, static_cast<Parameters>(arguments)...));
}

template <typename... Parameters, typename... Arguments>
static void launch(struct cuda_run *run, void (*kernel)(Parameters...), int64_t blocks, dim3 others, unsigned threads,
                   Arguments... arguments)
{
    launch_shared(run, kernel, blocks, others, threads, 0, arguments...);
}

#define ROWS_A_BLOCK 8 /* of launch_rows */

/* Launches a kernel with one warp for each row (warp_of_grid). Its first argument is the number of rows. */
template <typename... Parameters, typename... Arguments>
static void launch_rows(struct cuda_run *run, void (*kernel)(Parameters...), int64_t rows, Arguments... arguments)
{
    launch(run, kernel, parts_of(rows, ROWS_A_BLOCK), 1, ROWS_A_BLOCK * WARP, rows, arguments...);
}

/* Calls call(n), where n is the number of elements that a thread handles at a time: a pack if the columns are whole
 * packs, else one. */
template <typename T, typename Call> static void with_pack(int64_t columns, Call call)
{
    if (columns % PACK<T> == 0)
        call(std::integral_constant<int, PACK<T>>());
    else
        call(std::integral_constant<int, 1>());
}

/* Which of a step's weights are read as floats; the others are elements. */
enum float_weights { FLOAT_UNSAID, FLOAT_NONE, FLOAT_BIAS, FLOAT_ALL };

/* One row of the table in operations.cu. A row that lacks run, scratch or floats counts as no kernel. */
struct cuda_operation {
    void (*run)(struct cuda_run *run, const struct plan_step *step);
    int64_t (*scratch)(const struct plan *plan,
                       const struct plan_step *step); /* floats at most; cuda_no_scratch: none */
    enum float_weights floats;
    bool by_item; /* has a launch for each item, so plans with the operation use no graphs */
};

int64_t cuda_no_scratch(const struct plan *plan, const struct plan_step *step);

extern const struct cuda_operation *cuda_operation_of(enum dtype dtype, enum operation operation);

/* The scratch of the step that runs. */
static inline float *scratch_of(struct cuda_run *run)
{
    const struct cuda_operation *operation = cuda_operation_of(run->dtype, run->step->operation);
    refuse_unless(run, operation->scratch != cuda_no_scratch,
                  "it uses scratch, which its row in operations.cu does not say");
    return run->scratch;
}

/* Sets `error` to what CUDA says, and returns -1. */
int cuda_fail(struct error *error, const char *what, cudaError_t status);

/* Allocates device memory. On success cudaFree is owed; on failure *memory is NULL. */
int cuda_take_memory(void **memory, size_t bytes, const char *what, struct error *error);

/* On success cudaEventDestroy is owed; on failure *event is NULL. */
int cuda_open_event(cudaEvent_t *event, unsigned flags, struct error *error);

#endif
