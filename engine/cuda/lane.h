/* lane: one of a model's batches in flight. A lane has memory of its own for what is copied up and down; activations,
 * scratch and the order of computing are the device's:
 *
 *     up:       A up     B up           A up
 *     compute:           A compute      B compute      A compute
 *     down:                             A down         B down
 *
 * What a lane's memory is used for next waits for nobody: its thread has waited for its last batch. */
#ifndef ENGINE_CUDA_LANE_H
#define ENGINE_CUDA_LANE_H

#include "engine/cuda/device.h"
#include "engine/cuda/graphs.h"
#include "engine/cuda/results.h"
#include "engine/cuda/upload.h"
#include "engine/cuda/waiting.h"

#define LANES 2 /* of a model; a third would wait for the second */

struct cuda_lane {
    struct shape_class shape; /* of the batch at hand */
    struct upload upload;
    struct results results;
    struct graphs graphs;
    cudaEvent_t is_up, is_computed, is_down;
    struct durations durations;
};

/* Whether it succeeds or not, lane_free is owed. */
int lane_open(const struct plan *plan, struct cuda_lane *lane, struct error *error);
void lane_free(struct cuda_lane *lane);

/* Runs the batch, as backend_functions.run. `run` has what is the model's. */
int lane_run(struct cuda_lane *lane, struct backend *backend, struct cuda_run run, const struct batch *batch,
             struct error *error);

#endif
