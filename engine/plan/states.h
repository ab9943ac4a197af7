/* states: how many floats a step keeps in the slot of a sequence that comes in several batches. Each function has the
 * type of plan_operation.state, and serves some operations. The kernel of an operation decides what it stores in these
 * floats.
 *
 * A causal operation computes a row from this row and earlier rows. So it can keep a summary of the earlier rows in the
 * slot. Then the cost of a row does not depend on the number of earlier rows. */
#ifndef ENGINE_PLAN_STATES_H
#define ENGINE_PLAN_STATES_H

#include "engine/plan/plan.h"

#define STATE_OF_ALL_ROWS (-1) /* the step needs all rows at once */

typedef int64_t state_function(const struct plan *plan, const struct plan_step *step);

/* 0 floats. Used by operations that need nothing of earlier rows, although their plan_operation.rows is ROWS_TOGETHER.
 */
state_function state_of_nothing;

/* A segment of the last row, which OP_SHIFT_TOKENS moves to the next row. */
state_function state_of_shift;

/* The keys (k, columns) and values (k, columns) that were computed from a context. */
state_function state_of_attention;

/* For each fold and head (linear_attend in operations.c), the sums over earlier keys: (d, d') for the products of keys
 * and values, and (d) for the keys. In both sums, the exponential of a key stands for the key. If rows see only
 * complete buckets of earlier rows, and a bucket has several rows, there are two such sets of sums. The second set is
 * for the rows of the incomplete bucket. If the keys come from a context, there is only one matrix (d, d') for each
 * head, which never changes. */
state_function state_of_linear_attention;

/* For each head, the keys (2 * window, d) and values (2 * window, d) of the last two windows. */
state_function state_of_local_attention;

#endif
