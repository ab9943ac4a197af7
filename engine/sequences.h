/* sequences: records which device has the states of each sequence whose rows come in several batches. The states are
 * the contents of the sequence's slot (engine_item.slot).
 *
 * A device keeps the slots of a plan in its own memory. If the device fails, or lacks memory for a batch, the CPU runs
 * the batch, but the CPU's slots do not contain these states. Later, when the device works again, its slots do not
 * contain the newest states either. In both cases the rows of the earlier batches are computed again before the batch
 * runs.
 *
 * Threads: several lanes may run batches at once. A slot is in only one batch at a time. */
#ifndef ENGINE_SEQUENCES_H
#define ENGINE_SEQUENCES_H

#include "engine/backend.h"

struct sequences;

/* Opens the table for a plan with slots and for n_lanes lanes. After success the caller must call sequences_close. */
int sequences_open(const struct plan *plan, int n_lanes, struct sequences **sequences, struct error *error);
void sequences_close(struct sequences *sequences); /* NULL is harmless */

/* A place where the plan can run: a backend that has prepared the plan. */
struct sequences_place {
    const struct backend_functions *functions;
    struct backend_model *resident;
    int64_t number; /* a different number for each place of the plan. Preparing the plan again creates new slots, and
                       therefore needs a new number */
    int lane;       /* the lane of the backend */
};

/* Runs a batch, like backend_functions.run. Before that, computes lost states again from engine_item.earlier. Returns
 * BACKEND_REFUSED if an item with lost states lacks this member. `lane` is at least 0 and below n_lanes. One thread at
 * a time uses a lane. */
int sequences_run(struct sequences *sequences, struct sequences_place place, int lane, const struct batch *batch,
                  struct error *error);

#endif
