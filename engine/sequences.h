/* sequences: which device has the states of each sequence whose rows come in several batches (engine_item.slot).
 *
 * A device keeps the slots of a plan in its own memory. If the device fails, or lacks memory for a batch, the CPU runs
 * the batch, but its own slots do not have these states. The same is true when a device works again. Then the rows of
 * the earlier batches are computed again, before the batch runs.
 *
 * Threads: several lanes may run batches at once. A slot is in one batch at a time. */
#ifndef ENGINE_SEQUENCES_H
#define ENGINE_SEQUENCES_H

#include "engine/backend.h"

struct sequences;

/* For a plan with slots, and this many lanes. After success the caller must call sequences_close. */
int sequences_open(const struct plan *plan, int n_lanes, struct sequences **sequences, struct error *error);
void sequences_close(struct sequences *sequences); /* NULL is harmless */

/* A plan that a backend has prepared. */
struct sequences_place {
    const struct backend_functions *functions;
    struct backend_model *resident;
    int64_t number; /* differs between all places of the plan. If a plan is prepared again, its slots are new, and so is
                       the number */
    int lane;       /* the place's own lane */
};

/* Runs a batch, like backend_functions.run. First computes lost states again, from engine_item.earlier. Returns
 * BACKEND_REFUSED if an item lacks this member. `lane` is one of n_lanes. One thread at a time uses a lane. */
int sequences_run(struct sequences *sequences, struct sequences_place place, int lane, const struct batch *batch,
                  struct error *error);

#endif
