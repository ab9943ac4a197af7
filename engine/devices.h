/* devices: the devices of an engine, and their recovery after failures.
 *
 * A device here is a CUDA device. A plan has one replica on each device of the engine. If the engine has no device, the
 * plan is placed on the CPU. If it has devices, the CPU is the standby: a batch that fails on a device runs again on
 * the CPU. Until the device works again, batches for its lanes run on the CPU. For this purpose the plan's float32
 * weights stay in the host's memory, and OpenBLAS reads them in place. The CPU's arena is reserved address space, which
 * uses no memory before the first such batch.
 *
 * A failed device receives no batches. When its last batch has ended, its replicas are removed. Then the device is
 * closed and opened again, and new replicas are made from the same weights. The first attempt is a tenth of a second
 * after the failure. If an attempt fails, or the device fails again within a minute, the pause doubles, up to a minute.
 *
 * A batch that a device refuses (BACKEND_REFUSED) runs on the CPU, too. The device still counts as working.
 *
 * There is no time limit for a device that neither answers nor fails. */
#ifndef ENGINE_DEVICES_H
#define ENGINE_DEVICES_H

#include "engine/backend.h"
#include "engine/sequences.h"

struct devices;

/* After success the caller must call devices_close, after closing all placements. `notice` receives the notice that
 * engine_notice returns, or stays empty. */
int devices_open(const struct engine_options *options, struct devices **devices, struct error *notice,
                 struct error *error);
void devices_close(struct devices *devices);

const char *devices_name(const struct devices *devices); /* such as "cpu" or "cuda:0,cuda:1" */
/* Like engine_cpu_notice, but returns an empty text if there is no notice. */
const char *devices_cpu_notice(const struct devices *devices);
const char *devices_kernels(const struct devices *devices); /* describes the kernels of the first device */
bool devices_are_cpu(const struct devices *devices);
enum dtype devices_dtype(const struct devices *devices);
int devices_states(struct devices *devices, struct engine_device *states, int room);
struct engine_counts devices_counts(const struct devices *devices);

/* A plan on its devices. */
struct placement {
    struct devices *devices;
    struct plan *plan;
    struct replica *replicas;    /* (n_replicas): one for each device */
    int n_replicas;              /* 0 if the plan is on the CPU */
    struct backend_model *cpu;   /* the plan on the CPU, which is the standby if there are replicas */
    struct sequences *sequences; /* NULL if the plan has no slots, or no replicas */

    int first_lane, n_lanes;
    const char *device, *kernels;
    enum dtype dtype;
    bool batch_invariant;
    size_t weights_bytes, arena_bytes; /* sums over all replicas. arena_bytes includes scratch */
    struct error cpu_notice; /* warning about missing acceleration on the CPU. Empty if there is none, or if the plan is
                                on devices */
};

/* Places the plan on the devices. If a device refuses the plan, and "auto" chose the devices, the plan is placed on the
 * CPU, and `notice` says why. After success the caller must call placement_close. */
int placement_open(struct devices *devices, struct plan *plan, struct placement *placement, struct error *notice,
                   struct error *error);
void placement_close(struct placement *placement);

/* See model_ready_lanes and model_run. */
uint64_t placement_ready_lanes(const struct placement *placement);

/* A thread must call this function before it runs batches on the lane. See backend_functions.enter. */
int placement_enter(struct placement *placement, int lane, struct error *error);
int placement_run(struct placement *placement, int lane, const struct batch *batch, struct error *error);

#endif
