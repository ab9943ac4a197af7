/* lane: one of a model's batches in flight. While the batch of lane A is computed, that of lane B is copied:
 *
 *     up:       A up     B up           A up
 *     compute:           A compute      B compute      A compute
 *     down:                             A down         B down
 *
 * A lane has memory of its own for uploads and results. Activations and scratch belong to the model, and its lanes use
 * them in turn. A lane's thread waits for its batch before it starts the next, so the lane's memory is free by then. */
#ifndef ENGINE_CUDA_LANE_H
#define ENGINE_CUDA_LANE_H

#include "engine/cuda/device.h"
#include "engine/cuda/graphs.h"
#include "engine/cuda/results.h"
#include "engine/cuda/upload.h"
#include "engine/cuda/waiting.h"

#define LANES 2 /* of a model. A third would only wait for the second */

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

/* Runs the batch like backend_functions.run. `run` has the model's members set. */
int lane_run(struct cuda_lane *lane, struct backend *backend, struct cuda_run run, const struct batch *batch,
             struct error *error);

#endif
