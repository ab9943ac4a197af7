/* backend: a device that runs plans. A table of functions, entered once a batch: engine/cpu's is part of the program,
 * engine/cuda's is in a shared object of its own, a plugin, that is loaded when a device may be there. */
#ifndef ENGINE_BACKEND_H
#define ENGINE_BACKEND_H

#include "engine/options.h"
#include "engine/plan/padder.h"

struct backend;       /* a device and its threads */
struct backend_model; /* a plan with weights and arena on that device */

struct backend_functions {
    const char *name;

    /* How many devices there are, at least 1; -1: none, or they cannot be asked. NULL: one. */
    int (*count)(struct error *error);

    /* Device `index`, 0 <= index < count. Owes close. On success `error` may hold a warning, such as "oneDNN not
     * found"; backend_cpu sets it, or empties it. After a run that failed, a device may be of no use until all its
     * models were unprepared and it was closed and opened again. The caller sees to that. */
    int (*open)(const struct engine_options *options, int index, struct backend **backend, struct error *error);
    void (*close)(struct backend *backend);
    const char *(*kernels)(const struct backend *backend); /* for people; valid while the backend is */
    const char *(*dtype)(const struct backend *backend);   /* of products with weights: "f32", "bf16" … */
    bool (*batch_invariant)(const struct backend *backend);

    /* Whether the table of kernels has one for it. `prepare` refuses plans with other operations. */
    bool (*has_operation)(enum operation operation);

    /* One prepare or unprepare at a time on a device, while other models run there. Makes the weights resident and
     * reserves the arena. The plan outlives the model. `shared`: other devices have the
     * same plan, and it stays as it is; else a backend may take over weights, or free those that it has copies of; on
     * failure, too, the plan's weights are then lost. Owes unprepare. backend_cpu's `error` says on success what the
     * model does without, or is empty. */
    int (*prepare)(struct backend *backend, struct plan *plan, bool shared, struct backend_model **model,
                   struct error *error);
    void (*unprepare)(struct backend_model *model);

    /* Batches that the model can have in flight, at least 1. NULL: 1. */
    int (*lanes)(const struct backend_model *model);

    /* Bytes of resident weights. */
    size_t (*weights_bytes)(const struct backend_model *model);

    /* Bytes held besides these and plan->arena_bytes: scratch. Without what cannot be known, such as CUDA graphs, or is
     * none at first, such as room for attention masks. */
    size_t (*scratch_bytes)(const struct backend_model *model);

    /* Called by a thread before its first batch: takes what a thread needs of the system to run batches, so that a
     * start fails where there is not enough. NULL: nothing. */
    int (*enter)(struct backend *backend, struct error *error);

    /* Runs the steps over a laid out batch and writes what its items want. A lane, 0 <= lane < lanes, is used by one
     * thread at a time; different lanes, and models, of a device by several at once. On failure nothing writes to the
     * items any more. -1: the device may be of no use. BACKEND_REFUSED: it works, and runs others, but not this batch:
     * there is no memory for what the batch brings. */
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

/* The CUDA backend's functions, from the plugin libengine_cuda.so in the program's own folder or in
 * ../lib/linformerd beside that; it stays loaded. NULL: there is no driver, which is looked for first, or no plugin
 * that fits this program. Whether there is a device is for `open` to find out. */
const struct backend_functions *backend_cuda_load(struct error *error);

/* The one symbol of a plugin: its functions; NULL when it is built from other declarations than the caller. */
#define BACKEND_SYMBOL "linformerd_backend"
typedef const struct backend_functions *backend_symbol(uint64_t abi);

/* Changes with what program and plugin share: LINFORMERD_VERSION's bytes, operations, sizes of structures. A change
 * that leaves all of these as they are needs another BACKEND_REVISION. */
#define BACKEND_REVISION 4
static inline uint64_t backend_abi(void)
{
    const uint64_t parts[] = {
        BACKEND_REVISION,
        OP_COUNT,
        ACTIVATION_COUNT,
        POOLING_COUNT,
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
