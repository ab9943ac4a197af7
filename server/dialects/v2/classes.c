#include "server/dialects/v2/classes.h"

#include "server/dialects/items.h"
#include "server/dialects/results.h"
#include "server/http/service.h"
#include "server/text/float_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Maximum numbers of bytes of text. INDEX_TEXT: ":", an index, ":" and NUL. ESCAPE_TEXT: one byte of a label as an
 * escape. AROUND_TEXT: the quotes and comma around a text, or its length before it. */
enum { INDEX_TEXT = 24, ESCAPE_TEXT = 6, AROUND_TEXT = 8 };

int v2_classes_read(struct request *request, const json_t *parameters, struct v2_classes *classes)
{
    const json_t *found = json_object_get(parameters, "classification");
    classes->count = 0;
    if (!found || json_is_null(found))
        return 0;
    if (!json_is_integer(found))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "parameter classification is %s, an integer of 0 or more was expected", json_kind(found));
    classes->count = json_integer_value(found);
    if (classes->count >= 0)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "parameter classification is %" PRId64 ", an integer of 0 or more was expected", classes->count);
}

/* The labels for the elements of output `index`. Only the first output of a classifier has labels. NULL for other
 * outputs. */
static const struct served_label *labels_of(const struct request *request, int index, int64_t item_elements)
{
    const struct model_info *info = request->info;
    bool classifier = info->gives_vector && index == 0 && item_elements == info->output_columns;
    return classifier ? request->set->models[request->model_index].labels : NULL;
}

int v2_classes_want(struct request *request, struct v2_classes *classes, int index, int64_t item_elements,
                    int64_t *bytes)
{
    classes->n_items = request->job.n_items;
    classes->item_elements = item_elements;
    if (classes->count > item_elements)
        classes->count = item_elements;
    classes->labels = labels_of(request, index, item_elements);
    int64_t label = classes->labels ? classes_label_bytes(request) : 0, all = 0;
    if (results_add(request, &all, classes->n_items, classes->count) != 0 ||
        results_add(request, bytes, all, F32_TEXT + INDEX_TEXT + AROUND_TEXT + ESCAPE_TEXT * label) != 0)
        return -1;
    classes->sorted = request_take(request, item_elements, sizeof *classes->sorted);
    classes->best = classes->sorted ? request_take(request, all, sizeof *classes->best) : NULL;
    classes->text = classes->best ? request_take(request, F32_TEXT + INDEX_TEXT + label, 1) : NULL;
    return classes->text ? 0 : -1;
}

void v2_classes_sort(struct v2_classes *classes, const float *values)
{
    for (int64_t i = 0; i < classes->n_items; i++) {
        classes_sort(values + i * classes->item_elements, classes->item_elements, classes->sorted);
        memcpy(classes->best + i * classes->count, classes->sorted, (size_t)classes->count * sizeof *classes->best);
    }
}

/* Writes the text of number `i` in classes->best to classes->text. Returns the length of the text. */
static size_t class_text(const struct v2_classes *classes, int64_t i)
{
    const struct class_score *best = &classes->best[i];
    size_t length = write_f32(classes->text, best->score);
    length += (size_t)snprintf(classes->text + length, INDEX_TEXT, ":%" PRId64, best->class);
    if (!classes->labels)
        return length;
    const char *label = classes->labels[best->class].text;
    classes->text[length++] = ':';
    memcpy(classes->text + length, label, strlen(label));
    return length + strlen(label);
}

/* The binary form of a text is its length, a little-endian uint32, followed by its bytes. */
int64_t v2_classes_bytes(const struct v2_classes *classes)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < classes->n_items * classes->count; i++)
        bytes += 4 + (int64_t)class_text(classes, i);
    return bytes;
}

void v2_classes_write_bytes(struct writer *writer, const struct v2_classes *classes)
{
    for (int64_t i = 0; i < classes->n_items * classes->count; i++) {
        uint32_t length = (uint32_t)class_text(classes, i);
        char bytes[4] = {(char)length, (char)(length >> 8), (char)(length >> 16), (char)(length >> 24)};
        writer_bytes(writer, bytes, sizeof bytes);
        writer_bytes(writer, classes->text, length);
    }
}

void v2_classes_write_json(struct writer *writer, const struct v2_classes *classes)
{
    writer_text(writer, "[");
    for (int64_t i = 0; i < classes->n_items * classes->count; i++) {
        if (i > 0)
            writer_text(writer, ",");
        size_t length = class_text(classes, i);
        writer_string(writer, classes->text, length);
    }
    writer_text(writer, "]");
}
