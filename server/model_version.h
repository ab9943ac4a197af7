/* model_version: a model as its files were when they were read. When the files change, a new version is loaded beside
 * the old one. */
#ifndef SERVER_MODEL_VERSION_H
#define SERVER_MODEL_VERSION_H

#include "engine/engine.h"
#include "server/http/service.h"
#include "weights/weights.h"

#include <stdint.h>
#include <stdio.h>

struct model_version {
    const struct model_source *given; /* borrowed. NULL if the model is built in */
    struct weights_builtin builtin;   /* only if `given` is NULL */
    uint64_t fingerprint;             /* of the folder, before its files were read */
    char *name;
    struct model_config config;
    struct served_model served; /* its model is NULL before model_version_load */
    int64_t n_sets;             /* sets of models that contain this version. Guarded by the owner's lock */
};

struct model_load_options {
    bool draws;     /* draws a bar if the loading takes long */
    bool logs;      /* logs the loading */
    bool is_beside; /* other models are served meanwhile. Refuses a model that does not fit into the memory beside them
                     */
};

/* Reads the configuration, and finds the name. `given` must outlive the result. If `given` is NULL, the model is the
 * built-in model `index`. NULL after an error. The caller must call model_version_close. */
struct model_version *model_version_open(const struct model_source *given, enum weights_builtin_index index,
                                         struct error *error);

/* Loads the model and opens what it is served with. Also refuses files that change meanwhile. After a failure, only
 * model_version_close may follow. */
int model_version_load(struct model_version *version, struct engine *engine, const struct model_load_options *options,
                       struct error *error);
void model_version_close(struct model_version *version); /* NULL does nothing */

/* Loads one model, and writes its plan to `out`. `given` is NULL for the first built-in model. */
int model_version_explain(const struct model_source *given, struct engine *engine, FILE *out, struct error *error);

#endif
