/* run: what an operation on the device sees while a batch runs, and how it launches kernels. */
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
    const void *data; /* NULL: the item gives none */
    int64_t length;   /* rows of one mask; 1: one row for all positions */
    int64_t each;     /* rows from one head's mask to the next; 0: one for all heads */
    bool floats;
};

/* An item as kernels need it. */
struct device_item {
    int64_t own_rows;    /* of the last hidden state, without padding */
    int64_t first, last; /* the rows of its first and last position */
    int64_t top_k;       /* of its wanted rows */
    bool softmax;
    enum pooling pooling;
};

/* Where the rows of an axis lie, on the device; `starts` and `blocks` of padder.h. */
struct device_axis {
    const int64_t *starts;
    const int64_t *lengths;   /* by item: its rows, also those that the axis leaves out */
    const int32_t *positions; /* NULL: those in the item's rows */
    const struct row_block *blocks;
};

/* The tables have as many entries as the batch's class: items without rows, blocks without rows, and wanted rows that
 * are row 0 stand behind the batch's own. */

/* For kernels that look for the places of rows. */
struct places {
    const int64_t *starts, *lengths;
    const int32_t *positions;
    int64_t n_items;
};

/* Whether some item has the row; else it is one of those that round the batch up to its class, and it has no item,
 * position or neighbours. */
static __device__ __forceinline__ bool is_there(struct places places, int64_t row)
{
    return row < places.starts[places.n_items];
}

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

struct cuda_run;

/* How a step is launched: alone, or with those that follow it (fusion.h). */
struct cuda_launch {
    void (*run)(struct cuda_run *run, const struct plan_step *step);
    int steps;  /* that it does, from this one on */
    bool keeps; /* what the last of them reads is written, for others read it too */
};

struct cuda_run {
    const struct plan *plan;
    const struct cuda_launch *launches; /* by step of the plan: fusion.h */
    const struct batch *batch;
    const struct shape_class *shape; /* the batch's: what is launched depends on it, not on the batch's own counts */
    struct cuda_products *products;
    cudaStream_t stream;
    char *arena;
    enum cuda_dtype dtype;
    size_t shared_bytes;                   /* of shared memory that a block may ask for */
    size_t shared_by_two;                  /* … where two blocks are to fit on a multiprocessor */
    int processors;                        /* multiprocessors of the device */
    void *const *weights;                  /* by weight, in elements; an array of the host */
    float *const *float_weights;           /* those that are read as floats */
    const struct device_axis *axes;        /* by axis; an array of the host */
    const struct device_item *items;       /* of the device, like the next two */
    const struct wanted_row *wanted;       /* the batch's */
    const struct score_mask *const *masks; /* by input, then by item; the first an array of the host */
    float *scratch;                        /* for the step that runs */
    int64_t scratch_floats;
    const struct upload *upload;
    struct results *results;     /* where OP_GIVE_… leave theirs */
    bool is_repeatable;          /* what is launched follows from the class alone */
    bool capturing;              /* into a graph: nothing is run, and nothing may be asked of the device */
    bool choosing;               /* algorithms of products are chosen, and nothing else is launched */
    double tuning_milliseconds;  /* while choosing: left to time them */
    pthread_mutex_t *submitting; /* the device's; while choosing it is taken where it is needed, else it is held */
    cudaError_t status;          /* the first that failed: what follows is not launched */
    bool product_failed;         /* cuBLASLt failed: the device may have */
    const char *refusal;         /* why the batch cannot run here, though the device works; NULL: it can */
};

/* Nothing has gone wrong yet. */
static inline bool goes_on(const struct cuda_run *run)
{
    return run->status == cudaSuccess && !run->product_failed && !run->refusal;
}

/* The arena has room for floats, whatever the elements are. */
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

template <typename T> static inline const T *weight_of(const struct cuda_run *run, int weight)
{
    return weight == PLAN_NONE ? NULL : (const T *)run->weights[weight];
}

/* cuda_operation says which. */
static inline const float *float_weight_of(const struct cuda_run *run, int weight)
{
    return weight == PLAN_NONE ? NULL : run->float_weights[weight];
}

