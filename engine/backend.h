/* backend: the interface to a device that runs plans, as a table of functions. The table of engine/cpu is part of the
 * program. The table of engine/cuda is in a plugin, a shared object that is loaded if the machine has an NVIDIA
 * driver. */
#ifndef ENGINE_BACKEND_H
#define ENGINE_BACKEND_H

#include "engine/options.h"
#include "engine/plan/padder.h"

struct backend;       /* a device and its threads */
struct backend_model; /* a plan on that device: its weights and its arena, the memory of all values of a batch */

struct backend_functions {
    const char *name;

    /* Returns the number of devices, at least 1. Returns -1 if there is no device, or if the driver cannot report the
     * number. A NULL function means one device. */
    int (*count)(struct error *error);

    /* Opens device `index`, 0 <= index < count. After success the caller must call close. Even after success,
     * backend_cpu may write a warning about missing acceleration into `error`, such as "oneDNN not found". Without a
     * warning the message is empty. After a failed run the device may no longer work. Then the caller calls unprepare
     * for all models on the device, closes the device and opens it again. */
    int (*open)(const struct engine_options *options, int index, struct backend **backend, struct error *error);
    void (*close)(struct backend *backend);
    const char *(*kernels)(const struct backend *backend); /* describes the kernels. Valid while the backend is open */
    enum dtype (*dtype)(const struct backend *backend);    /* the type of products with weights. Never DTYPE_AUTO */
    bool (*batch_invariant)(const struct backend *backend);

    /* Whether there is a kernel for the operation. `prepare` refuses plans with other operations. */
    bool (*has_operation)(enum operation operation);

    /* Makes the weights resident and reserves the arena. After success the caller must call unprepare. The plan must
     * outlive the model. Only one thread at a time may call prepare or unprepare for a device. Meanwhile other models
     * may run on this device. If `shared`, other devices use the same plan, so prepare must not change it. Otherwise
     * the backend may take over the plan's weights, or free them after copying them. Then the plan loses its weights,
     * even if prepare fails. Even after success, backend_cpu may write a warning into `error`, as in open. */
    int (*prepare)(struct backend *backend, struct plan *plan, bool shared, struct backend_model **model,
                   struct error *error);
    void (*unprepare)(struct backend_model *model);

    /* The number of lanes of the model, at least 1. Each lane runs one batch at a time. A NULL function means 1. */
    int (*lanes)(const struct backend_model *model);

    /* Bytes of resident weights. */
    size_t (*weights_bytes)(const struct backend_model *model);

    /* Bytes of memory besides the weights and plan->arena_bytes. backend_cuda counts the slots, and backend_cpu does
     * not. Memory of unknown size does not count, such as the memory of CUDA graphs. Memory that is allocated later
     * does not count either, such as the memory for attention masks. */
    size_t (*scratch_bytes)(const struct backend_model *model);

    /* Each thread calls it before its first batch. It allocates the thread's resources, so that a lack of memory or
     * threads is noticed at the start of the program. A NULL function means that nothing is needed. */
    int (*enter)(struct backend *backend, struct error *error);

    /* Runs the steps over a batch from padder_lay_out, and writes the results that its items request. One thread at a
     * time uses a lane, 0 <= lane < lanes. Several threads may use different lanes and models of a device. After a
     * failed call returns, nothing writes to the items' memory. Returns -1 if the device may no longer work. Returns
     * BACKEND_REFUSED if the device works, but lacks memory for this batch. */
    int (*run)(struct backend_model *model, int lane, const struct batch *batch, struct error *error);
};

#define BACKEND_REFUSED (-2)

/* Returns -1 for a plan with an operation for which the backend has no kernel. The message names the operation. */
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
 * plugin stays loaded. Returns NULL if there is no driver, or no plugin that was built for this program. A machine with
 * a driver may have no device. Then the function succeeds, and `count` fails. */
const struct backend_functions *backend_cuda_load(struct error *error);

/* The name of the only function that a plugin exports. It returns the plugin's functions, or NULL if caller and plugin
 * have different ABIs. */
#define BACKEND_SYMBOL "linformerd_backend"
typedef const struct backend_functions *backend_symbol(uint64_t abi);

/* A hash of the interface between program and plugin. It covers LINFORMERD_VERSION, the lengths of enums, and the sizes
 * of the structures that both read, including structures behind pointers. Some changes leave all of these equal, such
 * as a new order of members. Such a change needs a new BACKEND_REVISION. */
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
        sizeof(struct plan_decision),
        sizeof(struct batch),
        sizeof(struct layout),
        sizeof(struct row_block),
        sizeof(struct wanted_row),
        sizeof(struct engine_extra),
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
