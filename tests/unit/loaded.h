/* loaded: a reference case's model, in an engine of its own. */
#ifndef TESTS_UNIT_LOADED_H
#define TESTS_UNIT_LOADED_H

#include "engine/engine.h"

struct loaded {
    struct engine *engine;
    struct model *model;
};

/* Fails the running test unless `result` is 0. */
void must(int result, const struct error *error);

/* The weights of the case tests/reference/<prefix><name>, with its own kwargs or others, in an engine with one thread
 * or with other options. Returns what engine_load does. Zero *loaded first; unload is owed whatever comes back. */
int load(const char *prefix, const char *name, const char *kwargs, struct loaded *loaded, struct error *error);
int load_with(const struct engine_options *options, const char *prefix, const char *name, const char *kwargs,
              struct loaded *loaded, struct error *error);
void unload(struct loaded *loaded);

/* The model takes no such item, and its message holds both texts. */
void assert_refused(const struct loaded *loaded, struct engine_item item, const char *first, const char *second);

#endif
