/* models: opens, names and loads the models of --model. */
#ifndef SERVER_MODELS_H
#define SERVER_MODELS_H

#include "engine/engine.h"
#include "server/model_folders.h"

#include <stdio.h>

struct source;

/* The served models, as parallel arrays. */
struct models {
    struct model_folders folders;
    struct source *sources;       /* (count). They own the names. Their files are closed after loading */
    struct served_model *served;  /* (count), for service_options */
    const char **names;           /* (count), for the metrics */
    struct model **engine_models; /* (count), for the batcher */
    int64_t count;
};

/* Reads all configurations and compares all names before it loads the first model. Zero the struct first. The caller
 * must call models_close, even after a failure. */
int models_open(struct models *models, const struct settings *settings, struct engine *engine, struct error *error);
void models_close(struct models *models);

/* Loads one model, and writes its plan to `out`. `given` is NULL for the first built-in model. */
int models_explain(const struct model_source *given, struct engine *engine, FILE *out, struct error *error);

#endif
