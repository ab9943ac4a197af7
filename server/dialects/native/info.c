/* info: /health, /info and /metrics. They never wait for a model. */
#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/common/metrics.h"
#include "server/common/process.h"
#include "server/dialects/native/routes.h"
#include "server/dialects/native/served.h"
#include "server/dialects/text_inputs.h"
#include "server/http/tls.h"
#include "server/tracing/tracer.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum outcome native_live(struct request *request)
{
    writer_text(&request->answer, "{\"status\":\"ok\"}");
    return OUTCOME_ANSWERED;
}

/* Whether any device has failed and is not repaired. The batches of such a device run on the CPU or on other
 * devices. */
static bool degraded(const struct engine *engine)
{
    struct engine_device devices[ENGINE_MAX_DEVICES];
    int count = engine_devices(engine, devices, ENGINE_MAX_DEVICES);
    bool works = true;
    for (int i = 0; i < count; i++)
        works = works && devices[i].works;
    return !works;
}

enum outcome native_ready(struct request *request)
{
    if (atomic_load(&request->service->ready)) {
        if (!degraded(request->service->options.engine))
            return native_live(request);
        writer_text(&request->answer, "{\"status\":\"degraded\"}");
        return OUTCOME_ANSWERED;
    }
    failure_set(&request->failure, FAILURE_UNAVAILABLE, "the server is not ready: it is starting or stopping");
    return OUTCOME_FAILED;
}

/* The key_ functions write a comma, the key and the value: ,"key":value. */
static void key_integer(struct writer *writer, const char *key, int64_t value)
{
    writer_format(writer, ",\"%s\":", key);
    writer_integer(writer, value);
}

static void key_string(struct writer *writer, const char *key, const char *value)
{
    writer_format(writer, ",\"%s\":", key);
    writer_string0(writer, value);
}

static void key_bool(struct writer *writer, const char *key, bool value)
{
    writer_format(writer, ",\"%s\":%s", key, value ? "true" : "false");
}

static const char *const kinds[] = {[INPUT_IDS] = "ids",
                                    [INPUT_ROWS] = "floats",
                                    [INPUT_MASK] = "mask",
                                    [INPUT_ATTENTION_MASK] = "attention_mask",
                                    [INPUT_IGNORED] = "ignored"};

static void write_input(struct writer *writer, const struct model_input *input)
{
    writer_text(writer, "{\"name\":");
    writer_string0(writer, input->name);
    key_string(writer, "kind", kinds[input->kind]);
    if (input->kind == INPUT_ROWS)
        key_integer(writer, "columns", input->columns);
    key_integer(writer, "max_length", input->max_length);
    key_bool(writer, "optional", input->optional);
    writer_text(writer, "}");
}

static void write_labels(struct writer *writer, const struct served_model *served)
{
    if (!served->labels) {
        key_string(writer, "labels", NULL);
        return;
    }
    writer_text(writer, ",\"labels\":[");
    for (int64_t i = 0; i < model_info(served->model)->output_columns; i++) {
        if (i > 0)
            writer_text(writer, ",");
        writer_string0(writer, served->labels[i].text);
    }
    writer_text(writer, "]");
}

/* Writes the height and width of the picture that the model reads. null if the model accepts no pictures. */
static void write_image(struct writer *writer, const struct served_model *served)
{
    if (served->image.height == 0)
        key_string(writer, "image", NULL);
    else
        writer_format(writer, ",\"image\":[%" PRId64 ",%" PRId64 "]", served->image.height, served->image.width);
}

/* Writes how the model's tokenizer converts texts to ids. */
static void write_tokenizer(struct writer *writer, const struct text_codec *codec)
{
    key_string(writer, "tokenizer", codec ? text_codec_name(codec) : NULL);
    if (!codec)
        return;
    if (text_codec_byte_offset(codec) >= 0)
        key_integer(writer, "tokenizer_offset", text_codec_byte_offset(codec));
    key_integer(writer, "tokenizer_ids", text_codec_ids(codec));
    key_integer(writer, "template_tokens", text_codec_template_tokens(codec));
}

