/* served_model: the parts of a loaded model besides its weights: the names of its classes, and the conversions of
 * pictures and texts to its input. */
#ifndef SERVER_SERVED_MODEL_H
#define SERVER_SERVED_MODEL_H

#include "config/config.h"
#include "server/http/service.h"
#include "weights/weights.h"

/* Sets labels, image, codec and prompts of `served`, whose model is loaded. A model accepts pictures if its only
 * required input has the shape (3, height, width). The key `image` is necessary only if the model leaves height or
 * width free. Without the key `tokenizer`, the file tokenizer.json in `folder` is the model's tokenizer. If the model
 * is built in, `builtin` describes the model, and `folder` is NULL. `served` points to the texts of labels and prompts
 * in `config`, which must outlive `served`. Returns -1 if a key or a tokenizer does not fit the model, or if memory is
 * lacking. The caller must call served_model_free, even after a failure. */
int served_model_open(struct served_model *served, const char *folder, const struct weights_builtin *builtin,
                      const struct model_config *config, struct error *error);

void served_model_free(struct served_model *served); /* may be called for a zeroed struct */

#endif
