#include "server/dialects/v2/outputs.h"

#include "config/config.h"
#include "server/dialects/results.h"
#include "server/dialects/v2/entry.h"
#include "server/dialects/v2/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ALIGNMENT 16     /* bytes to which binary results in an answer are aligned */
#define HEADER_BYTES 512 /* estimated number of bytes of JSON for an answer without outputs, and for each output */

static const struct option output_options[] = {
    {"name", OPTION_STRING, offsetof(struct v2_entry, name)},
    {"parameters", OPTION_OBJECT, offsetof(struct v2_entry, parameters)},
};

static int output_index(struct request *request, const struct v2_outputs *outputs, const char *name)
{
    const struct model_info *info = request->info;
    char names[400] = "", quoted[80];
    for (int i = 0; i < outputs->count; i++) {
        if (strcmp(info->outputs[outputs->list[i].index], name) == 0)
            return failure_set(&request->failure, FAILURE_INVALID, "output \"%.100s\" is requested twice", name);
    }
    for (int i = 0; i < info->n_outputs; i++) {
        if (strcmp(info->outputs[i], name) == 0)
            return i;
    }
    for (int i = 0; i < info->n_outputs; i++) {
        snprintf(quoted, sizeof quoted, "\"%.70s\"", info->outputs[i]);
        text_list_add(names, sizeof names, quoted);
    }
    return failure_set(&request->failure, FAILURE_INVALID, "output \"%.100s\" is unknown; model \"%s\" has %s", name,
                       request_model_name(request), names);
}

static int read_output(struct request *request, size_t position, const json_t *json, bool binary,
                       struct v2_outputs *outputs)
{
    struct failure *failure = &request->failure;
    struct v2_output output = {.binary = binary};
    struct v2_entry entry;
    if (v2_entry_read(request, "outputs", position, json, output_options, OPTION_COUNT(output_options), &entry) != 0)
        return -1;
    output.index = output_index(request, outputs, entry.name);
    if (output.index < 0)
        return -1;
    if (v2_entry_bool(request, entry.parameters, "binary_data", &output.binary) != 0 ||
        v2_classes_read(request, entry.parameters, &output.classes) != 0)
        return error_prefix(&failure->error, "output \"%s\"", entry.name);
    if (json_object_get(entry.parameters, "shared_memory_region"))
        return failure_set(failure, FAILURE_INVALID, "output \"%s\": shared memory is not supported", entry.name);
    outputs->list[outputs->count++] = output; /* the list has room, because an output may appear only once */
    return 0;
}

int v2_outputs_read(struct request *request, const json_t *list, bool binary, struct v2_outputs *outputs)
{
    outputs->list = request_memory(request, request->info->n_outputs, sizeof *outputs->list);
    if (!outputs->list)
        return -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (read_output(request, i, json_array_get(list, i), binary, outputs) != 0)
            return -1;
    }
    if (outputs->count == 0)
        outputs->list[outputs->count++] = (struct v2_output){.index = 0, .binary = binary};
    return 0;
}

static bool has_lengths_of(const struct model_info *info, const struct engine_item *item,
                           const struct engine_item *other)
{
    bool same = true;
    for (int i = 0; i < info->n_inputs; i++)
        same = same && item->inputs[i].length == other->inputs[i].length;
    return same;
}

/* Fails if the output does not have the same shape for all items. Shapes may differ if the items are texts of different
 * lengths. */
static int check_shapes(struct request *request, const struct v2_output *output, int batch)
{
    const struct job *job = &request->job;
    int64_t sizes[V2_MAX_RANK];
    for (int64_t b = 1; b < job->n_items; b++) {
        if (has_lengths_of(request->info, &job->items[b], &job->items[0]))
            continue;
        int rank = model_output_shape(request_engine_model(request), &job->items[b], output->index, sizes);
        if (batch + rank == output->shape.rank &&
            memcmp(sizes, output->shape.sizes + batch, (size_t)rank * sizeof *sizes) == 0)
            continue;
        return failure_set(&request->failure, FAILURE_INVALID,
                           "output \"%s\" has another shape for item %" PRId64
                           " than for item 0, because their numbers of tokens differ: send such texts one by one",
                           request->info->outputs[output->index], b);
    }
    return 0;
}

/* Sets the output's shape to that of its classes. `batch` is the number of dimensions before the dimensions of an
 * item. */
static int want_classes(struct request *request, struct v2_output *output, int batch, int64_t *bytes)
{
    if (v2_classes_want(request, &output->classes, output->index, output->item_elements, bytes) != 0)
        return -1;
    output->shape.rank = batch + 1;
    output->shape.sizes[batch] = output->classes.count;
    return 0;
}

/* Sets the shapes of all outputs. Adds the number of their values to *floats, and the number of bytes of all classes to
 * *class_bytes. */
static int shape_outputs(struct request *request, struct v2_outputs *outputs, int64_t *floats, int64_t *class_bytes)
{
    const struct job *job = &request->job;
    int batch = request->info->inputs[0].layout == LAYOUT_CALL
                    ? 0
                    : 1; /* number of dimensions before the dimensions of an item */
    for (int i = 0; i < outputs->count; i++) {
        struct v2_output *output = &outputs->list[i];
        output->shape.sizes[0] = job->n_items;
        output->shape.rank = batch + model_output_shape(request_engine_model(request), job->items, output->index,
                                                        output->shape.sizes + batch);
        output->item_elements = v2_elements(&output->shape, batch);
        if (batch == 1 && check_shapes(request, output, batch) != 0)
            return -1;
        if (results_count(request, job->n_items, output->item_elements, floats) != 0)
            return -1;
        if (output->classes.count > 0 && want_classes(request, output, batch, class_bytes) != 0)
            return -1;
    }
    return 0;
}

