/* routes: the functions of all native routes, for the table in native.c. Files with the name of a route, such as
 * embed.c, define the functions of this route and of similar routes. predict.c also defines those of POST /. front.c,
 * index.c, info.c, text.c and absent.c define the others. */
#ifndef SERVER_DIALECTS_NATIVE_ROUTES_H
#define SERVER_DIALECTS_NATIVE_ROUTES_H

#include "server/http/routes.h"

enum outcome native_root_read(struct request *request);
int native_root_answer(struct request *request);
enum outcome native_predict_read(struct request *request);
int native_predict_answer(struct request *request);
enum outcome native_classify_read(struct request *request);
int native_classify_answer(struct request *request);
enum outcome native_embed_read(struct request *request);
int native_embed_answer(struct request *request);
enum outcome native_embed_all_read(struct request *request);
int native_embed_all_answer(struct request *request);
enum outcome native_logits_read(struct request *request);
int native_logits_answer(struct request *request);
enum outcome native_similarity_read(struct request *request);
int native_similarity_answer(struct request *request);
enum outcome native_fill_mask_read(struct request *request);
int native_fill_mask_answer(struct request *request);
enum outcome native_rerank(struct request *request);
enum outcome native_embed_sparse(struct request *request);
enum outcome native_tokenize(struct request *request);
enum outcome native_decode(struct request *request);
enum outcome native_generate_read(struct request *request);
enum outcome native_generate_stream_read(struct request *request);
int native_generate_answer(struct request *request);
enum outcome native_front(struct request *request);
enum outcome native_index(struct request *request);
enum outcome native_live(struct request *request);
enum outcome native_ready(struct request *request);
enum outcome native_info(struct request *request);
enum outcome native_metrics(struct request *request);

#endif
