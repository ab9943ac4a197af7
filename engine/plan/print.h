/* print: the parameters of a step as --explain has them. The functions have the type of plan_operation.print. */
#ifndef ENGINE_PLAN_PRINT_H
#define ENGINE_PLAN_PRINT_H

#include "engine/plan/plan.h"

#include <stdio.h>

typedef void print_function(const struct plan *plan, const struct plan_step *step, FILE *out);

print_function print_activation, print_feed_forward; /* of a linear step, an activation or a gate */
print_function print_groups, print_tail, print_convolution;
print_function print_attention, print_linear_attention, print_local_attention;

#endif