static void write_model(struct writer *writer, const struct served_model *served)
{
    const struct model_info *info = model_info(served->model);
    writer_text(writer, "{\"name\":");
    writer_string0(writer, served->name);
    key_string(writer, "architecture", info->architecture);
    writer_text(writer, ",\"inputs\":[");
    for (int i = 0; i < info->n_inputs; i++) {
        if (i > 0)
            writer_text(writer, ",");
        write_input(writer, &info->inputs[i]);
    }
    writer_text(writer, "]");
    key_integer(writer, "vocabulary", info->vocabulary);
    key_integer(writer, "hidden_columns", info->hidden_columns);
    key_integer(writer, "output_columns", info->output_columns);
    key_bool(writer, "has_logits", info->has_logits);
    key_string(writer, "gives", info->n_tensors > 0 ? "tensors" : info->gives_vector ? "vector" : "rows");
    writer_text(writer, ",\"routes\":");
    native_write_routes(writer, served);
    write_labels(writer, served);
    write_image(writer, served);
    key_integer(writer, "parameters", info->parameters);
    key_integer(writer, "weights_bytes", (int64_t)info->weights_bytes);
    key_integer(writer, "arena_bytes", (int64_t)info->arena_bytes);
    key_integer(writer, "slots", info->n_slots);
    key_integer(writer, "slot_bytes", (int64_t)info->slot_bytes);
    key_string(writer, "padding", info->padding);
    key_string(writer, "pooling", pooling_name(info->pooling));
    key_bool(writer, "normalize", info->normalize);
    key_bool(writer, "auto_truncate", info->auto_truncate);
    write_tokenizer(writer, served->codec);
    key_string(writer, "device", info->device);
    key_string(writer, "dtype", dtype_name(info->dtype));
    key_bool(writer, "batch_invariant", info->batch_invariant);
    key_string(writer, "notice", info->notice ? info->notice : info->cpu_notice);
    writer_text(writer, "}");
}

static void write_devices(struct writer *writer, const struct engine *engine)
{
    struct engine_device devices[ENGINE_MAX_DEVICES];
    int count = engine_devices(engine, devices, ENGINE_MAX_DEVICES);
    writer_text(writer, ",\"devices\":[");
    for (int i = 0; i < count; i++) {
        writer_text(writer, i > 0 ? ",{\"name\":" : "{\"name\":");
        writer_string0(writer, devices[i].name);
        key_string(writer, "kernels", devices[i].kernels);
        key_string(writer, "state", devices[i].works ? "ok" : "failed");
        writer_text(writer, "}");
    }
    writer_text(writer, "]");
}

/* The name of a data type in text-embeddings-inference. */
static const char *long_dtype(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return "float32";
    case DTYPE_F16:
        return "float16";
    case DTYPE_BF16:
        return "bfloat16";
    default:
        return dtype_name(dtype);
    }
}

/* Writes maps from indices of classes to names, and back. If several classes have the same name, label2id maps
 * this name to the last of these classes, as a Python dict does. */
static void write_classifier(struct writer *writer, const struct served_model *served)
{
    int64_t count = model_info(served->model)->output_columns;
    bool first = true;
    writer_text(writer, "{\"classifier\":{\"id2label\":{");
    for (int64_t i = 0; i < count; i++) {
        writer_format(writer, "%s\"%" PRId64 "\":", i > 0 ? "," : "", i);
        writer_string0(writer, served->labels[i].text);
    }
    writer_text(writer, "},\"label2id\":{");
    for (int64_t i = 0; i < count; i++) {
        if (served->labels[i].is_repeated_later)
            continue;
        writer_text(writer, first ? "" : ",");
        writer_string0(writer, served->labels[i].text);
        writer_format(writer, ":%" PRId64, i);
        first = false;
    }
    writer_text(writer, "}}}");
}

static void write_model_type(struct writer *writer, const struct served_model *served)
{
    writer_text(writer, ",\"model_type\":");
    if (native_is_classifier(served)) {
        write_classifier(writer, served);
        return;
    }
    writer_text(writer, "{\"embedding\":{\"pooling\":");
    writer_string0(writer, pooling_name(model_info(served->model)->pooling));
    writer_text(writer, "}}");
}

/* Writes the settings, and the keys that /info has in text-embeddings-inference. Those about a model describe the first
 * model. */