/* Sets the memory for the results of each item. `results` contains the values (items, item_elements) of each output,
 * one output after another. */
static int place_outputs(struct request *request, struct v2_outputs *outputs, float *results)
{
    struct job *job = &request->job;
    struct engine_extra *extras = request_memory(request, job->n_items * outputs->count, sizeof *extras);
    if (!extras)
        return -1;
    for (int i = 0; i < outputs->count; i++) {
        outputs->list[i].values = results;
        results += job->n_items * outputs->list[i].item_elements;
    }
    for (int64_t b = 0; b < job->n_items; b++) {
        struct engine_item *item = &job->items[b];
        item->extras = extras;
        for (int i = 0; i < outputs->count; i++) {
            const struct v2_output *output = &outputs->list[i];
            float *values = output->values + b * output->item_elements;
            if (output->index == 0) {
                item->output = values;
                item->n_rows = request->info->n_tensors > 0 ? 0 : output->item_elements / request->info->output_columns;
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
    bool classes = output->classes.count > 0;
    int64_t elements = v2_elements(&output->shape, 0);
    writer_text(writer, "{\"name\":");
    writer_string0(writer, info->outputs[output->index]);
    writer_text(writer, classes ? ",\"datatype\":\"BYTES\",\"shape\":" : ",\"datatype\":\"FP32\",\"shape\":");
    v2_write_shape(writer, &output->shape);
    if (output->binary) {
        writer_format(writer, ",\"parameters\":{\"binary_data_size\":%" PRId64 "}}",
                      classes ? v2_classes_bytes(&output->classes) : elements * 4);
    } else {
        writer_text(writer, ",\"data\":");
        if (classes)
            v2_classes_write_json(writer, &output->classes);
        else
            writer_floats(writer, output->values, elements);
        writer_text(writer, "}");
    }
}

/* Writes the JSON of the answer. If binary outputs follow, appends spaces up to a multiple of ALIGNMENT bytes. */
static void write_header(struct request *request, const struct v2_outputs *outputs)
{
    struct writer *writer = &request->answer;
    bool binary = false;
    writer_text(writer, "{\"model_name\":");
    writer_string0(writer, request_model_name(request));
    writer_text(writer, ",\"model_version\":\"" V2_VERSION "\"");
    if (outputs->id) {
        writer_text(writer, ",\"id\":");
        writer_string0(writer, outputs->id);
    }
    writer_text(writer, ",\"outputs\":[");
    for (int i = 0; i < outputs->count; i++) {
        if (i > 0)
            writer_text(writer, ",");
        write_output(writer, request->info, &outputs->list[i]);
        binary = binary || outputs->list[i].binary;
    }
    writer_text(writer, "]}");
    if (!binary)
        return;
    while (writer->length % ALIGNMENT != 0 && !writer->failed)
        writer_text(writer, " ");
    request->answer_json_bytes = writer->length;
    request->answer_type = "application/octet-stream";
}

/* Returns memory for the values of all outputs. If outputs->in_place is true, this memory is in the answer, after its
 * JSON. Otherwise it is request memory. On failure sets request->failure and returns NULL. */
static float *results_memory(struct request *request, struct v2_outputs *outputs, int64_t floats)
{
    struct writer *writer = &request->answer;
    size_t bytes = (size_t)floats * sizeof(float);
    if (!outputs->in_place)
        return request_memory(request, floats, sizeof(float));
    writer_reserve(writer, bytes + HEADER_BYTES * (size_t)(1 + outputs->count));
    write_header(request, outputs);
    writer_reserve(writer, bytes);
    if (writer->failed) {
        failure_memory(&request->failure);
        return NULL;
    }
    float *results = (float *)(void *)(writer->data + writer->length);
    writer->length += bytes;
    return results;
}

int v2_outputs_want(struct request *request, struct v2_outputs *outputs)
{
    int64_t floats = 0, class_bytes = 0;
    if (shape_outputs(request, outputs, &floats, &class_bytes) != 0)
        return -1;
    outputs->in_place = true;
    for (int i = 0; i < outputs->count; i++)
        outputs->in_place = outputs->in_place && outputs->list[i].binary && outputs->list[i].classes.count == 0;
    request->answer_bytes = outputs->in_place ? floats * 4 : results_bytes(floats, false);
    if (results_add(request, &request->answer_bytes, 1 + outputs->count, HEADER_BYTES) != 0 ||
        results_add(request, &request->answer_bytes, 1, class_bytes) != 0 ||
        request_charge(request, request->answer_bytes) != 0)
        return -1;
    float *results = results_memory(request, outputs, floats);
    return results ? place_outputs(request, outputs, results) : -1;
}

void v2_outputs_write(struct request *request, struct v2_outputs *outputs)
{
    if (outputs->in_place)
        return;
    for (int i = 0; i < outputs->count; i++) {
        if (outputs->list[i].classes.count > 0)
            v2_classes_sort(&outputs->list[i].classes, outputs->list[i].values);
    }
    writer_reserve(&request->answer, (size_t)request->answer_bytes);
    write_header(request, outputs);
    for (int i = 0; i < outputs->count; i++) {
        const struct v2_output *output = &outputs->list[i];
        if (output->binary && output->classes.count > 0)
            v2_classes_write_bytes(&request->answer, &output->classes);
        else if (output->binary)
            writer_bytes(&request->answer, (const char *)output->values,
                         (size_t)v2_elements(&output->shape, 0) * sizeof(float));
    }
}
