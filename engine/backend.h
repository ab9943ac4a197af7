/* backend: a device that runs plans, as a table of functions. A batch is one call. engine/cpu's table is part of the
 * program. engine/cuda's is in a plugin, a shared object that is loaded if there is a driver. */
#ifndef ENGINE_BACKEND_H
#define ENGINE_BACKEND_H

#include "engine/options.h"
#include "engine/plan/padder.h"

struct backend;       /* a device and its threads */
struct backend_model; /* a plan with weights and arena on that device */

struct backend_functions {
    const char *name;

    /* The number of devices, at least 1. -1: there is none, or they cannot be asked. A NULL function means one. */
    int (*count)(struct error *error);

    /* Opens device `index`, 0 <= index < count. On success close is owed, and `error` may hold a warning, such as
     * "oneDNN not found"; backend_cpu sets or empties it. After a failed run a device may be useless until all its
     * models are unprepared and it is closed and opened again. The caller does that. */
    int (*open)(const struct engine_options *options, int index, struct backend **backend, struct error *error);
    void (*close)(struct backend *backend);
    const char *(*kernels)(const struct backend *backend); /* for people to read; valid while the backend is open */
    enum dtype (*dtype)(const struct backend *backend);    /* of products with weights; never DTYPE_AUTO */
    bool (*batch_invariant)(const struct backend *backend);

    /* Whether there is a kernel for the operation. `prepare` refuses plans with other operations. */
    bool (*has_operation)(enum operation operation);

    /* Makes the weights resident and reserves the arena. On success unprepare is owed. The plan outlives the model.
     * One prepare or unprepare at a time on a device; other models may run there meanwhile.
     * `shared`: other devices use the same plan, and it is not changed. Else the backend may take over weights, or free
     * those that it has copied; after a failure, too, the plan's weights are then lost.
     * On success backend_cpu's `error` says what the model does without, or is empty. */
    int (*prepare)(struct backend *backend, struct plan *plan, bool shared, struct backend_model **model,
                   struct error *error);
    void (*unprepare)(struct backend_model *model);

    /* Lanes of the model: batches that it can have in flight, at least 1. A NULL function means 1. */
    int (*lanes)(const struct backend_model *model);

    /* Bytes of resident weights. */
    size_t (*weights_bytes)(const struct backend_model *model);

    /* Bytes held besides weights and plan->arena_bytes: scratch. Memory of unknown size, such as that of CUDA graphs,
     * is not counted, nor is memory that is empty at first, such as that for attention masks. */
    size_t (*scratch_bytes)(const struct backend_model *model);

    /* Called by a thread before its first batch. It allocates what a thread needs to run batches, so that a machine
     * with too little fails at the start. A NULL function means that nothing is needed. */
    int (*enter)(struct backend *backend, struct error *error);

    /* Runs the steps over a laid out batch, and writes what its items want. One thread at a time uses a lane,
     * 0 <= lane < lanes. Several threads may use different lanes and models of a device. After a failure nothing
     * writes to the items any more. -1: the device may be useless. BACKEND_REFUSED: the device works, but has not
     * enough memory for this batch. */
    int (*run)(struct backend_model *model, int lane, const struct batch *batch, struct error *error);
};

#define BACKEND_REFUSED (-2)

/* Refuses a plan with an operation that the backend has no kernel for, by the operation's name. */
static inline int backend_check_operations(const struct backend_functions *functions, const struct plan *plan,
                                           struct error *error)
{
    for (int i = 0; i < plan->n_steps; i++)
        if (!functions->has_operation(plan->steps[i].operation))
            return error_set(error, "the %s engine lacks the operation %s", functions->name,
                             operation_name(plan->steps[i].operation));
    return 0;
}

extern const struct backend_functions backend_cpu;

/* Loads the CUDA backend from libengine_cuda.so, in the program's own folder or in ../lib/linformerd beside it. The
 * plugin stays loaded. Returns NULL if there is no driver, or no plugin that was built for this program. `open` finds
 * out whether there is a device. */
const struct backend_functions *backend_cuda_load(struct error *error);

/* The one symbol of a plugin. It returns the plugin's functions, or NULL if caller and plugin have different ABIs. */
#define BACKEND_SYMBOL "linformerd_backend"
typedef const struct backend_functions *backend_symbol(uint64_t abi);

/* A hash of what program and plugin share: LINFORMERD_VERSION, the number of operations, sizes of structures. A change
 * that leaves all of these the same needs another BACKEND_REVISION. */
#define BACKEND_REVISION 5
static inline uint64_t backend_abi(void)
{
    const uint64_t parts[] = {
        BACKEND_REVISION,
        OP_COUNT,
        ACTIVATION_COUNT,
        POOLING_COUNT,
        DTYPE_COUNT,
        sizeof(struct plan),
        sizeof(struct plan_step),
        sizeof(struct plan_value),
        sizeof(struct plan_axis),
        sizeof(struct plan_input),
        sizeof(struct plan_weight),
        sizeof(struct batch),
        sizeof(struct engine_item),
        sizeof(struct error),
        sizeof(struct backend_functions),
        sizeof(struct engine_options),
    };
    const char version[] = LINFORMERD_VERSION;
    uint64_t abi = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        abi = (abi ^ parts[i]) * 1099511628211u;
    for (size_t i = 0; i < sizeof version; i++)
        abi = (abi ^ (uint64_t)version[i]) * 1099511628211u;
    return abi;
}

#endif
