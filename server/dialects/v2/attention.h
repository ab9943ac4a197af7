/* attention: GET /v2/models/{}/attention.png, a picture of the attention of one text. Each cell of the picture is
 * one weight of a softmax. The query of the URL contains the text or its ids, and says what is drawn:
 *
 *     text          the text. Needs a model with a tokenizer
 *     ids           the ids in place of a text, such as 5,17,3
 *     layer, head   one layer, one head, both counted from 0. Default: all
 *     rows          most rows of each panel. Default: all
 *     scale         "all": the colours of all panels end at the same value, the largest one.
 *                   "each": the colours of each panel end at the panel's largest value. Default: all
 *     cell          pixels of a cell in each direction. Default: as many as fit well
 *     truncate      true or false, as in the JSON bodies */
#ifndef SERVER_DIALECTS_V2_ATTENTION_H
#define SERVER_DIALECTS_V2_ATTENTION_H

#include "server/http/routes.h"

enum outcome v2_attention_read(struct request *request);
int v2_attention_answer(struct request *request);

/* Whether the outputs of the model contain the softmax of an attention that this route can draw. */
bool v2_attention_fits(const struct model_info *info);

#endif
