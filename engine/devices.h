/* devices: what an engine computes on, and what becomes of a device that fails.
 *
 * A plan is placed on each of the engine's devices, a replica on each, or on the CPU. The CPU stands behind the
 * devices: a batch that fails on one runs again there, and so does what its lane is given until the device is back. For
 * that the plan's float32 weights stay in the host's memory, and OpenBLAS multiplies by them where they are; the CPU's
 * arena is address space until such a batch comes.
 *
 * A device that failed gets no batches. As soon as none runs on it any more, its replicas are taken off, it is closed,
 * opened again, and the replicas are put back, from the same weights: a tenth of a second after the failure, then, as
 * long as that fails, or as it fails again within a minute, after pauses twice as long each, up to a minute.
 *
 * A batch that a device refuses (BACKEND_REFUSED) runs on the CPU, too, each time; the device goes on.
 *
 * A device that neither answers nor fails is waited for. */
#ifndef ENGINE_DEVICES_H
#define ENGINE_DEVICES_H

#include "engine/backend.h"

struct devices;

/* On success devices_close is owed, after all placements are closed. `notice` says why "auto" took the CPU, or
 * which devices "cuda:all" leaves out; else it is left empty. */
int devices_open(const struct engine_options *options, struct devices **devices, struct error *notice,
                 struct error *error);
void devices_close(struct devices *devices);

const char *devices_name(const struct devices *devices);       /* "cpu", "cuda:0,cuda:1" */
const char *devices_cpu_notice(const struct devices *devices); /* see engine_cpu_notice; empty: nothing */
const char *devices_kernels(const struct devices *devices);    /* of the first */
bool devices_are_cpu(const struct devices *devices);
enum dtype devices_dtype(const struct devices *devices);
int devices_states(struct devices *devices, struct engine_device *states, int room);
struct engine_counts devices_counts(const struct devices *devices);

/* Where a plan is. */
struct placement {
    struct devices *devices;
    struct plan *plan;
    struct replica *replicas;  /* (n_replicas): one on each device */
    int n_replicas;            /* 0: the plan is on the CPU */
    struct backend_model *cpu; /* it, or what stands behind the replicas */

    int first_lane, n_lanes;
    const char *device, *kernels;
    enum dtype dtype;
    bool batch_invariant;
    size_t weights_bytes, arena_bytes; /* of all replicas together, the arena with scratch */
    struct error cpu_notice;           /* what the plan does without on the CPU; empty: nothing, or it is on devices */
};

/* On the devices; where one refuses, and "auto" chose them, on the CPU, and `notice` says why. On success
 * placement_close is owed. */
int placement_open(struct devices *devices, struct plan *plan, struct placement *placement, struct error *notice,
                   struct error *error);
void placement_close(struct placement *placement);

/* See model_ready_lanes and model_run. */
uint64_t placement_ready_lanes(const struct placement *placement);

/* The calling thread will run batches on the lane: see backend_functions.enter. */
int placement_enter(struct placement *placement, int lane, struct error *error);
int placement_run(struct placement *placement, int lane, const struct batch *batch, struct error *error);

#endif
