/* states: how many floats each operation keeps of a sequence that comes in several batches. The functions have the type
 * of plan_operation.state. A kernel decides what it stores there.
 *
 * A causal row depends on earlier rows alone. Such an operation computes a row of a long sequence as fast as one of a
 * short sequence, if it keeps a summary of the earlier rows. */
#ifndef ENGINE_PLAN_STATES_H
#define ENGINE_PLAN_STATES_H

#include "engine/plan/plan.h"

#define STATE_OF_ALL_ROWS (-1) /* the step needs all rows at once */

typedef int64_t state_function(const struct plan *plan, const struct plan_step *step);

state_function state_of_nothing;          /* although `rows` is ROWS_TOGETHER */
state_function state_of_shift;            /* the segment of the last row that moves to the next one */
state_function state_of_attention;        /* the keys and values that a context has become: (k, columns) of each */
state_function state_of_linear_attention; /* sums over keys: by fold and head, (d, d') of the values and d of the
                                             powers. A bucket of several rows has such sums of its own until it is
                                             complete. Keys of a context leave one finished (d, d') */
state_function state_of_local_attention;  /* keys and values of two windows: by head, (2 windows, d) of each */

#endif
