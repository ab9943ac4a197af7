/* loaded: loads a model into its own engine. The model is a reference case, or a built-in model of the binary. */
#ifndef TESTS_UNIT_LOADED_H
#define TESTS_UNIT_LOADED_H

#include "engine/engine.h"
#include "weights/weights.h"

struct loaded {
    struct engine *engine;
    struct model *model;
};

/* Fails the running test unless `result` is 0. */
void must(int result, const struct error *error);

/* Loads the case tests/reference/<prefix><name> into an engine. `kwargs` replaces the kwargs of the case, unless it is
 * NULL. `load` opens an engine with one thread, load_with an engine with the given options. Returns the result of
 * engine_load. Set *loaded to zero before the call. Call unload after success and after failure. */
int load(const char *prefix, const char *name, const char *kwargs, struct loaded *loaded, struct error *error);
int load_with(const struct engine_options *options, const char *prefix, const char *name, const char *kwargs,
              struct loaded *loaded, struct error *error);

/* Loads a built-in model of the binary. If this fails, the running test fails. */
struct loaded load_builtin(enum weights_builtin_index index, const struct engine_options *options);

void unload(struct loaded *loaded);

/* Expects that model_check refuses the item, with a message that contains both texts. */
void assert_refused(const struct loaded *loaded, struct engine_item item, const char *first, const char *second);

#endif
