/* served_model: what the keys `labels` and `image` of config.json mean for a loaded model. */
#ifndef SERVER_SERVED_MODEL_H
#define SERVER_SERVED_MODEL_H

#include "config/config.h"
#include "server/http/service.h"

/* Sets labels and image of `served`, whose model is loaded. A model with one needed input (3, height, width) takes
 * pictures, also without the key `image`. The texts of the labels stay those of `config`, which outlives `served`. -1:
 * a key does not fit the model, or there is no memory. served_model_free is owed either way. */
int served_model_open(struct served_model *served, const struct model_config *config, struct error *error);
void served_model_free(struct served_model *served); /* a zeroed one is harmless */

#endif
