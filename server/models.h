/* models: the models of the settings, or the built-in models if the settings name none. They are loaded at the start.
 * While the daemon serves, changed models are loaded again, and single models can be loaded and unloaded.
 *
 *     models_open -> models_serve -> (models_reload, the functions of model_control …) -> models_stop -> models_close
 *
 * A new version of a model is loaded beside the old one, on the thread that asks for it. Then a new set of models
 * becomes the current one (http/model_sets.h). Requests that began before use the old version until they end. A
 * separate thread frees versions that no request uses. */
#ifndef SERVER_MODELS_H
#define SERVER_MODELS_H

#include "engine/engine.h"
#include "server/http/service.h"

struct models;

/* Loads the models of the settings. All configurations are read and all names are compared before the first model is
 * loaded. After success the caller must call models_close. `settings` and `engine` must outlive the result. */
int models_open(const struct settings *settings, struct engine *engine, struct models **models, struct error *error);

/* These functions return the loaded models, for the batcher and the metrics, which must use the same order. The arrays
 * are valid until models_serve. */
int64_t models_count(const struct models *models);
struct model **models_engine_models(const struct models *models);
const char *const *models_names(const struct models *models);

/* Begins to serve: makes the first set, and starts the thread that frees old versions. `batcher` and `metrics` must
 * outlive models_stop. After success the caller must call models_stop. */
int models_serve(struct models *models, struct batcher *batcher, struct metrics *metrics, struct error *error);

/* These functions return the members `sets` and `control` of struct service_options. Call them after models_serve. */
struct model_sets *models_sets(struct models *models);
const struct model_control *models_control(const struct models *models);

/* Loads new models, and models whose files have changed. Logs the outcome. A model that cannot be loaded stays as it
 * is. May take minutes. Any thread may call models_reload, after models_serve. */
void models_reload(void *models);

/* Makes a running models_reload end after the model that is being loaded. Does not wait for the end. */
void models_stop_reload(struct models *models);

/* Ends the thread. No request may still use models, and no models_reload may run. */
void models_stop(struct models *models);
void models_close(struct models *models); /* NULL does nothing */

#endif
