#include "server/dialects/v2/statistics.h"

#include "server/common/metrics.h"
#include "server/dialects/v2/model.h"

#include <inttypes.h>

/* Writes ,"name":{"count":…,"ns":…}. */
static void write_duration(struct writer *writer, const char *name, int64_t count, int64_t ns)
{
    writer_format(writer, ",\"%s\":{\"count\":%" PRId64 ",\"ns\":%" PRId64 "}", name, count, ns);
}

static void write_requests(struct writer *writer, const struct statistics_now *now)
{
    writer_format(writer, ",\"inference_stats\":{\"success\":{\"count\":%" PRId64 ",\"ns\":%" PRId64 "}",
                  now->success.count, now->success.ns);
    write_duration(writer, "fail", now->fail.count, now->fail.ns);
    write_duration(writer, "queue", now->success.count, now->queue_ns);
    write_duration(writer, "compute_input", now->success.count, now->input_ns);
    write_duration(writer, "compute_infer", now->success.count, now->infer_ns);
    write_duration(writer, "compute_output", now->success.count, now->output_ns);
    writer_text(writer, "}");
}

/* Writes the counts and times of batches, grouped by their number of items. The times for reading inputs and writing
 * outputs are not known for a batch, so their counts are 0. */
static void write_batches(struct writer *writer, const struct model_statistics *statistics)
{
    bool first = true;
    writer_text(writer, ",\"batch_stats\":[");
    for (int64_t size = 1; size <= STATISTICS_MAX_ITEMS; size++) {
        const struct statistics_duration batches = statistics_batches(statistics, size);
        if (batches.count == 0)
            continue;
        writer_format(writer, "%s{\"batch_size\":%" PRId64, first ? "" : ",", size);
        write_duration(writer, "compute_input", 0, 0);
        write_duration(writer, "compute_infer", batches.count, batches.ns);
        write_duration(writer, "compute_output", 0, 0);
        writer_text(writer, "}");
        first = false;
    }
    writer_text(writer, "]");
}

static void write_model(struct request *request, int64_t model_index)
{
    const struct served_model *served = &request->set->models[model_index];
    const struct model_statistics *statistics = metrics_statistics(request->service->options.metrics, served->metrics);
    const struct statistics_now now = statistics_read(statistics);
    struct writer *writer = &request->answer;
    writer_text(writer, "{\"name\":");
    writer_string0(writer, served->name);
    writer_format(writer,
                  ",\"version\":\"" V2_VERSION "\",\"last_inference\":%" PRId64 ",\"inference_count\":%" PRId64
                  ",\"execution_count\":%" PRId64,
                  now.last_ms, now.items, now.batches);
    write_requests(writer, &now);
    write_batches(writer, statistics);
    writer_text(writer, "}");
}

enum outcome v2_statistics(struct request *request)
{
    if (v2_model(request) != 0)
        return OUTCOME_FAILED;
    writer_text(&request->answer, "{\"model_stats\":[");
    write_model(request, request->model_index);
    writer_text(&request->answer, "]}");
    return OUTCOME_ANSWERED;
}

enum outcome v2_statistics_all(struct request *request)
{
    writer_text(&request->answer, "{\"model_stats\":[");
    for (int64_t i = 0; i < request->set->n_models; i++) {
        if (i > 0)
            writer_text(&request->answer, ",");
        write_model(request, i);
    }
    writer_text(&request->answer, "]}");
    return OUTCOME_ANSWERED;
}
