/* run: the data that a step reads while a batch runs, functions that launch kernels, and the struct for one row of the
 * table of operations.
 *
 * engine/plan/plan.h explains the words plan, step, value, axis, call and slot. An item is one input of a request,
 * usually one sequence (engine/plan/item.h). T is the type of stored elements (element.h). Formulas in this folder use
 * the letters that engine/plan/operations.h lists. A shape is (rows, columns), row-major. A stride is the distance
 * between two rows, in elements. */
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

/* An attention mask of an item, in device memory. It is a copy of a mask in struct engine_input
 * (engine/plan/item.h). */
struct score_mask {
    const void *data;      /* (masks, length, keys). NULL if the item has no mask */
    int64_t length;        /* number of rows of one mask. 1 if all positions share this row */
    int64_t rows_per_head; /* distance in rows between the masks of two heads. 0 if all heads share one mask */
    bool floats;           /* the elements are floats. Otherwise they are bytes */
};

/* The facts about an item that kernels read. */
struct device_item {
    int64_t own_rows;    /* number of the item's rows of the last hidden state, without padding */
    int64_t first, last; /* indices of the rows of its first and last position */
    int64_t slot;        /* the same as engine_item.slot */
    int64_t earlier;     /* number of the sequence's rows that earlier batches have computed */
    int64_t top_k;       /* number of largest columns that the item requests for each row of its output */
    bool softmax;
    enum pooling pooling;
};

/* Tables in device memory that describe the rows of an axis, like struct layout in padder.h.
 *
 * The number of entries is that of the batch's shape (shape.h), so a table may have more entries than the batch needs.
 * The additional entries describe items without rows, blocks without rows, and requests for row 0. */
struct device_axis {
    const int64_t *starts; /* by sequence: index of its first row */
    /* By item: index of its first row. The pointer is equal to `starts` if each item is one sequence. */
    const int64_t *item_starts;
    const int64_t *lengths; /* by sequence: number of its rows, including rows that this axis omits (AXIS_WANTED) */
    /* By row: its position in its sequence. NULL if row r of sequence s has position r - starts[s]. */
    const int32_t *positions;
    const struct row_block *blocks;
};

/* The tables by which a kernel finds the sequences and positions of rows on an axis. */
struct places {
    const int64_t *starts, *lengths;
    const int32_t *positions;
    int64_t n_sequences;
    const struct device_item *items; /* by sequence. NULL if the plan has no slots, so all sequences are whole */
};

/* Whether the row belongs to a sequence of the batch. Rows that were added to round the batch up to its shape have no
 * sequence, position or neighbours. */
static __device__ __forceinline__ bool is_there(struct places places, int64_t row)
{
    return row < places.starts[places.n_sequences];
}

static __device__ __forceinline__ int64_t sequence_of(struct places places, int64_t row)
{
    return sequence_of(places.starts, places.n_sequences, row);
}

/* The row's position among the rows that its sequence has in this batch. */
static __device__ __forceinline__ int64_t position_of(struct places places, int64_t row)
{
    return places.positions ? places.positions[row] : row - places.starts[sequence_of(places, row)];
}

/* The row's position in its whole sequence, whose first rows may have come in earlier batches. */
static __device__ __forceinline__ int64_t whole_position_of(struct places places, int64_t row)
{
    return position_of(places, row) + (places.items ? places.items[sequence_of(places, row)].earlier : 0);
}

/* The index of the row at a position of a sequence, like padder_row. The sequence must contain the position. */
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

/* The memory of one step in all slots. A slot keeps data of a sequence whose rows come in several batches
 * (plan_step.state). */
struct states {
    /* NULL if the step keeps no data in slots. Then state_of returns NULL for all items. */
    const struct device_item *items;
    float *first;   /* the step's memory in slot 1 */
    int64_t stride; /* number of floats from one slot to the next */
};

/* The step's memory in the slot of the sequence. NULL if the item is a whole sequence, without a slot. In a plan with
 * slots each item is one sequence, so `sequence` is also the number of the item. */
static __device__ __forceinline__ float *state_of(struct states states, int64_t sequence)
{
    bool kept = states.items && states.items[sequence].slot > 0;
    return kept ? states.first + (states.items[sequence].slot - 1) * states.stride : NULL;
}

struct cuda_run;

/* How to compute a step that both cuBLASLt and a kernel of the engine can compute (product_method.h). */
enum product_method { PRODUCT_UNDECIDED, PRODUCT_BY_LIBRARY, PRODUCT_BY_KERNEL };

/* How a step is launched: alone, or together with the steps after it (fusion.h). */
struct cuda_launch {
    void (*run)(struct cuda_run *run, const struct plan_step *step);
    int steps;                  /* number of steps in the launch, beginning with this step */
    bool keeps;                 /* the launch also stores the last step's input, because other steps read it */
    enum product_method method; /* chosen when the model is loaded, and the same for all batches */
    /* The method of a projection along the sequence (OP_PROJECT_SEQUENCE) if its sequences have several lengths.
     * PRODUCT_BY_LIBRARY is a grouped product of cuBLAS. */
    enum product_method method_by_length;
};

