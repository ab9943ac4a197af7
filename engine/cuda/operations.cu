/* operations: the table of kernels. It has one row for each operation of the plan and each type of elements. */
#include "engine/cuda/attend.h"
#include "engine/cuda/convolve.h"
#include "engine/cuda/feed_forward.h"
#include "engine/cuda/give.h"
#include "engine/cuda/linear.h"
#include "engine/cuda/linear_attend.h"
#include "engine/cuda/local_attend.h"
#include "engine/cuda/product_keys.h"
#include "engine/cuda/project.h"
#include "engine/cuda/reduce.h"
#include "engine/cuda/rows.h"
#include "engine/cuda/space.h"

int64_t cuda_no_scratch(const struct plan *, const struct plan_step *)
{
    return 0;
}

/* The switch has no default, so the compiler reports an operation without a case. */
template <typename T> static struct cuda_operation row_of(enum operation operation)
{
    switch (operation) {
    case OP_EMBED:
        return {cuda_embed<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_ADD_POSITIONS:
        return {cuda_add_positions<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_LAYER_NORM:
        return {cuda_layer_norm<T>, cuda_no_scratch, FLOAT_ALL};
    case OP_GROUP_NORM:
        return {cuda_group_norm<T>, cuda_no_scratch, FLOAT_ALL};
    case OP_LINEAR:
        return {cuda_linear<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_FEED_FORWARD:
        return {cuda_feed_forward<T>, cuda_feed_forward_scratch, FLOAT_NONE};
    case OP_ACTIVATE:
        return {cuda_activate<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_ADD:
        return {cuda_add<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_MASK_ROWS:
        return {cuda_mask_rows<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_ADD_SINUSOIDS:
        return {cuda_add_sinusoids<T>, cuda_no_scratch, FLOAT_ALL};
    case OP_PROJECT_SEQUENCE:
        return {cuda_project_sequence<T>, cuda_project_sequence_scratch<T>, FLOAT_BIAS};
    case OP_CONVOLVE_SEQUENCE:
        return {cuda_convolve_sequence<T>, cuda_convolve_sequence_scratch, FLOAT_BIAS};
    case OP_PROJECT_CALL:
        return {cuda_project_call<T>, cuda_no_scratch, FLOAT_NONE, true};
    case OP_ATTEND:
        return {cuda_attend<T>, cuda_attend_scratch, FLOAT_NONE};
    case OP_ATTEND_CALL:
        return {cuda_attend_call<T>, cuda_attend_scratch, FLOAT_NONE, true};
    case OP_SHIFT_TOKENS:
        return {cuda_shift_tokens<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_ROTATE:
        return {cuda_rotate<T>, cuda_no_scratch, FLOAT_ALL};
    case OP_LINEAR_ATTEND:
        return {cuda_linear_attend<T>, cuda_linear_attend_scratch, FLOAT_NONE};
    case OP_LOCAL_ATTEND:
        return {cuda_local_attend<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_CONCATENATE:
        return {cuda_concatenate<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_APPEND_ROWS:
        return {cuda_append_rows<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_CONVOLVE_IMAGE:
        return {cuda_convolve_image<T>, cuda_convolve_image_scratch, FLOAT_NONE, true};
    case OP_CONVOLVE_GROUPS:
        return {cuda_convolve_groups<T>, cuda_convolve_groups_scratch, FLOAT_BIAS, true};
    case OP_CONVOLVE_CHANNELS:
        return {cuda_convolve_channels<T>, cuda_no_scratch, FLOAT_ALL, true};
    case OP_GATE:
        return {cuda_gate<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_GATHER_ROWS:
        return {cuda_gather_rows<T>, cuda_gather_rows_scratch, FLOAT_NONE};
    case OP_RESHAPE:
        return {cuda_reshape<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_CUT_PADDING:
        return {cuda_cut_padding<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_PAD_ROWS:
        return {cuda_pad_rows<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_RETRIEVE:
        return {cuda_retrieve<T>, cuda_retrieve_scratch, FLOAT_NONE};
    case OP_ARRANGE:
        return {cuda_arrange<T>, cuda_no_scratch, FLOAT_ALL};
    case OP_COMBINE:
        return {cuda_combine<T>, cuda_no_scratch, FLOAT_ALL};
    case OP_SELECT:
        return {cuda_select<T>, cuda_no_scratch, FLOAT_ALL};
    case OP_REDUCE:
        return {cuda_reduce<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_SOFTMAX:
        return {cuda_softmax<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_MULTIPLY:
        return {cuda_multiply<T>, cuda_no_scratch, FLOAT_ALL};
    case OP_GIVE_HIDDEN:
        return {cuda_give_hidden<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_GIVE_POOLED:
        return {cuda_give_pooled<T>, cuda_give_pooled_scratch, FLOAT_NONE};
    case OP_GIVE_IMAGE:
        return {cuda_give_image<T>, cuda_give_image_scratch, FLOAT_NONE, true};
    case OP_GIVE_OUTPUT:
        return {cuda_give_output<T>, cuda_give_output_scratch, FLOAT_BIAS};
    case OP_GIVE_TENSOR:
        return {cuda_give_tensor<T>, cuda_no_scratch, FLOAT_NONE};
    case OP_COUNT:
        break;
    }
    return {};
}

template <typename T> struct table {
    struct cuda_operation of[OP_COUNT];

    table()
    {
        for (int i = 0; i < OP_COUNT; i++)
            of[i] = row_of<T>((enum operation)i);
    }
};

const struct cuda_operation *cuda_operation_of(enum dtype dtype, enum operation operation)
{
    static const struct table<float> floats;
    static const struct table<bf16> bfloats;
    static const struct table<f16> halves;
    return dtype == DTYPE_BF16  ? &bfloats.of[operation]
           : dtype == DTYPE_F16 ? &halves.of[operation]
                                : &floats.of[operation];
}
