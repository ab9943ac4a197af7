/* print: prints the parameters of a step for --explain. The functions have the type of plan_operation.print. */
#ifndef ENGINE_PLAN_PRINT_H
#define ENGINE_PLAN_PRINT_H

#include "engine/plan/plan.h"

#include <stdio.h>

typedef void print_function(const struct plan *plan, const struct plan_step *step, FILE *out);

print_function print_nothing; /* for an operation whose parameters are not shown */
print_function print_activate, print_gate, print_linear, print_feed_forward;
print_function print_group_norm;
print_function print_projection, print_call_projection, print_sequence_convolution, print_image_convolution;
print_function print_padding;
print_function print_reduce, print_softmax, print_multiply;
print_function print_combine;
print_function print_tensor;
print_function print_attention, print_linear_attention, print_local_attention;

#endif