struct cuda_run {
    const struct plan *plan;
    struct cuda_launch *launches; /* by step of the plan (fusion.h) */
    const struct batch *batch;
    /* The shape of the batch. Launches use the rounded numbers of rows and items in it instead of the actual
     * numbers. */
    const struct batch_shape *shape;
    struct cuda_products *products;
    cudaStream_t stream;
    char *arena;
    enum dtype dtype;
    bool split;                      /* products of floats run on tensor cores (split.h) */
    size_t shared_bytes;             /* maximum shared memory of a block */
    size_t shared_by_two;            /* maximum shared memory of a block if two blocks must fit on a multiprocessor */
    int processors;                  /* number of multiprocessors of the device */
    void *const *weights;            /* by weight: its elements on the device. The array itself is in host memory */
    float *const *float_weights;     /* by weight: its floats on the device, if a step reads floats */
    const struct device_axis *axes;  /* by axis. The array itself is in host memory */
    const struct device_item *items; /* by item. In device memory */
    float *slots;                    /* (plan->n_slots, plan->state_floats). NULL if the plan has no slots */
    const int64_t *sizes;            /* (items, sizes of the plan): a copy of batch->sizes in device memory */
    const struct wanted_row *wanted; /* all requested rows of the batch, in device memory */
    /* By input: a table with one mask for each item, in device memory. The outer array is in host memory. */
    const struct score_mask *const *masks;
    float *scratch; /* temporary device memory of the current step. Use scratch_of */
    int64_t scratch_floats;
    const struct upload *upload;
    struct results *results;      /* the results of the operations OP_GIVE_… */
    const struct plan_step *step; /* the current step. NULL before the first step */
    bool is_repeatable;           /* launches depend only on the shape, so a graph can replay them */
    bool capturing; /* launches are recorded in a graph. Nothing runs, and calls that query the device are errors */
    bool choosing;  /* algorithms for products are being chosen. Nothing else is launched */
    double tuning_milliseconds; /* while choosing: the time left for measuring, in milliseconds */
    /* The device's mutex. Functions that launch expect that the caller holds it. While algorithms are chosen, functions
     * lock it themselves. */
    pthread_mutex_t *submitting;
    cudaError_t status;  /* the first failure. After a failure nothing is launched */
    bool product_failed; /* cuBLAS failed. Perhaps the device failed, too */
    /* The reason why this batch cannot run on the device, although the device works. NULL if it can run. */
    const char *refusal;
};

/* Whether the batch has neither failed nor been refused so far. */
static inline bool has_not_failed(const struct cuda_run *run)
{
    return run->status == cudaSuccess && !run->product_failed && !run->refusal;
}

/* The elements of a value. Its memory in the arena has room for floats, so elements of 16 bits fit, too. */
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

/* Refuses the batch with the reason `refusal` if `declared` is false. `declared` tells whether the operation's row in
 * operations.cu declares what the kernel does. */
static inline void refuse_unless(struct cuda_run *run, bool declared, const char *refusal)
{
    if (!declared && !run->refusal)
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
    refuse_unless(
        run, run->weights[weight] || is_empty(&run->plan->weights[weight]),
        "it reads a weight in the number format of products, but its row in operations.cu declares it as floats");
    return (const T *)run->weights[weight];
}

/* A weight that the step reads as floats, which cuda_operation.floats must declare. */
static inline const float *float_weight_of(struct cuda_run *run, int weight)
{
    if (weight == PLAN_NONE)
        return NULL;
    refuse_unless(run, run->float_weights[weight] || is_empty(&run->plan->weights[weight]),
                  "it reads a weight as floats, but its row in operations.cu does not declare this");
    return run->float_weights[weight];
}

/* The index of each item's first row in the value. The array is in host memory. A step that reads it cannot be part of
 * a graph. */
static inline const int64_t *starts_of(struct cuda_run *run, int value)
{
    refuse_unless(run, !run->is_repeatable,
                  "it reads the rows of single items, but its row in operations.cu does not declare by_item");
    return run->batch->layouts[run->plan->values[value].axis].item_starts;
}

/* The number of rows to compute: the rows of the batch, rounded up to its shape. The results of added rows are not
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

/* The index of each sequence's first row in the value. The array is in device memory, so a step in a graph may use it.
 */
static inline const int64_t *device_starts_of(const struct cuda_run *run, int value)
{
    return run->axes[run->plan->values[value].axis].starts;
}

/* Like starts_of, but in device memory, so a step in a graph may use it. */
static inline const int64_t *device_item_starts_of(const struct cuda_run *run, int value)
{
    return run->axes[run->plan->values[value].axis].item_starts;
}

static inline struct places places_of(const struct cuda_run *run, int value)
{
    const struct device_axis *axis = &run->axes[run->plan->values[value].axis];
    struct places places = {axis->starts, axis->lengths, axis->positions, sequences_of(run, value),
                            run->slots ? run->items : NULL};
    return places;
}

