/* record: copies method, path and client only for requests that are logged or traced, because most requests are not. */
#include "server/http/record.h"

#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/common/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 256

static enum log_level line_level(const struct service *service)
{
    return service->options.settings->access_log ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;
}

/* Sets the id of the request and its position in a trace. Without a valid x-request-id, the id is the trace id of the
 * client or of the trace that the daemon begins. If there is no trace, the id is a new one. */
static void identify(struct record *record, struct request *request)
{
    struct service *service = request->service;
    struct trace_context parent;
    bool has_parent = trace_context_parse(request->header(request, "traceparent"), &parent);
    tracer_begin(service->options.tracer, has_parent ? &parent : NULL, &record->trace);
    const unsigned char *trace_id = has_parent              ? parent.trace_id
                                    : record->trace.sampled ? record->trace.trace_id
                                                            : NULL;
    request_id_set(&request->id, &service->ids, request->header(request, "x-request-id"), trace_id);
}

void record_begin(struct record *record, struct request *request, const char *method, const char *path,
                  const struct sockaddr *address)
{
    record->begun_ns = clock_ns();
    record->logged = log_enabled(line_level(request->service));
    identify(record, request);
    if (!record->logged && !record->trace.sampled)
        return;
    snprintf(record->method, sizeof record->method, "%s", method);
    record->path = strndup(path, PATH_BYTES);
    peer_text(address, record->client);
    const char *agent = record->trace.sampled ? request->header(request, "User-Agent") : NULL;
    record->agent = agent ? strndup(agent, SPAN_NAME_BYTES) : NULL;
}

/* The time that the request waited for its first batch, in nanoseconds. 0 if it had no job. */
static int64_t job_queue_ns(const struct job *job)
{
    if (!job->finished_ns) /* the job has not ended */
        return 0;
    return (job->started_ns ? job->started_ns : job->finished_ns) - job->submitted_ns;
}

/* Adds a request for results of a model to the statistics of this model. */
static void count_inference(const struct request *request, const struct record_answer *answer, int64_t total_ns)
{
    const struct job *job = &request->job;
    const struct statistics_request counted = {
        .success = answer->status == 200,
        .total_ns = total_ns,
        .queue_ns = job_queue_ns(job),
        .input_ns = job->submitted_ns - answer->complete_ns,
        .infer_ns = job->inference_ns,
        .output_ns = clock_ns() - job->finished_ns,
    };
    metrics_inference(request->service->options.metrics, request->metrics, &counted);
}

/* The value of the label that names the route in the metrics. */
static const char *route_name(const struct record_answer *answer)
{
    return answer->route ? answer->route : "unmatched";
}

/* The name of the request's model. NULL if the request chose no model. The model may already be unloaded, so its name
 * comes from the metrics. */
static const char *model_name(const struct request *request)
{
    const struct metrics *metrics = request->service->options.metrics;
    return request->metrics != METRICS_NO_MODEL ? metrics_model_name(metrics, request->metrics) : NULL;
}

static void write_line(const struct record *record, const struct request *request, const struct record_answer *answer,
                       int64_t total_ns)
{
    const struct job *job = &request->job;
    const char *ignored = request->ignored.list;
    int64_t bytes = strcmp(record->method, "HEAD") == 0 ? 0 : answer->bytes; /* libmicrohttpd sends no body for HEAD */
    log_write(line_level(request->service), "request", "client", record->client, "request_id", request->id.text,
              "method", record->method, "path", record->path ? record->path : route_name(answer), "model",
              model_name(request), "key", request->key_name[0] ? request->key_name : NULL,
              LOG_INTEGER("status", answer->status), LOG_INTEGER("bytes", bytes), LOG_INTEGER("tokens", job->tokens),
              LOG_DECIMAL("ms", (double)total_ns / 1e6), LOG_DECIMAL("queue_ms", (double)job_queue_ns(job) / 1e6),
              LOG_DECIMAL("inference_ms", (double)job->inference_ns / 1e6), "ignored_keys", ignored[0] ? ignored : NULL,
              NULL);
}

/* Copies a string, or an empty string for NULL. */
static void put(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

static void queue_span(const struct record *record, const struct request *request, const struct record_answer *answer,
                       int64_t total_ns)
{
    const struct job *job = &request->job;
    struct request_span span = {
        .encrypted = request->service->options.tls && strcmp(record->client, "unix") != 0,
        .status = answer->status,
        .answer_bytes = answer->bytes,
        .begun_ns = record->begun_ns,
        .ended_ns = record->begun_ns + total_ns,
        .computed = job->finished_ns > 0 && job->started_ns > 0,
        .items = job->n_items,
        .tokens = job->tokens,
        .batches = job->batches,
        .batch_items = job->batch_items,
        .inference_ns = job->inference_ns,
    };
    if (job->finished_ns) {
        span.queued_ns = job->submitted_ns;
        span.started_ns = job->started_ns ? job->started_ns : job->finished_ns;
        span.finished_ns = job->finished_ns;
    }
    put(span.method, sizeof span.method, record->method);
    put(span.path, sizeof span.path, record->path);
    put(span.route, sizeof span.route, answer->route);
    put(span.client, sizeof span.client, record->client);
    put(span.agent, sizeof span.agent, record->agent);
    put(span.request_id, sizeof span.request_id, request->id.text);
    put(span.key, sizeof span.key, request->key_name);
    put(span.model, sizeof span.model, model_name(request));
    tracer_end(request->service->options.tracer, &record->trace, &span);
}

void record_end(struct record *record, const struct request *request, const struct record_answer *answer)
{
    const struct job *job = &request->job;
    int64_t total_ns = clock_ns() - record->begun_ns;
    metrics_request(request->service->options.metrics, route_name(answer), request->metrics, answer->status, total_ns,
                    job_queue_ns(job), job->inference_ns);
    if (answer->infers && request->metrics != METRICS_NO_MODEL)
        count_inference(request, answer, total_ns);
    if (record->logged)
        write_line(record, request, answer, total_ns);
    if (record->trace.sampled)
        queue_span(record, request, answer, total_ns);
    free(record->path);
    free(record->agent);
}
