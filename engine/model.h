/* model: functions of a model for the engine's own files, besides those of engine.h. */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include "engine/plan/plan.h"
#include "weights/weights.h"

struct engine;
struct model;
struct family_class;

/* engine_load for a class that need not be one of a family. */
int model_load(struct engine *engine, const struct family_class *class, const struct model_config *config,
               struct weights *weights, void (*progress)(void *context, double fraction), void *context,
               struct model **model, struct error *error);

const struct plan *model_plan(const struct model *model);

/* See backend_functions.enter. */
int model_enter(struct model *model, int lane, struct error *error);

#endif
