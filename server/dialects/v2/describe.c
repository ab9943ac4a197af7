#include "server/dialects/v2/describe.h"

#include "server/dialects/v2/kinds.h"
#include "server/dialects/v2/model.h"

#include <inttypes.h>
#include <string.h>

/* ---- Metadata ---- */

static void write_tensor(struct writer *writer, const char *name, const char *datatype, const struct v2_shape *shape)
{
    writer_text(writer, "{\"name\":");
    writer_string0(writer, name);
    writer_format(writer, ",\"datatype\":\"%s\",\"shape\":", datatype);
    v2_write_shape(writer, shape);
    writer_text(writer, "}");
}

/* Returns an item without values. The length of each input is the minimum length that the model accepts, plus `more`,
 * but at most the maximum length. Its width is 1 + `more`. */
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

/* The shape (batch, sizes…) of a module's output. */
static struct v2_shape module_shape(const struct model_shape *output)
{
    struct v2_shape shape = {1 + output->rank, {-1}};
    memcpy(shape.sizes + 1, output->sizes, (size_t)output->rank * sizeof *output->sizes);
    return shape;
}

/* The shape of an output in the metadata. A size that depends on the length of the item becomes -1. Compares two items
 * of different lengths to find such sizes. */
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

enum outcome v2_describe(struct request *request)
{
    struct writer *writer = &request->answer;
    if (v2_model(request) != 0)
        return OUTCOME_FAILED;
    writer_text(writer, "{\"name\":");
    writer_string0(writer, request->parameters[0]);
    writer_text(writer, ",\"versions\":[\"" V2_VERSION "\"],\"platform\":\"" V2_PLATFORM "\",\"inputs\":[");
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

/* ---- Configuration ---- */

/* Writes ,"dims":[…]. Omits the first dimension, which is the batch, unless `whole` is true. */
static void write_dims(struct writer *writer, const struct v2_shape *shape, bool whole)
{
    struct v2_shape dims = *shape;
    if (!whole) {
        dims.rank = shape->rank - 1;
        memcpy(dims.sizes, shape->sizes + 1, (size_t)dims.rank * sizeof *dims.sizes);
    }
    writer_text(writer, ",\"dims\":");
    v2_write_shape(writer, &dims);
}

static void write_config_inputs(struct writer *writer, const struct model_info *info, bool whole)
{
    writer_text(writer, ",\"input\":[");
    for (int i = 0; i < info->n_inputs; i++) {
        const struct model_input *input = &info->inputs[i];
        const struct v2_shape shape = v2_input_shape(input, 0);
        writer_text(writer, i > 0 ? ",{\"name\":" : "{\"name\":");
        writer_string0(writer, input->name);
        writer_format(writer, ",\"data_type\":\"TYPE_%s\",\"format\":\"FORMAT_NONE\"", v2_input_datatype(input, 0));
        write_dims(writer, &shape, whole);
        writer_format(writer, ",\"optional\":%s}", input->optional ? "true" : "false");
    }
    writer_text(writer, "]");
}

static void write_config_outputs(struct writer *writer, const struct model *model, bool whole)
{
    const struct model_info *info = model_info(model);
    writer_text(writer, ",\"output\":[");
    for (int i = 0; i < info->n_outputs; i++) {
        const struct v2_shape shape = output_shape(model, i);
        writer_text(writer, i > 0 ? ",{\"name\":" : "{\"name\":");
        writer_string0(writer, info->outputs[i]);
        writer_text(writer, ",\"data_type\":\"TYPE_FP32\"");
        write_dims(writer, &shape, whole);
        writer_text(writer, "}");
    }
    writer_text(writer, "]");
}

enum outcome v2_describe_config(struct request *request)
{
    struct writer *writer = &request->answer;
    if (v2_model(request) != 0)
        return OUTCOME_FAILED;
    /* In Triton, a max_batch_size of 0 means that no dimension is the batch, and `dims` are whole shapes. */
    bool whole = request->info->inputs[0].layout == LAYOUT_CALL;
    writer_text(writer, "{\"name\":");
    writer_string0(writer, request->parameters[0]);
    writer_format(writer,
                  ",\"platform\":\"" V2_PLATFORM "\",\"backend\":\"linformerd\""
                  ",\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":%" PRId64,
                  whole ? 0 : request->service->options.settings->max_client_batch_size);
    write_config_inputs(writer, request->info, whole);
    write_config_outputs(writer, request_engine_model(request), whole);
    writer_text(writer, ",\"default_model_filename\":\"model.safetensors\"}");
    return OUTCOME_ANSWERED;
}
