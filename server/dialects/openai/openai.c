/* openai: the routes /v1/embeddings and /v1/models, and the table of all routes of this dialect. Keys, answers and
 * errors are those of OpenAI's API. Inputs are read in the same way as for /embed. /v1/embeddings also accepts the keys
 * of /embed that OpenAI's API lacks. */
#include "server/dialects/openai/openai.h"

#include "server/dialects/native/body.h"
#include "server/dialects/native/embed.h"
#include "server/dialects/native/model.h"

#include <inttypes.h>

static const struct option embeddings_options[] = {
    {"input", OPTION_JSON, offsetof(struct native_inputs, inputs)},
    NATIVE_READING_OPTIONS,
    NATIVE_VECTOR_OPTIONS,
    {"user", OPTION_IGNORED, 0},
};

static int check_inputs(struct request *request)
{
    if (native_takes_pictures(request))
        return 0;
    if (native_takes_sequences(request) != 0)
        return -1;
    if (request->info->inputs[0].kind == INPUT_IDS)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "model \"%s\" accepts rows of %" PRId64 " floats, for which this route has no key: use "
                       "/embed or /v2",
                       request_model_name(request), native_columns(request->info));
}

static enum outcome embeddings_read(struct request *request)
{
    struct native_vectors body = {.inputs.key = "input"};
    json_t *json = native_body(request, &body.inputs);
    enum outcome outcome = OUTCOME_FAILED;
    if (!json)
        return OUTCOME_FAILED;
    body.normalize = request->info->normalize;
    if (request_options(request, json, embeddings_options, OPTION_COUNT(embeddings_options), &body) == 0 &&
        check_inputs(request) == 0 && native_vectors_want(request, &body) == 0)
        outcome = OUTCOME_RUN;
    json_decref(json);
    return outcome;
}

static int embeddings_answer(struct request *request)
{
    struct writer *writer = &request->answer;
    int64_t tokens = 0;
    writer_reserve(writer, (size_t)request->answer_bytes);
    writer_text(writer, "{\"object\":\"list\",\"data\":[");
    for (int64_t i = 0; i < request->job.n_items; i++) {
        writer_format(writer, "%s{\"object\":\"embedding\",\"index\":%" PRId64 ",\"embedding\":", i > 0 ? "," : "", i);
        native_vector_write(request, i);
        writer_text(writer, "}");
        tokens += request->job.items[i].inputs[0].length;
    }
    writer_text(writer, "],\"model\":");
    writer_string0(writer, request_model_name(request));
    writer_format(writer, ",\"usage\":{\"prompt_tokens\":%" PRId64 ",\"total_tokens\":%" PRId64 "}}", tokens, tokens);
    return 0;
}

static void write_model(struct request *request, const char *name)
{
    struct writer *writer = &request->answer;
    writer_text(writer, "{\"id\":");
    writer_string0(writer, name);
    writer_format(writer, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"linformerd\"}",
                  request->service->opened_s);
}

static enum outcome models_list(struct request *request)
{
    const struct model_set *set = request->set;
    writer_text(&request->answer, "{\"object\":\"list\",\"data\":[");
    for (int64_t i = 0; i < set->n_models; i++) {
        if (i > 0)
            writer_text(&request->answer, ",");
        write_model(request, set->models[i].name);
    }
    writer_text(&request->answer, "]}");
    return OUTCOME_ANSWERED;
}

static enum outcome models_one(struct request *request)
{
    if (request_model(request, request->parameters[0]) != 0)
        return OUTCOME_FAILED;
    write_model(request, request->parameters[0]);
    return OUTCOME_ANSWERED;
}

static void write_failure(struct writer *writer, const struct failure *failure)
{
    static const struct {
        const char *type, *code;
    } shapes[FAILURE_COUNT] = {
        [FAILURE_KEY] = {"invalid_request_error", "invalid_api_key"},
        [FAILURE_NO_MODEL] = {"invalid_request_error", "model_not_found"},
        [FAILURE_OVERLOADED] = {"rate_limit_error", "rate_limit_exceeded"},
        [FAILURE_GONE] = {"server_error", NULL},
        [FAILURE_BACKEND] = {"server_error", NULL},
        [FAILURE_UNAVAILABLE] = {"server_error", "service_unavailable"},
        [FAILURE_EXPIRED] = {"server_error", "timeout"},
    };
    const char *type = shapes[failure->kind].type;
    writer_text(writer, "{\"error\":{\"message\":");
    writer_string0(writer, failure->error.message);
    writer_text(writer, ",\"type\":");
    writer_string0(writer, type ? type : "invalid_request_error");
    writer_text(writer, ",\"param\":null,\"code\":");
    writer_string0(writer, shapes[failure->kind].code);
    writer_text(writer, "}}");
}

#define EMBEDDINGS(path)                                                                                         \
    {                                                                                                            \
        "POST", path, ACCEPTS_JSON, .work = WORK_INFERENCE, .read = embeddings_read, .answer = embeddings_answer \
    }
#define COMPLETIONS(path)                                                                    \
    {                                                                                        \
        "POST", path, ACCEPTS_JSON, .work = WORK_INFERENCE, .read = openai_completions_read, \
                                    .answer = openai_completions_answer                      \
    }

/* Paths that begin with /openai are those of Azure. The name of a deployment is the name of a model. Azure's clients
 * append ?api-version=…, which is ignored. */
static const struct route routes[] = {
    EMBEDDINGS("/v1/embeddings"),
    EMBEDDINGS("/embeddings"),
    EMBEDDINGS("/openai/v1/embeddings"),
    EMBEDDINGS("/openai/deployments/{}/embeddings"),
    COMPLETIONS("/v1/completions"),
    COMPLETIONS("/openai/v1/completions"),
    COMPLETIONS("/openai/deployments/{}/completions"),
    {"GET", "/v1/models", .read = models_list},
    {"GET", "/v1/models/{}", .read = models_one},
    {"GET", "/models", .read = models_list},
    {"GET", "/models/{}", .read = models_one},
    {"GET", "/openai/v1/models", .read = models_list},
    {"GET", "/openai/v1/models/{}", .read = models_one},
};

const struct dialect openai_dialect = {
    .prefixes = {"/v1", "/embeddings", "/models", "/openai"},
    .routes = routes,
    .n_routes = sizeof routes / sizeof routes[0],
    .invalid_status = 400,
    .write_failure = write_failure,
    .out_of_memory =
        "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,\"code\":null}}",
};
