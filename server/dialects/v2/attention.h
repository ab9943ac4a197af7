/* attention: GET /v2/models/{}/attention.png returns a picture of the attention weights for one text. Each cell of the
 * picture is one weight of a softmax. The query of the URL contains the text or its ids, and chooses what is drawn:
 *
 *     text          the text. Needs a model with a tokenizer
 *     ids           the ids in place of a text, such as 5,17,3
 *     layer, head   the only layer or head that is drawn, counted from 0. Default: all
 *     rows          maximum number of rows of the weights that each panel shows. Default: all
 *     scale         "all": the colours of all panels end at the same value, the largest one.
 *                   "each": the colours of each panel end at the panel's largest value. Default: all
 *     cell          width and height of a cell in pixels, 1 to 32. Default: at most 8, less for large pictures
 *     truncate      true or false, as in the JSON bodies */
#ifndef SERVER_DIALECTS_V2_ATTENTION_H
#define SERVER_DIALECTS_V2_ATTENTION_H

#include "server/http/routes.h"

enum outcome v2_attention_read(struct request *request);
int v2_attention_answer(struct request *request);

/* Whether this route can draw an attention of the model. The model's outputs must contain the softmax of this
 * attention. */
bool v2_attention_fits(const struct model_info *info);

#endif