/* Whether the current step keeps data in slots. */
static inline bool has_states(const struct cuda_run *run)
{
    return run->slots && run->step->state != PLAN_NONE;
}

static inline struct states states_of(const struct cuda_run *run)
{
    struct states states = {};
    if (!has_states(run))
        return states;
    states.items = run->items;
    states.first = run->slots + run->step->state;
    states.stride = run->plan->state_floats;
    return states;
}

/* The next three functions tell which kinds of items the current step must compute. The kinds are whole sequences,
 * items with a slot and one row, and items with a slot and several rows. For a step that keeps no data in slots, all
 * items count as whole sequences. */
static inline bool computes_whole_sequences(const struct cuda_run *run)
{
    return !has_states(run) || run->shape->whole_sequences;
}

static inline bool computes_single_rows(const struct cuda_run *run)
{
    return has_states(run) && run->shape->single_rows;
}

static inline bool computes_several_rows(const struct cuda_run *run)
{
    return has_states(run) && run->shape->several_rows;
}

/* The number of sequences in an item with LAYOUT_CALL. 1 for other layouts. */
static inline int64_t width_of(const struct cuda_run *run, int value, int64_t item)
{
    return padder_value_width(run->plan, &run->batch->items[item], value);
}

/* The number of threads, in whole warps, of a block that works on a row of `columns` columns. At most 256. */
static inline unsigned threads_for_columns(int64_t columns)
{
    return (unsigned)least(256, parts_of(columns, WARP) * WARP);
}

static inline void note(struct cuda_run *run, cudaError_t status)
{
    if (run->status == cudaSuccess)
        run->status = status;
}

#define SHARED_BYTES ((size_t)48 << 10) /* shared memory that every kernel may use without allow_shared */

/* Shared memory that a kernel may use with allow_shared on every device. Compute capabilities 8.6, 8.9 and 12.x have
 * this much. Others have more. */
#define MIN_SHARED_BYTES ((size_t)99 << 10)

/* Raises the kernel's limit of shared memory. There is one limit for each kernel on each device. It is never lowered,
 * because captured graphs rely on it. */
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

#define ROWS_A_BLOCK 8 /* rows that a block computes in launch_rows */

/* Launches a kernel with one warp for each row (warp_of_grid). The kernel's first argument is the number of rows. */
template <typename... Parameters, typename... Arguments>
static void launch_rows(struct cuda_run *run, void (*kernel)(Parameters...), int64_t rows, Arguments... arguments)
{
    launch(run, kernel, parts_of(rows, ROWS_A_BLOCK), 1, ROWS_A_BLOCK * WARP, rows, arguments...);
}

/* Calls call(n), where n is the number of elements that a thread handles at a time. n is PACK<T> (element.h) if
 * `columns` is a multiple of PACK<T>, and 1 otherwise. */
template <typename T, typename Call> static void with_pack(int64_t columns, Call call)
{
    if (columns % PACK<T> == 0)
        call(std::integral_constant<int, PACK<T>>());
    else
        call(std::integral_constant<int, 1>());
}

/* Which weights of a step are read as floats. The other weights are read as elements. */
enum float_weights { FLOAT_UNDECLARED, FLOAT_NONE, FLOAT_BIAS, FLOAT_ALL };

/* One row of the table in operations.cu. If a row lacks run, scratch or floats, the operation is treated as if it had
 * no kernel: has_operation (engine/backend.h) returns false. */
struct cuda_operation {
    void (*run)(struct cuda_run *run, const struct plan_step *step);
    /* Number of floats of scratch for the largest batch. cuda_no_scratch if the operation needs none. */
    int64_t (*scratch)(const struct plan *plan, const struct plan_step *step);
    enum float_weights floats;
    bool by_item; /* the operation launches a kernel for each item, so plans with this operation use no graphs */
};

int64_t cuda_no_scratch(const struct plan *plan, const struct plan_step *step);

extern const struct cuda_operation *cuda_operation_of(enum dtype dtype, enum operation operation);

/* The scratch of the current step. */
static inline float *scratch_of(struct cuda_run *run)
{
    const struct cuda_operation *operation = cuda_operation_of(run->dtype, run->step->operation);
    refuse_unless(run, operation->scratch != cuda_no_scratch,
                  "it uses scratch, but its row in operations.cu declares none");
    return run->scratch;
}

/* Writes the message of CUDA for `status` to `error`. Always returns -1. */
int cuda_fail(struct error *error, const char *what, cudaError_t status);

/* Allocates device memory. After success the caller must call cudaFree. After failure *memory is NULL. */
int cuda_take_memory(void **memory, size_t bytes, const char *what, struct error *error);

/* After success the caller must call cudaEventDestroy. After failure *event is NULL. */
int cuda_open_event(cudaEvent_t *event, unsigned flags, struct error *error);

#endif
