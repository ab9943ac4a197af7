/* lane: the part of an engine's lane (engine.h) that belongs to one model. A lane runs one batch at a time. While the
 * device computes the batch of lane A, it copies the batch of lane B:
 *
 *     up:       A up     B up                          A up
 *     compute:           A compute      B compute
 *     down:                             A down         B down
 *
 * A lane has its own memory for uploads and results. The memory for activations and scratch belongs to the model, and
 * the model's lanes use it alternately. A lane's thread starts the next batch after the results of its batch have
 * arrived. At this time, the lane's memory is free. */
#ifndef ENGINE_CUDA_LANE_H
#define ENGINE_CUDA_LANE_H

#include "engine/cuda/device.h"
#include "engine/cuda/graphs.h"
#include "engine/cuda/results.h"
#include "engine/cuda/upload.h"
#include "engine/cuda/waiting.h"

#define LANES 2 /* number of lanes of each model. A third lane would only wait for the second */

struct cuda_lane {
    struct batch_shape shape; /* shape of the current batch */
    struct upload upload;
    struct results results;
    struct graphs graphs;
    cudaEvent_t is_up, is_computed, is_down;
    struct durations durations;
};

/* The caller must call lane_free, even after failure. */
int lane_open(const struct plan *plan, struct cuda_lane *lane, struct error *error);
void lane_free(struct cuda_lane *lane);

/* Runs the batch like backend_functions.run. The members of `run` that belong to the model must be set. */
int lane_run(struct cuda_lane *lane, struct backend *backend, struct cuda_run run, const struct batch *batch,
             struct error *error);

#endif