static void write_settings(struct writer *writer, const struct request *request)
{
    const struct service_options *options = &request->service->options;
    const struct settings *settings = options->settings;
    const struct served_model *first = &request->set->models[0];
    const struct model_info *info = model_info(first->model);
    writer_text(writer, "{\"model_id\":");
    writer_string0(writer, first->name);
    key_string(writer, "served_model_name", first->name);
    key_string(writer, "model_sha", NULL);
    key_string(writer, "model_dtype", long_dtype(info->dtype));
    write_model_type(writer, first);
    key_integer(writer, "max_concurrent_requests", settings->max_queue_requests);
    key_integer(writer, "max_input_length", items_limit(info, 0).tokens);
    key_integer(writer, "max_batch_tokens", settings->max_batch_tokens);
    key_integer(writer, "max_batch_requests", settings->max_batch_requests);
    key_integer(writer, "max_batch_ms", settings->max_batch_ms);
    key_integer(writer, "max_client_batch_size", settings->max_client_batch_size);
    key_integer(writer, "payload_limit", settings->payload_limit);
    key_bool(writer, "auto_truncate", settings->auto_truncate || info->auto_truncate);
    key_integer(writer, "tokenization_workers", settings->http_threads);
    key_string(writer, "version", LINFORMERD_VERSION);
    key_string(writer, "sha", NULL);
    key_string(writer, "docker_label", NULL);
}

enum outcome native_info(struct request *request)
{
    const struct service_options *options = &request->service->options;
    struct writer *writer = &request->answer;
    bool invariant = true;
    for (int64_t i = 0; i < request->set->n_models; i++)
        invariant = invariant && model_info(request->set->models[i].model)->batch_invariant;
    write_settings(writer, request);
    key_string(writer, "device", engine_device(options->engine));
    key_string(writer, "dtype", dtype_name(engine_dtype(options->engine)));
    key_string(writer, "kernels", engine_kernels(options->engine));
    key_string(writer, "notice", engine_cpu_notice(options->engine));
    write_devices(writer, options->engine);
    key_bool(writer, "batch_invariant", invariant);
    writer_text(writer, ",\"models\":[");
    for (int64_t i = 0; i < request->set->n_models; i++) {
        if (i > 0)
            writer_text(writer, ",");
        write_model(writer, &request->set->models[i]);
    }
    writer_text(writer, "]}");
    return OUTCOME_ANSWERED;
}

static struct metrics_model_now model_now(const struct service *service, const struct served_model *served)
{
    const struct model_info *info = model_info(served->model);
    struct batcher_depth depth = batcher_depth(service->options.batcher, served->batcher_index);
    return (struct metrics_model_now){
        .requests = depth.requests,
        .tokens = depth.tokens,
        .generates = info->is_causal,
        .waiting_for_slots = depth.waiting_for_slots,
        .slots = depth.slots,
        .slots_used = depth.slots_used,
        .slot_bytes = info->n_slots * (int64_t)info->slot_bytes,
        .weights_bytes = (int64_t)info->weights_bytes,
    };
}

enum outcome native_metrics(struct request *request)
{
    struct service *service = request->service;
    const struct engine *engine = service->options.engine;
    struct tracer_counts spans = tracer_counts(service->options.tracer);
    struct metrics_now now = {
        .n_devices = engine_devices(engine, now.devices, ENGINE_MAX_DEVICES),
        .batches = engine_counts(engine),
        .connections = atomic_load(&service->connections),
        .certificate_end_s = service->options.tls ? tls_end_s(service->options.tls) : 0,
        .log_lines_dropped = log_lines_dropped(),
        .spans_sent = spans.sent,
        .spans_dropped = spans.dropped,
        .process = process_state_now(),
        .started_s = service->started_s,
        .uptime_s = (double)(clock_ns() - service->opened_ns) / 1e9,
    };
    size_t length = 0;
    now.n_models = metrics_models(service->options.metrics);
    struct metrics_model_now *models = request_memory(request, now.n_models, sizeof *models);
    if (!models)
        return OUTCOME_FAILED;
    for (int64_t i = 0; i < now.n_models; i++)
        models[i].absent = true;
    for (int64_t i = 0; i < request->set->n_models; i++) {
        const struct served_model *served = &request->set->models[i];
        if (served->metrics < now.n_models)
            models[served->metrics] = model_now(service, served);
    }
    now.models = models;
    char *text = metrics_text(service->options.metrics, &now, &length);
    if (!text) {
        failure_memory(&request->failure);
        return OUTCOME_FAILED;
    }
    request->answer = (struct writer){.data = text, .length = length, .capacity = length};
    request->answer_type = "text/plain; version=0.0.4; charset=utf-8";
    return OUTCOME_ANSWERED;
}
