/* backend: a device that runs plans. A table of functions, entered once a batch; engine/cpu is the first. */
#ifndef ENGINE_BACKEND_H
#define ENGINE_BACKEND_H

#include "engine/padder.h"

struct backend;       /* a device and its threads */
struct backend_model; /* a plan with weights and arena on that device */

struct backend_functions {
    const char *name;

    /* Owes close. */
    int (*open)(const struct engine_options *options, struct backend **backend, struct error *error);
    void (*close)(struct backend *backend);
    const char *(*kernels)(const struct backend *backend); /* for people; valid while the backend is */
    bool (*batch_invariant)(const struct backend *backend);

    /* Makes the weights resident and reserves the arena. The plan outlives the model; a backend takes over weights, or
     * frees those that it has copies of. Owes unprepare. */
    int (*prepare)(struct backend *backend, struct plan *plan, struct backend_model **model, struct error *error);
    void (*unprepare)(struct backend_model *model);

    /* Bytes of resident weights. */
    size_t (*weights_bytes)(const struct backend_model *model);

    /* Bytes held besides these and plan->arena_bytes: scratch. */
    size_t (*scratch_bytes)(const struct backend_model *model);

    /* Runs the steps over a laid out batch and writes what its items want. */
    int (*run)(struct backend_model *model, const struct batch *batch, struct error *error);
};

extern const struct backend_functions backend_cpu;

#endif
