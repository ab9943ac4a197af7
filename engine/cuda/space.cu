/* Each element of y depends on one element of each operand. A thread computes single elements. Several blocks share the
 * elements of one item. Each block evaluates the space for its item. */
#include "engine/cuda/space.h"

#define THREADS 256
/* Approximate number of elements of a block, for an item that has all rows of the batch. */
#define ELEMENTS_A_BLOCK 1024
/* Maximum number of blocks of a launch, unless there are more items. If there are more elements, each thread computes
 * further elements. */
#define MAX_BLOCKS 4096

/* What an operand consists of: one number, elements of type T, floats of a weight, or ids. */
enum holding { HOLDS_NUMBER, HOLDS_ELEMENTS, HOLDS_FLOATS, HOLDS_IDS };

struct operand {
    enum holding holding;
    const void *elements;
    const int64_t *starts; /* by item: index of its first row. NULL for a weight, which all items share */
    int64_t columns;
    float number;
};

static struct operand operand_of(struct cuda_run *run, int value, int weight, float number)
{
    struct operand operand = {HOLDS_NUMBER, NULL, NULL, 0, number};
    if (value != PLAN_NONE) {
        operand.holding = run->plan->values[value].ids ? HOLDS_IDS : HOLDS_ELEMENTS;
        operand.elements = run->arena + run->plan->values[value].offset;
        operand.starts = device_item_starts_of(run, value);
        operand.columns = columns_of(run, value);
    } else if (weight != PLAN_NONE) {
        operand.holding = HOLDS_FLOATS;
        operand.elements = float_weight_of(run, weight);
    }
    return operand;
}

/* Element `index` of the item, converted to the type C, which is float or int32_t. */
template <typename T, typename C>
static __device__ __forceinline__ C element_at(const struct operand &operand, int64_t item, int64_t index)
{
    if (operand.starts)
        index += operand.starts[item] * operand.columns;
    switch (operand.holding) {
    case HOLDS_ELEMENTS:
        return (C)to_float(((const T *)operand.elements)[index]);
    case HOLDS_FLOATS:
        return (C)((const float *)operand.elements)[index];
    case HOLDS_IDS:
        return (C)((const int32_t *)operand.elements)[index];
    case HOLDS_NUMBER:
        break;
    }
    return (C)operand.number;
}

template <typename T> static __device__ __forceinline__ void set_element(T *y, float x)
{
    *y = of_float<T>(x);
}

static __device__ __forceinline__ void set_element(int32_t *y, int32_t x)
{
    *y = x;
}

struct step_operands {
    struct operand x, z, condition;
};

struct function {
    enum plan_function of;
    bool z_first;
};

/* The remainder has the sign of z, as in torch and Python. */
static __device__ __forceinline__ float remainder_of(float x, float z)
{
    float rest = fmodf(x, z);
    return rest != 0 && (z < 0) != (rest < 0) ? rest + z : rest;
}

/* The floor of x / z, as torch computes it. engine/cpu/vector_combine.c explains the computation. */
static __device__ __forceinline__ float floor_divide(float x, float z)
{
    float rest = fmodf(x, z), quotient = (x - rest) / z;
    bool down = rest != 0 && (z < 0) != (rest < 0);
    return z == 0 ? x / z : rintf(down ? quotient - 1 : quotient);
}

static __device__ __forceinline__ float function_of(enum plan_function function, float a, float b)
{
    switch (function) {
    case FUNCTION_ADD:
        return a + b;
    case FUNCTION_SUBTRACT:
        return a - b;
    case FUNCTION_MULTIPLY:
        return a * b;
    case FUNCTION_DIVIDE:
        return a / b;
    case FUNCTION_FLOOR_DIVIDE:
        return floor_divide(a, b);
    case FUNCTION_TRUNCATE_DIVIDE:
        return truncf(a / b);
    case FUNCTION_REMAINDER:
        return remainder_of(a, b);
    case FUNCTION_POWER:
        return powf(a, b);
    case FUNCTION_MAXIMUM:
        return a > b || a != a ? a : b;
    case FUNCTION_MINIMUM:
        return a < b || a != a ? a : b;
    case FUNCTION_EQUAL:
        return a == b;
    case FUNCTION_NOT_EQUAL:
        return a != b;
    case FUNCTION_LESS:
        return a < b;
    case FUNCTION_LESS_EQUAL:
        return a <= b;
    case FUNCTION_AND:
        return a != 0 && b != 0;
    case FUNCTION_OR:
        return a != 0 || b != 0;
    case FUNCTION_XOR:
        return (a != 0) != (b != 0);
    case FUNCTION_COUNT:
        break;
    }
    return NAN;
}

