#include "server/dialects/v2.h"

#include "server/dialects/v2_infer.h"
#include "server/dialects/v2_kinds.h"
#include "server/dialects/v2_model.h"

#include <string.h>

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

static void write_tensor(struct writer *writer, const char *name, const char *datatype, const struct v2_shape *shape)
{
    writer_text(writer, "{\"name\":");
    writer_string0(writer, name);
    writer_format(writer, ",\"datatype\":\"%s\",\"shape\":", datatype);
    v2_write_shape(writer, shape);
    writer_text(writer, "}");
}

/* An item without values. Each length is the least length that the model accepts, plus `more`. Each width is 1 plus
 * `more`. */
static struct engine_item sized_item(const struct model_info *info, int more)
{
    struct engine_item item = {0};
    for (int i = 0; i < info->n_inputs; i++) {
        const struct model_input *input = &info->inputs[i];
        int64_t length = (input->min_length > 0 ? input->min_length : 1) + more;
        item.inputs[i].length = length < input->max_length ? length : input->max_length;
        item.inputs[i].width = 1 + more;
    }
    return item;
}

/* The shape (batch, sizes…). */
static struct v2_shape module_shape(const struct model_shape *output)
{
    struct v2_shape shape = {1 + output->rank, {-1}};
    memcpy(shape.sizes + 1, output->sizes, (size_t)output->rank * sizeof *output->sizes);
    return shape;
}

/* The shape of an output in metadata. Compares two items of different lengths. A size that differs between them becomes
 * -1. */
static struct v2_shape output_shape(const struct model *model, int output)
{
    const struct model_info *info = model_info(model);
    if (info->shapes)
        return module_shape(&info->shapes[output]);
    const struct engine_item one = sized_item(info, 0), other = sized_item(info, 1);
    int batch = info->inputs[0].layout == LAYOUT_CALL ? 0 : 1;
    struct v2_shape shape = {0, {-1}}, other_shape;
    shape.rank = batch + model_output_shape(model, &one, output, shape.sizes + batch);
    model_output_shape(model, &other, output, other_shape.sizes + batch);
    for (int d = batch; d < shape.rank; d++) {
        if (shape.sizes[d] != other_shape.sizes[d])
            shape.sizes[d] = -1;
    }
    return shape;
}

static enum outcome model_describe(struct request *request)
{
    struct writer *writer = &request->answer;
    if (v2_model(request) != 0)
        return OUTCOME_FAILED;
    writer_text(writer, "{\"name\":");
    writer_string0(writer, request->parameters[0]);
    writer_text(writer, ",\"versions\":[\"" V2_VERSION "\"],\"platform\":\"linformerd_safetensors\",\"inputs\":[");
    for (int i = 0; i < request->info->n_inputs; i++) {
        const struct model_input *input = &request->info->inputs[i];
        struct v2_shape shape = v2_input_shape(input, 0);
        if (i > 0)
            writer_text(writer, ",");
        write_tensor(writer, input->name, v2_input_datatype(input, 0), &shape);
    }
    writer_text(writer, "],\"outputs\":[");
    for (int i = 0; i < request->info->n_outputs; i++) {
        struct v2_shape shape = output_shape(request_engine_model(request), i);
        if (i > 0)
            writer_text(writer, ",");
        write_tensor(writer, request->info->outputs[i], "FP32", &shape);
    }
    writer_text(writer, "]}");
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
    {"GET", "/v2/models/{}", .read = model_describe},
    {"GET", "/v2/models/{}/ready", .read = model_ready},
    {"GET", "/v2/models/{}/versions/{}", .read = model_describe},
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
