/* What the engine's own files see of a model besides engine.h. */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include "engine/plan/plan.h"

struct model;

const struct plan *model_plan(const struct model *model);

/* See backend_functions.enter. */
int model_enter(struct model *model, int lane, struct error *error);

#endif
