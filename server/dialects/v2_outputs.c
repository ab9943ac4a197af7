/* v2_outputs: from `outputs` to the places of a job's results, and the answer.
 *
 * Where all outputs are wanted as bytes, the JSON before them is known without their values: it is written first, and
 * the engine writes its results behind it, into the answer itself. */
#include "server/dialects/native.h"
#include "server/dialects/v2_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ALIGNMENT 16     /* of results within an answer */
#define HEADER_BYTES 512 /* of an answer's JSON, about; and of each output in it */

static const struct option output_options[] = {
    {"name", OPTION_STRING, offsetof(struct v2_entry, name)},
    {"parameters", OPTION_OBJECT, offsetof(struct v2_entry, parameters)},
};

static int output_index(struct v2_reader *reader, const char *name)
{
    const struct model_info *info = reader->request->info;
    const char *last = info->outputs[info->n_outputs - 1];
    const struct v2_call *call = reader->call;

    for (int i = 0; i < call->n_outputs; i++) {
        if (strcmp(info->outputs[call->outputs[i].index], name) == 0)
            return failure_set(&reader->request->failure, FAILURE_INVALID, "output \"%.100s\" is asked for twice",
                               name);
    }
    for (int i = 0; i < info->n_outputs; i++) {
        if (strcmp(info->outputs[i], name) == 0)
            return i;
    }
    return failure_set(&reader->request->failure, FAILURE_INVALID,
                       "output \"%.100s\" is unknown; model \"%s\" has \"%s\"%s%s%s", name,
                       request_model_name(reader->request), info->outputs[0], info->n_outputs > 1 ? " to \"" : "",
                       info->n_outputs > 1 ? last : "", info->n_outputs > 1 ? "\"" : "");
}

static int read_output(struct v2_reader *reader, size_t position, const json_t *json)
{
    struct failure *failure = &reader->request->failure;
    struct v2_output output = {.binary = reader->binary_output};
    struct v2_entry entry;

    if (v2_read_entry(reader, "outputs", position, json, output_options, COUNT(output_options), &entry))
        return -1;
    output.index = output_index(reader, entry.name);
    if (output.index < 0)
        return -1;
    if (v2_read_bool(reader, entry.parameters, "binary_data", &output.binary))
        return error_prefix(&failure->error, "output \"%s\"", entry.name);
    if (json_integer_value(json_object_get(entry.parameters, "classification")) > 0)
        return failure_set(failure, FAILURE_INVALID, "output \"%s\": classification is not supported", entry.name);
    if (json_object_get(entry.parameters, "shared_memory_region"))
        return failure_set(failure, FAILURE_INVALID, "output \"%s\": shared memory is not supported", entry.name);
    reader->call->outputs[reader->call->n_outputs++] = output; /* each name once, so there is room */
    return 0;
}

int v2_read_outputs(struct v2_reader *reader, const json_t *list)
{
    struct v2_call *call = reader->call;

    call->outputs = request_memory(reader->request, reader->request->info->n_outputs, sizeof *call->outputs);
    if (!call->outputs)
        return -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (read_output(reader, i, json_array_get(list, i)))
            return -1;
    }
    if (call->n_outputs == 0)
        call->outputs[call->n_outputs++] = (struct v2_output){.index = 0, .binary = reader->binary_output};
    return 0;
}

/* Shapes, and the bytes of all results; those that become text take more of them in the answer. */
static int shape_outputs(struct request *request, struct v2_call *call, int64_t *floats)
{
    const struct job *job = &request->job;
    int batch = request->info->inputs[0].layout == LAYOUT_CALL ? 0 : 1; /* dimensions in front of an item's */

    for (int i = 0; i < call->n_outputs; i++) {
        struct v2_output *output = &call->outputs[i];

        output->shape.sizes[0] = job->n_items;
        output->shape.rank = batch + model_output_shape(request_engine_model(request), job->items, output->index,
                                                        output->shape.sizes + batch);
        output->item_elements = v2_elements(&output->shape, batch);
        if (native_count_floats(request, job->n_items, output->item_elements, floats))
            return -1;
    }
    return 0;
}

