/* model_version: a model as loaded from its files. When the files change, a new version is loaded beside the old
 * one. */
#ifndef SERVER_MODEL_VERSION_H
#define SERVER_MODEL_VERSION_H

#include "engine/engine.h"
#include "server/http/service.h"
#include "weights/weights.h"

#include <stdint.h>
#include <stdio.h>

struct model_version {
    /* Where the model comes from. Not owned by the version. NULL if the model is built in. */
    const struct model_source *given;
    struct weights_builtin builtin; /* used only if `given` is NULL */
    uint64_t fingerprint;           /* the folder's model_folder_fingerprint, computed before the files were read */
    char *name;
    struct model_config config;
    struct served_model served; /* served.model is NULL before model_version_load */
    int64_t n_sets; /* number of sets of models that contain this version. Guarded by a lock of the owner (models.c) */
};

struct model_load_options {
    bool draws;         /* draw a progress bar if loading takes long */
    bool logs;          /* write log lines about loading */
    bool serves_others; /* other models are served during the loading. A model that does not fit into the memory beside
                           them is refused */
};

/* Reads the configuration of a model, and finds its name. `given` must outlive the result. If `given` is NULL, the
 * model is the built-in model `index`. Returns NULL after an error. The caller must call model_version_close. */
struct model_version *model_version_open(const struct model_source *given, enum weights_builtin_index index,
                                         struct error *error);

/* Loads the model, and the parts with which it is served (served_model.h). Refuses files that change during the
 * loading. After a failure, only model_version_close may be called. */
int model_version_load(struct model_version *version, struct engine *engine, const struct model_load_options *options,
                       struct error *error);
void model_version_close(struct model_version *version); /* NULL does nothing */

/* Loads one model, and writes its plan to `out`. `given` is NULL for the first built-in model. */
int model_version_explain(const struct model_source *given, struct engine *engine, FILE *out, struct error *error);

#endif