/* The functions of the three operations. They return a C, which is float or int32_t. */
struct arrange_function {
    template <typename T, typename C>
    __device__ __forceinline__ C of(const struct step_operands &o, int64_t item, const struct space_offsets &at) const
    {
        return element_at<T, C>(o.x, item, at.x);
    }
};

struct combine_function {
    struct function function;

    template <typename T, typename C>
    __device__ __forceinline__ C of(const struct step_operands &o, int64_t item, const struct space_offsets &at) const
    {
        float x = element_at<T, float>(o.x, item, at.x), z = element_at<T, float>(o.z, item, at.z);
        return (C)(function.z_first ? function_of(function.of, z, x) : function_of(function.of, x, z));
    }
};

struct select_function {
    template <typename T, typename C>
    __device__ __forceinline__ C of(const struct step_operands &o, int64_t item, const struct space_offsets &at) const
    {
        bool chosen = element_at<T, float>(o.condition, item, at.keys) != 0;
        return chosen ? element_at<T, C>(o.x, item, at.x) : element_at<T, C>(o.z, item, at.z);
    }
};

/* The grid is (blocks, items). Y is the type of y's elements. */
template <typename T, typename Y, typename C, typename Function>
static __global__ void over_space(int64_t blocks, struct device_space device, struct step_operands operands,
                                  Function function, const int64_t *starts, int64_t columns, Y *y)
{
    struct evaluated_space *space = (struct evaluated_space *)dynamic_shared_memory;
    int64_t item = blockIdx.y;
    if (starts[item] == starts[item + 1])
        return;
    if (threadIdx.x == 0) {
        *space = space_of_item(device, item);
        space->rank = space_simplify(space->dimensions, space->rank);
    }
    __syncthreads();
    int64_t count = space_count(space->dimensions, space->rank);
    y += starts[item] * columns;
    for (int64_t i = thread_of_grid(); i < count; i += blocks * blockDim.x) {
        struct space_place place = space_at(space->dimensions, space->rank, space->first, i);
        set_element(y + place.at.y, function.template of<T, C>(operands, item, place.at));
    }
}

template <typename T, typename Y, typename C, typename Function>
static void launch_over(struct cuda_run *run, const struct plan_step *step, const struct step_operands &operands,
                        Function function)
{
    int64_t columns = columns_of(run, step->y), elements = rows_of(run, step->y) * columns, items = items_of(run);
    int64_t blocks = least(parts_of(elements, ELEMENTS_A_BLOCK), most(1, MAX_BLOCKS / items));
    launch_shared(run, over_space<T, Y, C, Function>, blocks, dim3((unsigned)items), THREADS,
                  sizeof(struct evaluated_space), blocks, device_space_of(run, step), operands, function,
                  device_item_starts_of(run, step->y), columns, elements_of<Y>(run, step->y));
}

/* Launches the kernel for y of ids, or for y of elements. */
template <typename T, typename Function>
static void launch_any(struct cuda_run *run, const struct plan_step *step, const struct step_operands &operands,
                       Function function)
{
    if (run->plan->values[step->y].ids)
        launch_over<T, int32_t, int32_t>(run, step, operands, function);
    else
        launch_over<T, T, float>(run, step, operands, function);
}

template <typename T> void cuda_arrange(struct cuda_run *run, const struct plan_step *step)
{
    struct step_operands operands = {};
    operands.x = operand_of(run, step->x, step->x_weight, step->arrange.x);
    launch_any<T>(run, step, operands, arrange_function());
}

template <typename T> void cuda_combine(struct cuda_run *run, const struct plan_step *step)
{
    struct step_operands operands = {};
    operands.x = operand_of(run, step->x, step->x_weight, 0);
    operands.z = operand_of(run, step->z, step->z_weight, step->combine.z);
    struct combine_function function = {{step->combine.function, step->combine.z_first}};
    launch_over<T, T, float>(run, step, operands, function);
}

template <typename T> void cuda_select(struct cuda_run *run, const struct plan_step *step)
{
    struct step_operands operands = {};
    operands.x = operand_of(run, step->x, step->x_weight, step->select.x);
    operands.z = operand_of(run, step->z, step->z_weight, step->select.z);
    operands.condition = operand_of(run, step->keys, PLAN_NONE, 0);
    launch_any<T>(run, step, operands, select_function());
}

FOR_ELEMENTS(cuda_arrange)
FOR_ELEMENTS(cuda_combine)
FOR_ELEMENTS(cuda_select)
