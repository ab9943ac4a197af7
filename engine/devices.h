/* devices: the devices of an engine, and their recovery after failures.
 *
 * A plan is placed on each of the engine's devices, as one replica a device, or on the CPU. With devices, the CPU is
 * the standby: a batch that fails on a device runs again on the CPU. Until the device works again, the CPU also runs
 * all batches that its lanes are given. For that the plan's float32 weights stay in the host's memory, and OpenBLAS
 * reads them in place. The CPU's arena is only address space until such a batch comes.
 *
 * A failed device gets no batches. When its last batch has ended, its replicas are removed, and it is closed and opened
 * again. Then the replicas are placed again from the same weights. The first attempt is a tenth of a second after the
 * failure. If an attempt fails, or the device fails again within a minute, the pause doubles, up to a minute.
 *
 * A batch that a device refuses (BACKEND_REFUSED) runs on the CPU, too. The device keeps its state.
 *
 * There is no time limit for a device that neither answers nor fails. */
#ifndef ENGINE_DEVICES_H
#define ENGINE_DEVICES_H

#include "engine/backend.h"

struct devices;

/* On success devices_close is owed, after all placements are closed. `notice`: see engine_notice; else it is left
 * empty. */
int devices_open(const struct engine_options *options, struct devices **devices, struct error *notice,
                 struct error *error);
void devices_close(struct devices *devices);

const char *devices_name(const struct devices *devices);       /* "cpu", "cuda:0,cuda:1" */
const char *devices_cpu_notice(const struct devices *devices); /* see engine_cpu_notice; empty: no notice */
const char *devices_kernels(const struct devices *devices);    /* of the first */
bool devices_are_cpu(const struct devices *devices);
enum dtype devices_dtype(const struct devices *devices);
int devices_states(struct devices *devices, struct engine_device *states, int room);
struct engine_counts devices_counts(const struct devices *devices);

/* A plan on its devices. */
struct placement {
    struct devices *devices;
    struct plan *plan;
    struct replica *replicas;  /* (n_replicas): one on each device */
    int n_replicas;            /* 0: the plan is on the CPU */
    struct backend_model *cpu; /* the plan on the CPU, or the replicas' standby there */

    int first_lane, n_lanes;
    const char *device, *kernels;
    enum dtype dtype;
    bool batch_invariant;
    size_t weights_bytes, arena_bytes; /* of all replicas together, the arena with scratch */
    struct error cpu_notice;           /* warning about missing acceleration on the CPU; empty: none, or on devices */
};

/* Places the plan on the devices. If a device refuses it, and "auto" chose the devices, the plan is placed on the CPU,
 * and `notice` says why. On success placement_close is owed. */
int placement_open(struct devices *devices, struct plan *plan, struct placement *placement, struct error *notice,
                   struct error *error);
void placement_close(struct placement *placement);

/* See model_ready_lanes and model_run. */
uint64_t placement_ready_lanes(const struct placement *placement);

/* To be called by a thread before it runs batches on the lane: see backend_functions.enter. */
int placement_enter(struct placement *placement, int lane, struct error *error);
int placement_run(struct placement *placement, int lane, const struct batch *batch, struct error *error);

#endif
