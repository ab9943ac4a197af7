/* texts: reads a tensor of datatype BYTES that contains a text for each item. Its texts replace the ids of an input.
 * Its shape is (batch) or (batch, 1). The texts may have different numbers of tokens. */
#ifndef SERVER_DIALECTS_V2_TEXTS_H
#define SERVER_DIALECTS_V2_TEXTS_H

#include "server/dialects/text_inputs.h"
#include "server/dialects/v2/kinds.h"

/* Whether the tensor contains texts for an input that accepts ids. */
bool v2_texts_are_given(const struct v2_tensor *tensor, const struct model_input *input);

/* Encodes the texts of input `index`, and sets tensor->texts. On failure, this function and the next one set
 * request->failure and return -1. */
int v2_texts_read(struct request *request, const struct text_inputs_options *options, struct v2_tensor *tensor,
                  int index);

/* Reads the parameters of the request that concern texts. The caller sets `options` to the defaults. */
int v2_texts_options(struct request *request, const json_t *parameters, struct text_inputs_options *options);

#endif
