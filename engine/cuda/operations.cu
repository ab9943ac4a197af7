/* The device's kernels: one for each operation of the plan. An operation that has no line here is one that this engine
 * does not have yet: models with it are refused, or run on the CPU. */
#include "engine/cuda/attend.h"
#include "engine/cuda/give.h"
#include "engine/cuda/linear_attend.h"
#include "engine/cuda/local_attend.h"
#include "engine/cuda/product_keys.h"
#include "engine/cuda/products.h"
#include "engine/cuda/rows.h"

struct table {
    struct cuda_operation of[OP_COUNT];

    table() : of()
    {
        of[OP_EMBED].run = cuda_embed;
        of[OP_ADD_POSITIONS].run = cuda_add_positions;
        of[OP_LAYER_NORM].run = cuda_layer_norm;
        of[OP_LINEAR].run = cuda_linear;
        of[OP_FEED_FORWARD] = {cuda_feed_forward, cuda_feed_forward_scratch};
        of[OP_ACTIVATE].run = cuda_activate;
        of[OP_ADD].run = cuda_add;
        of[OP_MASK_ROWS].run = cuda_mask_rows;
        of[OP_ADD_SINUSOIDS].run = cuda_add_sinusoids;
        of[OP_PROJECT_SEQUENCE].run = cuda_project_sequence;
        of[OP_CONVOLVE_SEQUENCE].run = cuda_convolve_sequence;
        of[OP_PROJECT_CALL].run = cuda_project_call;
        of[OP_ATTEND] = {cuda_attend, cuda_attend_scratch};
        of[OP_ATTEND_CALL] = {cuda_attend_call, cuda_attend_scratch};
        of[OP_SHIFT_TOKENS].run = cuda_shift_tokens;
        of[OP_ROTATE].run = cuda_rotate;
        of[OP_LINEAR_ATTEND] = {cuda_linear_attend, cuda_linear_attend_scratch};
        of[OP_LOCAL_ATTEND].run = cuda_local_attend;
        of[OP_CONCATENATE].run = cuda_concatenate;
        of[OP_APPEND_ROWS].run = cuda_append_rows;
        of[OP_CONVOLVE_IMAGE] = {cuda_convolve_image, cuda_convolve_image_scratch};
        of[OP_GATE].run = cuda_gate;
        of[OP_GATHER_ROWS] = {cuda_gather_rows, cuda_gather_rows_scratch};
        of[OP_CUT_PADDING].run = cuda_cut_padding;
        of[OP_RETRIEVE] = {cuda_retrieve, cuda_retrieve_scratch};
        of[OP_GIVE_HIDDEN].run = cuda_give_hidden;
        of[OP_GIVE_POOLED] = {cuda_give_pooled, cuda_give_pooled_scratch};
        of[OP_GIVE_IMAGE] = {cuda_give_image, cuda_give_image_scratch};
        of[OP_GIVE_OUTPUT] = {cuda_give_output, cuda_give_output_scratch};
    }
};

const struct cuda_operation *cuda_operation_of(enum operation operation)
{
    static const struct table operations;
    return &operations.of[operation];
}
