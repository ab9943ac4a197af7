/* served_model: what belongs to a loaded model besides its weights. These are the names of its classes, and the ways in
 * which pictures and texts become its input. */
#ifndef SERVER_SERVED_MODEL_H
#define SERVER_SERVED_MODEL_H

#include "config/config.h"
#include "server/http/service.h"
#include "weights/weights.h"

/* Sets labels, image, codec and prompts of `served`, whose model is loaded. A model accepts pictures if its only
 * required input has the shape (3, height, width). The key `image` is not necessary for that. Without the key
 * `tokenizer`, the file tokenizer.json in `folder` is the model's tokenizer. If the model is built in, `builtin`
 * describes it, and `folder` is NULL. `served` borrows the texts of labels and prompts from `config`, which must
 * outlive it. Returns -1 if a key or a tokenizer does not fit the model, or if memory is lacking. The caller must call
 * served_model_free, even after a failure. */
int served_model_open(struct served_model *served, const char *folder, const struct weights_builtin *builtin,
                      const struct model_config *config, struct error *error);

void served_model_free(struct served_model *served); /* harmless for a zeroed struct */

#endif
