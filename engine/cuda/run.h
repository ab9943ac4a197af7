/* run: what an operation on the device sees while a batch runs, and how it launches kernels. */
#ifndef ENGINE_CUDA_RUN_H
#define ENGINE_CUDA_RUN_H

#include "engine/cuda/gpu.h"

extern "C" {
#include "engine/backend.h"
}

struct products;

/* An attention mask of an item, on the device; see engine_item. */
struct score_mask {
    const void *data; /* NULL: the item gives none */
    int64_t length;   /* rows of one mask; 1: one row for all positions */
    int64_t each;     /* rows from one head's mask to the next; 0: one for all heads */
    bool floats;
};

/* An item as kernels need it. */
struct device_item {
    int64_t own_rows;    /* of the last hidden state, without padding */
    int64_t first, last; /* the rows of its first and last position */
    enum pooling pooling;
};

/* Where the rows of an axis lie, on the device; `starts` and `blocks` of padder.h. */
struct device_axis {
    const int64_t *starts;
    const int64_t *lengths;   /* by item: its rows, also those that the axis leaves out */
    const int32_t *positions; /* NULL: those in the item's rows */
    const struct row_block *blocks;
};

/* For kernels that look for the places of rows. */
struct places {
    const int64_t *starts, *lengths;
    const int32_t *positions;
    int64_t n_items;
};

static __device__ __forceinline__ int64_t item_of(struct places places, int64_t row)
{
    return item_of(places.starts, places.n_items, row);
}

static __device__ __forceinline__ int64_t position_of(struct places places, int64_t row)
{
    return places.positions ? places.positions[row] : row - places.starts[item_of(places, row)];
}

/* The row at a position of an item, which has to be there; padder_row. */
static __device__ __forceinline__ int64_t row_at(struct places places, int64_t item, int64_t position)
{
    int64_t row = places.starts[item], behind = places.starts[item + 1];
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

struct cuda_run {
    const struct plan *plan;
    const struct batch *batch;
    struct products *products;
    cudaStream_t stream;
    char *arena;
    float *const *weights;                 /* by weight; an array of the host */
    const struct device_axis *axes;        /* by axis; an array of the host */
    const struct device_item *items;       /* of the device, like the next two */
    const struct wanted_row *wanted;       /* the batch's */
    const struct score_mask *const *masks; /* by input, then by item; the first an array of the host */
    float *scratch;                        /* for the step that runs */
    int64_t scratch_floats;
    cudaError_t status; /* the first that failed: what follows is not launched */
    bool product_failed;
};

static inline float *floats_of(const struct cuda_run *run, int value)
{
    return (float *)(run->arena + run->plan->values[value].offset);
}

static inline int32_t *ids_of(const struct cuda_run *run, int value)
{
    return (int32_t *)(run->arena + run->plan->values[value].offset);
}

static inline int64_t columns_of(const struct cuda_run *run, int value)
{
    return run->plan->values[value].columns;
}

static inline float *weight_of(const struct cuda_run *run, int weight)
{
    return weight == PLAN_NONE ? NULL : run->weights[weight];
}

/* Of the host: where the value's rows of an item begin. */
static inline const int64_t *starts_of(const struct cuda_run *run, int value)
{
    return run->batch->layouts[run->plan->values[value].axis].starts;
}

static inline int64_t rows_of(const struct cuda_run *run, int value)
{
    return starts_of(run, value)[run->batch->n_items];
}

/* Of the device. */
static inline const int64_t *device_starts_of(const struct cuda_run *run, int value)
{
    return run->axes[run->plan->values[value].axis].starts;
}

static inline struct places places_of(const struct cuda_run *run, int value)
{
    const struct device_axis *axis = &run->axes[run->plan->values[value].axis];
    struct places places = {axis->starts, axis->lengths, axis->positions, run->batch->n_items};
    return places;
}

/* The sequences of a call that lie side by side in the item's rows; else 1. */
static inline int64_t width_of(const struct cuda_run *run, int value, int64_t item)
{
    int input = run->plan->axes[run->plan->values[value].axis].input;
    return input == PLAN_NONE ? 1 : padder_width(run->plan, &run->batch->items[item], input);
}

static inline int64_t parts_of(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Threads of a block that walks over so many columns: whole warps. */
static inline unsigned threads_for(int64_t columns)
{
    return (unsigned)least(256, parts_of(columns, WARP) * WARP);
}

static inline void note(struct cuda_run *run, cudaError_t status)
{
    if (run->status == cudaSuccess)
        run->status = status;
}

/* Nothing is launched over an empty grid. */
template <typename... Parameters, typename... Arguments>
static void launch(struct cuda_run *run, void (*kernel)(Parameters...), int64_t blocks, dim3 others, unsigned threads,
                   Arguments... arguments)
{
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = dim3((unsigned)blocks, others.x, others.y);
    configuration.blockDim = dim3(threads);
    configuration.stream = run->stream;
    if (blocks > 0 && others.x > 0 && others.y > 0 && run->status == cudaSuccess)
        note(run, cudaLaunchKernelEx(&configuration, kernel, static_cast<Parameters>(arguments)...));
}

/* One operation: how it runs, and the floats of scratch that it needs at most (NULL: none). A new one also gets a line
 * in operations.cu. */
struct cuda_operation {
    void (*run)(struct cuda_run *run, const struct plan_step *step); /* NULL: there is none yet */
    int64_t (*scratch)(const struct plan *plan, const struct plan_step *step);
};

extern const struct cuda_operation *cuda_operation_of(enum operation operation);

/* The item's buffer for this attention's softmax; NULL: it does not want it. */
float *cuda_wanted_attention(const struct engine_item *item, const struct plan_step *step);

/* Copies to the host's own memory once the stream gets there. */
void cuda_copy_out(struct cuda_run *run, void *to, const void *from, int64_t bytes);

#endif