/* Of the host: where the value's rows of an item begin. A step that asks cannot be part of a graph. */
static inline const int64_t *starts_of(const struct cuda_run *run, int value)
{
    return run->batch->layouts[run->plan->values[value].axis].starts;
}

/* Rows to be computed: the batch's, and some that nobody reads; so, too, items. */
static inline int64_t rows_of(const struct cuda_run *run, int value)
{
    return run->shape->rows[run->plan->values[value].axis];
}

static inline int64_t items_of(const struct cuda_run *run)
{
    return run->shape->n_items;
}

/* Of the device. */
static inline const int64_t *device_starts_of(const struct cuda_run *run, int value)
{
    return run->axes[run->plan->values[value].axis].starts;
}

static inline struct places places_of(const struct cuda_run *run, int value)
{
    const struct device_axis *axis = &run->axes[run->plan->values[value].axis];
    struct places places = {axis->starts, axis->lengths, axis->positions, items_of(run)};
    return places;
}

/* The sequences of a call that lie side by side in the item's rows; else 1. */
static inline int64_t width_of(const struct cuda_run *run, int value, int64_t item)
{
    int input = run->plan->axes[run->plan->values[value].axis].input;
    return input == PLAN_NONE ? 1 : padder_width(run->plan, &run->batch->items[item], input);
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

#define SHARED_BYTES ((size_t)48 << 10) /* that a kernel has without asking for more */

/* The limit belongs to kernel and device, and what graphs have captured needs it as well: it only rises. */
template <typename... Parameters> static cudaError_t allow_shared(void (*kernel)(Parameters...), size_t bytes)
{
    cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
    if (status == cudaSuccess && (size_t)attributes.maxDynamicSharedSizeBytes < bytes)
        status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    return status;
}

/* With so many bytes of dynamic_shared_memory. Nothing is launched over an empty grid. */
template <typename... Parameters, typename... Arguments>
static void launch_shared(struct cuda_run *run, void (*kernel)(Parameters...), int64_t blocks, dim3 others,
                          unsigned threads, size_t shared_bytes, Arguments... arguments)
{
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = dim3((unsigned)blocks, others.x, others.y);
    configuration.blockDim = dim3(threads);
    configuration.dynamicSmemBytes = shared_bytes;
    configuration.stream = run->stream;
    if (run->choosing)
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

/* A kernel whose warps take a row each (warp_of_grid); it gets their number first. */
template <typename... Parameters, typename... Arguments>
static void launch_rows(struct cuda_run *run, void (*kernel)(Parameters...), int64_t rows, Arguments... arguments)
{
    launch(run, kernel, parts_of(rows, ROWS_A_BLOCK), 1, ROWS_A_BLOCK * WARP, rows, arguments...);
}

/* Calls it with the elements that a lane takes at a time: a pack where all rows are of whole packs, else one. */
template <typename T, typename Call> static void with_pack(int64_t columns, Call call)
{
    if (columns % PACK<T> == 0)
        call(std::integral_constant<int, PACK<T>>());
    else
        call(std::integral_constant<int, 1>());
}

/* Which of a step's weights are read as floats; the others are elements. */
enum float_weights { FLOAT_NONE, FLOAT_BIAS, FLOAT_ALL };

/* One operation: how it runs, the floats of scratch that it needs at most (NULL: none), and its weights. A new one also
 * gets a line in operations.cu. */
struct cuda_operation {
    void (*run)(struct cuda_run *run, const struct plan_step *step); /* NULL: there is none yet */
    int64_t (*scratch)(const struct plan *plan, const struct plan_step *step);
    enum float_weights floats;
    bool by_item; /* it is launched for each item by its own counts, so that its plan makes no graphs */
};

extern const struct cuda_operation *cuda_operation_of(enum cuda_dtype dtype, enum operation operation);

/* The item's buffer for this attention's softmax; NULL: it does not want it. */
float *cuda_wanted_attention(const struct engine_item *item, const struct plan_step *step);

/* -1, with what CUDA says. */
int cuda_fail(struct error *error, const char *what, cudaError_t status);

/* Device memory; cudaFree is owed. */
int cuda_take_memory(void **memory, size_t bytes, const char *what, struct error *error);

/* cudaEventDestroy is owed; on failure it is NULL. */
int cuda_open_event(cudaEvent_t *event, unsigned flags, struct error *error);

#endif
