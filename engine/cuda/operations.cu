/* The table of kernels: one for each operation of the plan and type of elements. A model whose plan has an operation
 * without a row runs on the CPU, or is refused by the operation's name. */
#include "engine/cuda/attend.h"
#include "engine/cuda/convolve.h"
#include "engine/cuda/feed_forward.h"
#include "engine/cuda/give.h"
#include "engine/cuda/linear.h"
#include "engine/cuda/linear_attend.h"
#include "engine/cuda/local_attend.h"
#include "engine/cuda/product_keys.h"
#include "engine/cuda/project.h"
#include "engine/cuda/rows.h"

template <typename T> struct table {
    struct cuda_operation of[OP_COUNT];

    table() : of()
    {
        of[OP_EMBED].run = cuda_embed<T>;
        of[OP_ADD_POSITIONS].run = cuda_add_positions<T>;
        of[OP_LAYER_NORM] = {cuda_layer_norm<T>, NULL, FLOAT_ALL};
        of[OP_LINEAR].run = cuda_linear<T>;
        of[OP_FEED_FORWARD] = {cuda_feed_forward<T>, cuda_feed_forward_scratch};
        of[OP_ACTIVATE].run = cuda_activate<T>;
        of[OP_ADD].run = cuda_add<T>;
        of[OP_MASK_ROWS].run = cuda_mask_rows<T>;
        of[OP_ADD_SINUSOIDS] = {cuda_add_sinusoids<T>, NULL, FLOAT_ALL};
        of[OP_PROJECT_SEQUENCE] = {cuda_project_sequence<T>, cuda_project_sequence_scratch<T>, FLOAT_BIAS};
        of[OP_CONVOLVE_SEQUENCE] = {cuda_convolve_sequence<T>, cuda_convolve_sequence_scratch, FLOAT_BIAS};
        of[OP_PROJECT_CALL] = {cuda_project_call<T>, NULL, FLOAT_NONE, true};
        of[OP_ATTEND] = {cuda_attend<T>, cuda_attend_scratch};
        of[OP_ATTEND_CALL] = {cuda_attend_call<T>, cuda_attend_scratch, FLOAT_NONE, true};
        of[OP_SHIFT_TOKENS].run = cuda_shift_tokens<T>;
        of[OP_ROTATE] = {cuda_rotate<T>, NULL, FLOAT_ALL};
        of[OP_LINEAR_ATTEND] = {cuda_linear_attend<T>, cuda_linear_attend_scratch};
        of[OP_LOCAL_ATTEND].run = cuda_local_attend<T>;
        of[OP_CONCATENATE].run = cuda_concatenate<T>;
        of[OP_APPEND_ROWS].run = cuda_append_rows<T>;
        of[OP_CONVOLVE_IMAGE] = {cuda_convolve_image<T>, cuda_convolve_image_scratch, FLOAT_NONE, true};
        of[OP_GATE].run = cuda_gate<T>;
        of[OP_GATHER_ROWS] = {cuda_gather_rows<T>, cuda_gather_rows_scratch};
        of[OP_CUT_PADDING].run = cuda_cut_padding<T>;
        of[OP_RETRIEVE] = {cuda_retrieve<T>, cuda_retrieve_scratch};
        of[OP_GIVE_HIDDEN].run = cuda_give_hidden<T>;
        of[OP_GIVE_POOLED] = {cuda_give_pooled<T>, cuda_give_pooled_scratch};
        of[OP_GIVE_IMAGE] = {cuda_give_image<T>, cuda_give_image_scratch, FLOAT_NONE, true};
        of[OP_GIVE_OUTPUT] = {cuda_give_output<T>, cuda_give_output_scratch, FLOAT_BIAS};
    }
};

const struct cuda_operation *cuda_operation_of(enum cuda_dtype dtype, enum operation operation)
{
    static const struct table<float> floats;
    static const struct table<bf16> bfloats;
    static const struct table<f16> halves;
    return dtype == CUDA_BF16  ? &bfloats.of[operation]
           : dtype == CUDA_F16 ? &halves.of[operation]
                               : &floats.of[operation];
}
