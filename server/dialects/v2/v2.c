#include "server/dialects/v2/v2.h"

#include "server/dialects/v2/attention.h"
#include "server/dialects/v2/describe.h"
#include "server/dialects/v2/infer.h"
#include "server/dialects/v2/model.h"
#include "server/dialects/v2/plan.h"
#include "server/dialects/v2/statistics.h"
#include "server/http/cors.h"

#include <string.h>

static const char server_metadata[] = "{\"name\":\"linformerd\",\"version\":\"" LINFORMERD_VERSION
                                      "\",\"extensions\":[\"binary_tensor_data\",\"classification\"]}";

static enum outcome server_live(struct request *request)
{
    writer_text(&request->answer, "{\"live\":true}");
    return OUTCOME_ANSWERED;
}

static bool is_ready(struct request *request)
{
    if (atomic_load(&request->service->ready))
        return true;
    failure_set(&request->failure, FAILURE_UNAVAILABLE, "the server is not ready: it is starting or stopping");
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

/* Reads the body. If its key "ready" is true, the answer contains only models that are ready. */
static int read_index_body(struct request *request, bool *ready)
{
    const struct option options[] = {{"ready", OPTION_BOOL, 0}};
    if (request->body_length == 0)
        return 0;
    json_t *json = request_json(request, request->body, request->body_length);
    if (!json)
        return -1;
    int status = request_options(request, json, options, OPTION_COUNT(options), ready);
    json_decref(json);
    return status;
}

struct index {
    struct writer *writer;
    bool only_ready, begun;
};

static void write_state(void *context, const struct model_state *state)
{
    struct index *index = context;
    bool is_ready = strcmp(state->state, "READY") == 0;
    if (index->only_ready && !is_ready)
        return;
    writer_text(index->writer, index->begun ? ",{\"name\":" : "{\"name\":");
    writer_string0(index->writer, state->name);
    if (is_ready)
        writer_text(index->writer, ",\"version\":\"" V2_VERSION "\"");
    writer_format(index->writer, ",\"state\":\"%s\",\"reason\":", state->state);
    writer_string0(index->writer, state->reason);
    writer_text(index->writer, "}");
    index->begun = true;
}

static enum outcome models_index(struct request *request)
{
    struct index index = {.writer = &request->answer};
    if (read_index_body(request, &index.only_ready) != 0)
        return OUTCOME_FAILED;
    const struct model_control *control = request->service->options.control;
    writer_text(index.writer, "[");
    if (control && control->list)
        control->list(control->context, write_state, &index);
    for (int64_t i = 0; !(control && control->list) && i < request->set->n_models; i++)
        write_state(&index,
                    &(struct model_state){.name = request->set->models[i].name, .state = "READY", .reason = ""});
    writer_text(index.writer, "]");
    return OUTCOME_ANSWERED;
}

/* Checks the body of a request to load or unload a model. Triton's clients may send a configuration or files under the
 * key `parameters`. Such a request to load a model is refused, because only the operator chooses what is loaded. */
static int read_control_body(struct request *request, bool load)
{
    json_t *parameters = NULL;
    const struct option options[] = {{"parameters", OPTION_OBJECT, 0}};
    json_t *json = request->body_length > 0 ? request_json(request, request->body, request->body_length) : NULL;
    if (request->body_length == 0)
        return 0;
    int status = json ? request_options(request, json, options, OPTION_COUNT(options), &parameters) : -1;
    if (status == 0 && load && json_object_size(parameters) > 0)
        status = failure_set(&request->failure, FAILURE_INVALID,
                             "parameters: expected none, because a model is loaded from the files of its folder");
    json_decref(json);
    return status;
}

/* Refuses requests from web pages that are not trusted. A browser lets any page send a POST request to any address.
 * Without this check, a page could unload the models of a daemon that only listens on localhost. */
static enum outcome read_control(struct request *request, bool load)
{
    const struct model_control *control = request->service->options.control;
    if (!control || !control->load) {
        failure_set(&request->failure, FAILURE_INVALID,
                    "loading and unloading models is disabled; the server's flag --model-control enables it");
        return OUTCOME_FAILED;
    }
    if (!cors_trusts(request)) {
        failure_set(
            &request->failure, FAILURE_INVALID,
            "pages of \"%.100s\" may not load or unload models; the server's flag --cors-allow-origin allows it",
            request->header(request, "Origin"));
        return OUTCOME_FAILED;
    }
    return read_control_body(request, load) == 0 ? OUTCOME_SLOW : OUTCOME_FAILED;
}

static enum outcome read_load(struct request *request)
{
    return read_control(request, true);
}

static enum outcome read_unload(struct request *request)
{
    return read_control(request, false);
}

static int load_model(struct request *request)
{
    const struct model_control *control = request->service->options.control;
    if (control->load(control->context, request->parameters[0], &request->failure) != 0)
        return -1;
    writer_text(&request->answer, "{}");
    return 0;
}

static int unload_model(struct request *request)
{
    const struct model_control *control = request->service->options.control;
    if (control->unload(control->context, request->parameters[0], &request->failure) != 0)
        return -1;
    writer_text(&request->answer, "{}");
    return 0;
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
    {"GET", "/v2/models/{}/plan", .heavy = true, .read = v2_plan},
    {"GET", "/v2/models/{}/attention.png", .work = WORK_INFERENCE, .heavy = true, .read = v2_attention_read,
     .answer = v2_attention_answer},
    {"GET", "/v2/models/{}/versions/{}", .read = v2_describe},
    {"GET", "/v2/models/{}/versions/{}/config", .read = v2_describe_config},
    {"GET", "/v2/models/{}/versions/{}/stats", .read = v2_statistics},
    {"GET", "/v2/models/{}/versions/{}/ready", .read = model_ready},
    {"POST", "/v2/models/{}/infer", ACCEPTS_BINARY, .work = WORK_INFERENCE, .read = v2_infer_read,
     .answer = v2_infer_answer},
    {"POST", "/v2/models/{}/versions/{}/infer", ACCEPTS_BINARY, .work = WORK_INFERENCE, .read = v2_infer_read,
     .answer = v2_infer_answer},
    {"POST", "/v2/repository/index", ACCEPTS_BINARY, .heavy = true, .read = models_index},
    {"POST", "/v2/repository/models/{}/load", ACCEPTS_BINARY, .work = WORK_OTHER, .read = read_load,
     .answer = load_model},
    {"POST", "/v2/repository/models/{}/unload", ACCEPTS_BINARY, .work = WORK_OTHER, .read = read_unload,
     .answer = unload_model},
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
