/* native: the table of routes, and errors in the format of text-embeddings-inference. */
#include "server/dialects/native/native.h"

#include "server/dialects/native/routes.h"
#include "server/dialects/openapi.h"

static const struct route routes[] = {
    {"POST", "/", ACCEPTS_PICTURE, .work = WORK_INFERENCE, .read = native_root_read, .answer = native_root_answer},
    {"POST", "/invocations", ACCEPTS_PICTURE, .work = WORK_INFERENCE, .read = native_root_read,
     .answer = native_root_answer},
    {"POST", "/embed", ACCEPTS_PICTURE, .work = WORK_INFERENCE, .read = native_embed_read,
     .answer = native_embed_answer},
    {"POST", "/embed_all", ACCEPTS_JSON, .work = WORK_INFERENCE, .read = native_embed_all_read,
     .answer = native_embed_all_answer},
    {"POST", "/logits", ACCEPTS_JSON, .work = WORK_INFERENCE, .read = native_logits_read,
     .answer = native_logits_answer},
    {"POST", "/similarity", ACCEPTS_JSON, .work = WORK_INFERENCE, .read = native_similarity_read,
     .answer = native_similarity_answer},
    {"POST", "/fill-mask", ACCEPTS_JSON, .work = WORK_INFERENCE, .read = native_fill_mask_read,
     .answer = native_fill_mask_answer},
    {"POST", "/predict", ACCEPTS_PICTURE, .work = WORK_INFERENCE, .read = native_predict_read,
     .answer = native_predict_answer},
    {"POST", "/classify", ACCEPTS_JSON, .work = WORK_INFERENCE, .read = native_classify_read,
     .answer = native_classify_answer},
    {"POST", "/rerank", ACCEPTS_JSON, .work = WORK_OTHER, .read = native_rerank},
    {"POST", "/embed_sparse", ACCEPTS_JSON, .work = WORK_OTHER, .read = native_embed_sparse},
    {"POST", "/generate", ACCEPTS_JSON, .work = WORK_INFERENCE, .read = native_generate_read,
     .answer = native_generate_answer},
    {"POST", "/generate_stream", ACCEPTS_JSON, .work = WORK_INFERENCE, .read = native_generate_stream_read,
     .answer = native_generate_answer},
    {"POST", "/tokenize", ACCEPTS_JSON, .work = WORK_OTHER, .read = native_tokenize},
    {"POST", "/decode", ACCEPTS_JSON, .work = WORK_OTHER, .read = native_decode},
    {"GET", "/", .open = true, .read = native_front},
    {"GET", "/ping", .open = true, .read = native_ready}, /* the health check of Amazon SageMaker */
    {"GET", "/health", .open = true, .read = native_ready},
    {"GET", "/health/live", .open = true, .read = native_live},
    {"GET", "/health/ready", .open = true, .read = native_ready},
    {"GET", "/info", .read = native_info},
    {"GET", "/openapi.json", .open = true, .read = openapi_read},
    {"GET", "/metrics", .metrics = true, .read = native_metrics},
};

static void write_failure(struct writer *writer, const struct failure *failure)
{
    writer_text(writer, "{\"error\":");
    writer_string0(writer, failure->error.message);
    writer_text(writer, ",\"error_type\":");
    writer_string0(writer, failure_type(failure->kind));
    writer_text(writer, "}");
}

const struct dialect native_dialect = {
    .routes = routes,
    .n_routes = sizeof routes / sizeof routes[0],
    .invalid_status = 422,
    .write_failure = write_failure,
    .out_of_memory = "{\"error\":\"out of memory\",\"error_type\":\"Backend\"}",
};
