/* model: functions of a model that only the files of engine/ call. engine.h has the public functions. */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include "engine/plan/plan.h"
#include "weights/weights.h"

struct engine;
struct model;
struct family_class;

/* Like engine_load, for a class that need not belong to a family. */
int model_load(struct engine *engine, const struct family_class *class, const struct model_config *config,
               struct weights *weights, void (*progress)(void *context, double fraction), void *context,
               struct model **model, struct error *error);

const struct plan *model_plan(const struct model *model);

/* For benchmarks. From now on, each batch that the CPU runs on lane 0 adds the duration of each step, in seconds, to
 * `seconds` (steps + 1). The last element is for copying all inputs. NULL ends the measurement. While times are
 * measured, no other thread may call functions of the model. */
void model_time_steps(struct model *model, double *seconds);

/* Prepares the calling thread for batches on the lane. See backend_functions.enter. */
int model_enter(struct model *model, int lane, struct error *error);

#endif