/* Gives each item its place in the outputs, which lie behind one another from `results` on. */
static int place_outputs(struct request *request, struct v2_call *call, float *results)
{
    struct job *job = &request->job;
    struct engine_extra *extras = request_memory(request, job->n_items * call->n_outputs, sizeof *extras);

    if (!extras)
        return -1;
    for (int i = 0; i < call->n_outputs; i++) {
        call->outputs[i].values = results;
        results += job->n_items * call->outputs[i].item_elements;
    }
    for (int64_t b = 0; b < job->n_items; b++) {
        struct engine_item *item = &job->items[b];

        item->extras = extras;
        for (int i = 0; i < call->n_outputs; i++) {
            const struct v2_output *output = &call->outputs[i];
            float *values = output->values + b * output->item_elements;

            if (output->index == 0) {
                item->output = values;
                item->n_rows = output->item_elements / request->info->output_columns;
            } else {
                *extras++ = (struct engine_extra){.output = output->index, .data = values};
                item->n_extras++;
            }
        }
    }
    return 0;
}

/* ---- The answer ---- */

static void write_output(struct writer *writer, const struct model_info *info, const struct v2_output *output)
{
    int64_t elements = v2_elements(&output->shape, 0);

    writer_text(writer, "{\"name\":");
    writer_string0(writer, info->outputs[output->index]);
    writer_text(writer, ",\"datatype\":\"FP32\",\"shape\":");
    v2_write_shape(writer, &output->shape);
    if (output->binary) {
        writer_format(writer, ",\"parameters\":{\"binary_data_size\":%" PRId64 "}}", elements * 4);
    } else {
        writer_text(writer, ",\"data\":");
        writer_floats(writer, output->values, elements);
        writer_text(writer, "}");
    }
}

/* The JSON of the answer. Behind it, when some outputs are bytes, as many spaces as align these. */
static void write_header(struct request *request, const struct v2_call *call)
{
    struct writer *writer = &request->answer;
    bool binary = false;

    writer_text(writer, "{\"model_name\":");
    writer_string0(writer, request_model_name(request));
    writer_text(writer, ",\"model_version\":\"" V2_VERSION "\"");
    if (call->id) {
        writer_text(writer, ",\"id\":");
        writer_string0(writer, call->id);
    }
    writer_text(writer, ",\"outputs\":[");
    for (int i = 0; i < call->n_outputs; i++) {
        if (i > 0)
            writer_text(writer, ",");
        write_output(writer, request->info, &call->outputs[i]);
        binary = binary || call->outputs[i].binary;
    }
    writer_text(writer, "]}");
    if (!binary)
        return;
    while (writer->length % ALIGNMENT != 0 && !writer->failed)
        writer_text(writer, " ");
    request->answer_header = writer->length;
    request->answer_type = "application/octet-stream";
}

/* Where the engine writes: in the answer itself, or in memory of the request. NULL: request->failure. */
static float *results_memory(struct request *request, struct v2_call *call, int64_t floats)
{
    struct writer *writer = &request->answer;
    size_t bytes = (size_t)floats * sizeof(float);

    if (!call->in_place)
        return request_memory(request, floats, sizeof(float));
    writer_reserve(writer, bytes + HEADER_BYTES * (size_t)(1 + call->n_outputs));
    write_header(request, call);
    writer_reserve(writer, bytes);
    if (writer->failed) {
        failure_memory(&request->failure);
        return NULL;
    }
    float *results = (float *)(void *)(writer->data + writer->length);
    writer->length += bytes;
    return results;
}

int v2_want_outputs(struct request *request, struct v2_call *call)
{
    int64_t floats = 0;
    float *results;

    if (shape_outputs(request, call, &floats))
        return -1;
    call->in_place = true;
    for (int i = 0; i < call->n_outputs; i++)
        call->in_place = call->in_place && call->outputs[i].binary;
    request->answer_bytes = call->in_place ? floats * 4 : native_floats_bytes(floats, false);
    request->answer_bytes += HEADER_BYTES * (1 + call->n_outputs);
    if (request_charge(request, request->answer_bytes))
        return -1;
    results = results_memory(request, call, floats);
    return results ? place_outputs(request, call, results) : -1;
}

int v2_infer_answer(struct request *request)
{
    const struct v2_call *call = request->options;

    if (call->in_place)
        return 0;
    writer_reserve(&request->answer, (size_t)request->answer_bytes);
    write_header(request, call);
    for (int i = 0; i < call->n_outputs; i++) {
        const struct v2_output *output = &call->outputs[i];

        if (output->binary)
            writer_bytes(&request->answer, (const char *)output->values,
                         (size_t)v2_elements(&output->shape, 0) * sizeof(float));
    }
    return 0;
}
