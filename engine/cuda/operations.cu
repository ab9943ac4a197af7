/* The table of kernels, with one for each operation of the plan and each type of elements. If a plan has an operation
 * without a row, the model runs on the CPU, or is refused with a message that names the operation. */
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

template <typename T> struct table {
    struct cuda_operation of[OP_COUNT];

    table() : of()
    {
        of[OP_EMBED] = {cuda_embed<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_ADD_POSITIONS] = {cuda_add_positions<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_LAYER_NORM] = {cuda_layer_norm<T>, cuda_no_scratch, FLOAT_ALL};
        of[OP_GROUP_NORM] = {cuda_group_norm<T>, cuda_no_scratch, FLOAT_ALL};
        of[OP_LINEAR] = {cuda_linear<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_FEED_FORWARD] = {cuda_feed_forward<T>, cuda_feed_forward_scratch, FLOAT_NONE};
        of[OP_ACTIVATE] = {cuda_activate<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_ADD] = {cuda_add<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_MASK_ROWS] = {cuda_mask_rows<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_ADD_SINUSOIDS] = {cuda_add_sinusoids<T>, cuda_no_scratch, FLOAT_ALL};
        of[OP_PROJECT_SEQUENCE] = {cuda_project_sequence<T>, cuda_project_sequence_scratch<T>, FLOAT_BIAS};
        of[OP_CONVOLVE_SEQUENCE] = {cuda_convolve_sequence<T>, cuda_convolve_sequence_scratch, FLOAT_BIAS};
        of[OP_PROJECT_CALL] = {cuda_project_call<T>, cuda_no_scratch, FLOAT_NONE, true};
        of[OP_ATTEND] = {cuda_attend<T>, cuda_attend_scratch, FLOAT_NONE};
        of[OP_ATTEND_CALL] = {cuda_attend_call<T>, cuda_attend_scratch, FLOAT_NONE, true};
        of[OP_SHIFT_TOKENS] = {cuda_shift_tokens<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_ROTATE] = {cuda_rotate<T>, cuda_no_scratch, FLOAT_ALL};
        of[OP_LINEAR_ATTEND] = {cuda_linear_attend<T>, cuda_linear_attend_scratch, FLOAT_NONE};
        of[OP_LOCAL_ATTEND] = {cuda_local_attend<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_CONCATENATE] = {cuda_concatenate<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_APPEND_ROWS] = {cuda_append_rows<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_CONVOLVE_IMAGE] = {cuda_convolve_image<T>, cuda_convolve_image_scratch, FLOAT_NONE, true};
        of[OP_CONVOLVE_GROUPS] = {cuda_convolve_groups<T>, cuda_convolve_groups_scratch, FLOAT_BIAS, true};
        of[OP_CONVOLVE_CHANNELS] = {cuda_convolve_channels<T>, cuda_no_scratch, FLOAT_ALL, true};
        of[OP_GATE] = {cuda_gate<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_GATHER_ROWS] = {cuda_gather_rows<T>, cuda_gather_rows_scratch, FLOAT_NONE};
        of[OP_RESHAPE] = {cuda_reshape<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_CUT_PADDING] = {cuda_cut_padding<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_PAD_ROWS] = {cuda_pad_rows<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_RETRIEVE] = {cuda_retrieve<T>, cuda_retrieve_scratch, FLOAT_NONE};
        of[OP_ARRANGE] = {cuda_arrange<T>, cuda_no_scratch, FLOAT_ALL};
        of[OP_COMBINE] = {cuda_combine<T>, cuda_no_scratch, FLOAT_ALL};
        of[OP_SELECT] = {cuda_select<T>, cuda_no_scratch, FLOAT_ALL};
        of[OP_REDUCE] = {cuda_reduce<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_SOFTMAX] = {cuda_softmax<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_MULTIPLY] = {cuda_multiply<T>, cuda_no_scratch, FLOAT_ALL};
        of[OP_GIVE_HIDDEN] = {cuda_give_hidden<T>, cuda_no_scratch, FLOAT_NONE};
        of[OP_GIVE_POOLED] = {cuda_give_pooled<T>, cuda_give_pooled_scratch, FLOAT_NONE};
        of[OP_GIVE_IMAGE] = {cuda_give_image<T>, cuda_give_image_scratch, FLOAT_NONE, true};
        of[OP_GIVE_OUTPUT] = {cuda_give_output<T>, cuda_give_output_scratch, FLOAT_BIAS};
        of[OP_GIVE_TENSOR] = {cuda_give_tensor<T>, cuda_no_scratch, FLOAT_NONE};
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
