/* record: most requests are not logged, so method, path and client are copied only if they will be written. */
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

void record_begin(struct record *record, const struct service *service, const char *method, const char *path,
                  const struct sockaddr *address)
{
    record->begun_ns = clock_ns();
    record->logged = log_enabled(line_level(service));
    if (!record->logged)
        return;
    snprintf(record->method, sizeof record->method, "%s", method);
    record->path = strndup(path, PATH_BYTES);
    peer_text(address, record->client);
}

/* The time that the request waited for its first batch. 0 if it had no job. */
static int64_t job_queue_ns(const struct job *job)
{
    if (!job->finished_ns) /* the batcher has not run or ended the job */
        return 0;
    return (job->started_ns ? job->started_ns : job->finished_ns) - job->submitted_ns;
}

/* Counts a request for results of a model. */
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

static void write_line(const struct record *record, const struct request *request, const struct record_answer *answer,
                       int64_t total_ns)
{
    const struct job *job = &request->job;
    const struct metrics *metrics = request->service->options.metrics;
    bool write_model = request->metrics != METRICS_NO_MODEL;
    const char *ignored = request->ignored.list;
    int64_t bytes = strcmp(record->method, "HEAD") == 0 ? 0 : answer->bytes; /* libmicrohttpd leaves out the body */
    log_write(line_level(request->service), "request", "client", record->client, "request_id", request->id.text,
              "method", record->method, "path", record->path ? record->path : answer->route, "model",
              write_model ? metrics_model_name(metrics, request->metrics) : NULL, "key",
              request->key_name[0] ? request->key_name : NULL, LOG_INTEGER("status", answer->status),
              LOG_INTEGER("bytes", bytes), LOG_INTEGER("tokens", job->tokens),
              LOG_DECIMAL("ms", (double)total_ns / 1e6), LOG_DECIMAL("queue_ms", (double)job_queue_ns(job) / 1e6),
              LOG_DECIMAL("inference_ms", (double)job->inference_ns / 1e6), "ignored_keys", ignored[0] ? ignored : NULL,
              NULL);
}

void record_end(struct record *record, const struct request *request, const struct record_answer *answer)
{
    const struct job *job = &request->job;
    int64_t total_ns = clock_ns() - record->begun_ns;
    metrics_request(request->service->options.metrics, answer->route, request->metrics, answer->status, total_ns,
                    job_queue_ns(job), job->inference_ns);
    if (answer->infers && request->metrics != METRICS_NO_MODEL)
        count_inference(request, answer, total_ns);
    if (record->logged)
        write_line(record, request, answer, total_ns);
    free(record->path);
}
