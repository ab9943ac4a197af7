/* classes: Triton's classification extension. In place of its values, an output contains the classes with the
 * largest values. The classes are texts, a tensor of datatype BYTES:
 *
 *     0.75:3        value and index of a class. The index counts all elements of an item
 *     0.75:3:cat    the same with a label, if the model has labels
 *
 * The shape is (batch, classes). The largest value comes first. */
#ifndef SERVER_DIALECTS_V2_CLASSES_H
#define SERVER_DIALECTS_V2_CLASSES_H

#include "server/dialects/classes.h"
#include "server/text/writer.h"

#include <jansson.h>

/* The classes of one output of a call. */
struct v2_classes {
    int64_t count; /* number of classes that are returned for each item. 0: the output contains its values */

    /* Set by v2_classes_want. */
    int64_t n_items, item_elements;
    const struct served_label *labels; /* by class. NULL if the classes have no labels */
    struct class_score *sorted;        /* (item_elements): memory for one item at a time */
    struct class_score *best;          /* (n_items, count) */
    char *text;                        /* memory for the text of one class */
};

/* Reads the parameter `classification` of an output. It is the number of classes. If it is absent or 0, `count` becomes
 * 0. Here and below, a failing function sets request->failure and returns -1. */
int v2_classes_read(struct request *request, const json_t *parameters, struct v2_classes *classes);

/* Allocates memory for the classes of output `index`, which has `item_elements` values for each item of the job.
 * `count` becomes at most `item_elements`. Adds the bytes of the answer to *bytes. */
int v2_classes_want(struct request *request, struct v2_classes *classes, int index, int64_t item_elements,
                    int64_t *bytes);

/* Sorts the classes of each item, after the run. `values` is (n_items, item_elements). Call it before the next
 * functions. */
void v2_classes_sort(struct v2_classes *classes, const float *values);

/* The number of bytes that v2_classes_write_bytes writes. */
int64_t v2_classes_bytes(const struct v2_classes *classes);

void v2_classes_write_bytes(struct writer *writer, const struct v2_classes *classes);
void v2_classes_write_json(struct writer *writer, const struct v2_classes *classes); /* a list of strings */

#endif
