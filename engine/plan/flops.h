/* flops: the number of floating point operations of each operation. The functions have the type of
 * plan_operation.flops. */
#ifndef ENGINE_PLAN_FLOPS_H
#define ENGINE_PLAN_FLOPS_H

#include "engine/plan/plan.h"

typedef int64_t flops_function(const struct plan *plan, const struct plan_step *step, int64_t rows);

flops_function flops_of_nothing; /* 0, for an operation that copies or selects */
flops_function flops_of_addition;
flops_function flops_of_softmax, flops_of_multiplication;
flops_function flops_of_result; /* one operation for each element of y */
flops_function flops_of_layer_norm, flops_of_linear, flops_of_feed_forward, flops_of_activation, flops_of_gate;
flops_function flops_of_sinusoids, flops_of_rotation;
flops_function flops_of_projection, flops_of_call_projection, flops_of_sequence_convolution, flops_of_image_convolution;
flops_function flops_of_attention, flops_of_call_attention, flops_of_linear_attention, flops_of_local_attention;
flops_function flops_of_retrieval, flops_of_output;

#endif
