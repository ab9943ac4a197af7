#include "engine/cpu/operations.h"
#include "engine/cpu/attend.h"
#include "engine/cpu/convolve.h"
#include "engine/cpu/convolve_image.h"
#include "engine/cpu/feed_forward.h"
#include "engine/cpu/give.h"
#include "engine/cpu/group_norm.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/linear_attend.h"
#include "engine/cpu/local_attend.h"
#include "engine/cpu/multiply.h"
#include "engine/cpu/product_keys.h"
#include "engine/cpu/project.h"
#include "engine/cpu/reduce.h"
#include "engine/cpu/rows.h"
#include "engine/cpu/space.h"

/* An operation without a row in this table has no kernel. Plans with such an operation are refused, with a message that
 * names the operation. */
const struct cpu_operation cpu_operations[] = {
    [OP_EMBED] = {cpu_embed, cpu_no_scratch, cpu_no_scratch},
    [OP_ADD_POSITIONS] = {cpu_add_positions, cpu_no_scratch, cpu_no_scratch},
    [OP_LAYER_NORM] = {cpu_layer_norm, cpu_no_scratch, cpu_no_scratch, .writes_bf16 = true},
    [OP_GROUP_NORM] = {cpu_group_norm, cpu_group_norm_scratch, cpu_no_scratch},
    [OP_LINEAR] = {cpu_linear, cpu_linear_scratch, cpu_no_scratch, .weight = WEIGHT_TILES, .writes_bf16 = true,
                   .reads_bf16 = true},
    [OP_FEED_FORWARD] = {cpu_feed_forward, cpu_feed_forward_scratch, cpu_no_scratch, .weight = WEIGHT_TILES,
                         .reads_bf16 = true},
    [OP_ACTIVATE] = {cpu_activate, cpu_no_scratch, cpu_no_scratch},
    [OP_ADD] = {cpu_add, cpu_no_scratch, cpu_no_scratch},
    [OP_MASK_ROWS] = {cpu_mask_rows, cpu_no_scratch, cpu_no_scratch},
    [OP_ADD_SINUSOIDS] = {cpu_add_sinusoids, cpu_no_scratch, cpu_no_scratch},
    [OP_PROJECT_SEQUENCE] = {cpu_project_sequence, cpu_project_sequence_scratch, cpu_project_sequence_shared_scratch,
                             .weight = WEIGHT_PROJECTION, .writes_bf16 = true, .reads_bf16 = true},
    [OP_CONVOLVE_SEQUENCE] = {cpu_convolve_sequence, cpu_convolve_sequence_scratch, cpu_no_scratch},
    [OP_PROJECT_CALL] = {cpu_project_call, cpu_no_scratch, cpu_no_scratch},
    [OP_ATTEND] = {cpu_attend, cpu_attend_scratch, cpu_no_scratch, .writes_bf16 = true, .reads_bf16 = true},
    [OP_ATTEND_CALL] = {cpu_attend_call, cpu_attend_call_scratch, cpu_no_scratch},
    [OP_SHIFT_TOKENS] = {cpu_shift_tokens, cpu_no_scratch, cpu_no_scratch},
    [OP_ROTATE] = {cpu_rotate, cpu_no_scratch, cpu_no_scratch},
    [OP_LINEAR_ATTEND] = {cpu_linear_attend, cpu_linear_attend_scratch, cpu_no_scratch},
    [OP_LOCAL_ATTEND] = {cpu_local_attend, cpu_local_attend_scratch, cpu_no_scratch},
    [OP_CONCATENATE] = {cpu_concatenate, cpu_no_scratch, cpu_no_scratch},
    [OP_APPEND_ROWS] = {cpu_append_rows, cpu_no_scratch, cpu_no_scratch},
    [OP_CONVOLVE_IMAGE] = {cpu_convolve_image, cpu_convolve_image_scratch, cpu_no_scratch, .weight = WEIGHT_TILES},
    [OP_CONVOLVE_GROUPS] = {cpu_convolve_groups, cpu_convolve_groups_scratch, cpu_no_scratch},
    [OP_CONVOLVE_CHANNELS] = {cpu_convolve_channels, cpu_convolve_channels_scratch, cpu_no_scratch},
    [OP_GATE] = {cpu_gate, cpu_no_scratch, cpu_no_scratch},
    [OP_GATHER_ROWS] = {cpu_gather_rows, cpu_no_scratch, cpu_no_scratch},
    [OP_CUT_PADDING] = {cpu_cut_padding, cpu_no_scratch, cpu_no_scratch},
    [OP_RESHAPE] = {cpu_reshape, cpu_no_scratch, cpu_no_scratch},
    [OP_PAD_ROWS] = {cpu_pad_rows, cpu_no_scratch, cpu_no_scratch},
    [OP_RETRIEVE] = {cpu_retrieve, cpu_retrieve_scratch, cpu_no_scratch},
    [OP_ARRANGE] = {cpu_arrange, cpu_no_scratch, cpu_no_scratch},
    [OP_COMBINE] = {cpu_combine, cpu_no_scratch, cpu_no_scratch},
    [OP_SELECT] = {cpu_select, cpu_no_scratch, cpu_no_scratch},
    [OP_REDUCE] = {cpu_reduce, cpu_no_scratch, cpu_no_scratch},
    [OP_SOFTMAX] = {cpu_softmax, cpu_no_scratch, cpu_no_scratch},
    [OP_MULTIPLY] = {cpu_multiply, cpu_multiply_scratch, cpu_no_scratch},
    [OP_GIVE_HIDDEN] = {cpu_give_hidden, cpu_no_scratch, cpu_no_scratch},
    [OP_GIVE_POOLED] = {cpu_give_pooled, cpu_no_scratch, cpu_give_pooled_scratch},
    [OP_GIVE_OUTPUT] = {cpu_give_output, cpu_linear_scratch, cpu_give_output_scratch, .weight = WEIGHT_TILES},
    [OP_GIVE_IMAGE] = {cpu_give_image, cpu_no_scratch, cpu_no_scratch},
    [OP_GIVE_TENSOR] = {cpu_give_tensor, cpu_no_scratch, cpu_no_scratch},
};

_Static_assert(sizeof cpu_operations / sizeof *cpu_operations == OP_COUNT, "the table has a row for each operation");
