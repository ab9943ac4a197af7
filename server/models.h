/* models: what --model names, opened, named and loaded. */
#ifndef SERVER_MODELS_H
#define SERVER_MODELS_H

#include "engine/engine.h"
#include "server/model_folders.h"

#include <stdio.h>

struct source;

/* The models that are served, with arrays that go along. */
struct models {
    struct model_folders folders;
    struct source *sources;       /* (count) their names stay; their files are closed once they are loaded */
    struct served_model *served;  /* (count), for service_options */
    const char **names;           /* (count) */
    struct model **engine_models; /* (count), the same for the batcher */
    int64_t count;
};

/* Reads all configurations and compares all names before the first load. On failure too models_close is owed. Zero the
 * struct first. */
int models_open(struct models *models, const struct settings *settings, struct engine *engine, struct error *error);
void models_close(struct models *models);

/* Writes the plan of one model; `given` is NULL for the built-in one. */
int models_explain(const struct model_source *given, struct engine *engine, FILE *out, struct error *error);

#endif
