/* served_model: what a loaded model has beside its weights: the names of its classes, and how pictures and texts become
 * its input. */
#ifndef SERVER_SERVED_MODEL_H
#define SERVER_SERVED_MODEL_H

#include "config/config.h"
#include "server/http/service.h"
#include "weights/weights.h"

/* Sets labels, image, codec and prompts of `served`, whose model is loaded. A model with one needed input (3, height,
 * width) takes pictures, also without the key `image`. Without the key `tokenizer`, a file tokenizer.json in `folder`
 * is the model's tokenizer. `builtin` is the model if it is built in. Then `folder` is NULL. The texts of labels and
 * prompts stay those of `config`, which outlives `served`. -1: a key or a tokenizer does not fit the model, or there is
 * no memory. served_model_free is owed either way. */
int served_model_open(struct served_model *served, const char *folder, const struct weights_builtin *builtin,
                      const struct model_config *config, struct error *error);

void served_model_free(struct served_model *served); /* a zeroed one is harmless */

#endif
