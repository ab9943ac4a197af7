#include "server/dialects/v2.h"

#include "server/dialects/v2_attention.h"
#include "server/dialects/v2_describe.h"
#include "server/dialects/v2_infer.h"
#include "server/dialects/v2_model.h"
#include "server/dialects/v2_plan.h"
#include "server/dialects/v2_statistics.h"

static const char server_metadata[] =
    "{\"name\":\"linformerd\",\"version\":\"" LINFORMERD_VERSION "\",\"extensions\":[\"binary_tensor_data\"]}";

static enum outcome server_live(struct request *request)
{
    writer_text(&request->answer, "{\"live\":true}");
    return OUTCOME_ANSWERED;
}

static bool is_ready(struct request *request)
{
    if (atomic_load(&request->service->ready))
        return true;
    failure_set(&request->failure, FAILURE_UNAVAILABLE, "the server is not ready: it starts, or it is about to stop");
    return false;
}

static enum outcome server_ready(struct request *request)
{
    if (!is_ready(request))
        return OUTCOME_FAILED;
    writer_text(&request->answer, "{\"ready\":true}");
    return OUTCOME_ANSWERED;
}

static enum outcome server_describe(struct request *request)
{
    writer_text(&request->answer, server_metadata);
    return OUTCOME_ANSWERED;
}

/* ---- Models ---- */

static enum outcome model_ready(struct request *request)
{
    if (v2_model(request) != 0 || !is_ready(request))
        return OUTCOME_FAILED;
    writer_text(&request->answer, "{\"name\":");
    writer_string0(&request->answer, request->parameters[0]);
    writer_text(&request->answer, ",\"ready\":true}");
    return OUTCOME_ANSWERED;
}

/* Checks the body. Its key "ready" limits the answer to models that are ready. The value is not needed: all models
 * become ready together. */
static int read_index_body(struct request *request)
{
    bool ready = false;
    const struct option options[] = {{"ready", OPTION_BOOL, 0}};
    if (request->body_length == 0)
        return 0;
    json_t *json = request_json(request, request->body, request->body_length);
    if (!json)
        return -1;
    int status = request_options(request, json, options, OPTION_COUNT(options), &ready);
    json_decref(json);
    return status;
}

static enum outcome models_index(struct request *request)
{
    if (read_index_body(request) != 0)
        return OUTCOME_FAILED;
    const struct service_options *options = &request->service->options;
    struct writer *writer = &request->answer;
    writer_text(writer, "[");
    for (int64_t i = 0; i < options->n_models; i++) {
        writer_text(writer, i > 0 ? ",{\"name\":" : "{\"name\":");
        writer_string0(writer, options->models[i].name);
        writer_text(writer, ",\"version\":\"" V2_VERSION "\",\"state\":\"READY\",\"reason\":\"\"}");
    }
    writer_text(writer, "]");
    return OUTCOME_ANSWERED;
}

/* ---- The dialect ---- */

static const struct route routes[] = {
    {"GET", "/v2", .read = server_describe},
    {"GET", "/v2/", .read = server_describe},
    {"GET", "/v2/health/live", .open = true, .read = server_live},
    {"GET", "/v2/health/ready", .open = true, .read = server_ready},
    {"GET", "/v2/models/stats", .read = v2_statistics_all},
    {"GET", "/v2/models/{}", .read = v2_describe},
    {"GET", "/v2/models/{}/config", .read = v2_describe_config},
    {"GET", "/v2/models/{}/stats", .read = v2_statistics},
    {"GET", "/v2/models/{}/ready", .read = model_ready},
    {"GET", "/v2/models/{}/plan", .read = v2_plan},
    {"GET", "/v2/models/{}/attention.png", .work = true, .read = v2_attention_read, .answer = v2_attention_answer},
    {"GET", "/v2/models/{}/versions/{}", .read = v2_describe},
    {"GET", "/v2/models/{}/versions/{}/config", .read = v2_describe_config},
    {"GET", "/v2/models/{}/versions/{}/stats", .read = v2_statistics},
    {"GET", "/v2/models/{}/versions/{}/ready", .read = model_ready},
    {"POST", "/v2/models/{}/infer", BODY_ANY, .work = true, .read = v2_infer_read, .answer = v2_infer_answer},
    {"POST", "/v2/models/{}/versions/{}/infer", BODY_ANY, .work = true, .read = v2_infer_read,
     .answer = v2_infer_answer},
    {"POST", "/v2/repository/index", BODY_ANY, .read = models_index},
};

static void write_failure(struct writer *writer, const struct failure *failure)
{
    writer_text(writer, "{\"error\":");
    writer_string0(writer, failure->error.message);
    writer_text(writer, "}");
}

const struct dialect v2_dialect = {
    .prefixes = {"/v2"},
    .routes = routes,
    .n_routes = sizeof routes / sizeof routes[0],
    .invalid_status = 400,
    .write_failure = write_failure,
    .out_of_memory = "{\"error\":\"out of memory\"}",
};
