/* classes: Triton's classification extension. An output contains the classes with the largest values instead of all
 * values. Each class is a text, so the output is a tensor of datatype BYTES:
 *
 *     0.75:3        value and index of a class. The index counts all elements of an item
 *     0.75:3:cat    value, index and label, if the model has labels
 *
 * The shape is (batch, classes), or (classes) if an input holds a whole call of forward() (LAYOUT_CALL). The largest
 * value comes first. */
#ifndef SERVER_DIALECTS_V2_CLASSES_H
#define SERVER_DIALECTS_V2_CLASSES_H

#include "server/dialects/classes.h"
#include "server/text/writer.h"

#include <jansson.h>

/* The classes of one output of an inference request. */
struct v2_classes {
    int64_t count; /* number of classes to be returned for each item. If it is 0, the output contains its values */

    /* Number of items, and number of elements of the output for each item. Set by v2_classes_want. */
    int64_t n_items, item_elements;
    const struct served_label *labels; /* (item_elements): the label of each class. NULL if there are no labels */
    struct class_score *sorted;        /* (item_elements): memory for sorting the classes of one item */
    struct class_score *best;          /* (n_items, count): the classes to be returned */
    char *text;                        /* memory for the text of one class */
};

/* Sets classes->count to the parameter `classification` of an output, or to 0 if this parameter is absent. Here and
 * below, a failing function sets request->failure and returns -1. */
int v2_classes_read(struct request *request, const json_t *parameters, struct v2_classes *classes);

/* Allocates memory for the classes of output `index`, which has `item_elements` values for each item of the job. Lowers
 * classes->count to `item_elements` if it is larger. Adds the maximum number of bytes of the classes in the answer to
 * *bytes. */
int v2_classes_want(struct request *request, struct v2_classes *classes, int index, int64_t item_elements,
                    int64_t *bytes);

/* Sorts the classes of each item by their values (n_items, item_elements). Call it after the job has run, before the
 * functions below. */
void v2_classes_sort(struct v2_classes *classes, const float *values);

/* The number of bytes that v2_classes_write_bytes writes. */
int64_t v2_classes_bytes(const struct v2_classes *classes);

void v2_classes_write_bytes(struct writer *writer, const struct v2_classes *classes);
void v2_classes_write_json(struct writer *writer, const struct v2_classes *classes); /* writes a list of strings */

#endif
