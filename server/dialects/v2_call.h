/* v2_call: a call of a model while it is read and answered. Private to v2_infer.c, v2_inputs.c and v2_outputs.c. */
#ifndef SERVER_V2_CALL_H
#define SERVER_V2_CALL_H

#include "server/dialects/v2.h"

#include <jansson.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct v2_output {
    int index; /* in model_info.outputs */
    bool binary;
    int64_t item_elements;
    struct v2_shape shape;
    float *values; /* of all items */
};

/* What is known of a call until its answer is written. In request memory. */
struct v2_call {
    const char *id; /* NULL: it has none */
    int n_outputs;
    struct v2_output *outputs;
    bool in_place; /* the answer is complete once the engine has run */
};

/* The body while it is read. */
struct v2_reader {
    struct request *request;
    struct v2_call *call;
    const char *bytes; /* of tensors, not read yet */
    int64_t n_bytes;
    bool binary_output;                            /* the default of outputs */
    struct numbers numbers[ENGINE_MAX_INPUTS + 1]; /* of the inputs' `data`, in their order, which is the body's */
    size_t n_numbers, n_read;                      /* how many there are, and how many inputs took theirs */
    struct v2_tensor tensors[ENGINE_MAX_INPUTS];
    const void *values[ENGINE_MAX_INPUTS]; /* NULL: not given */
};

/* An entry of `inputs` or `outputs`, which has not all of these. */
struct v2_entry {
    const char *name, *datatype;
    json_t *shape, *parameters, *data;
};

/* ---- Of JSON (v2_infer.c). -1: request->failure, here and below ---- */

/* A boolean among parameters, of which those that are not known are other servers'. Absent: *value stays. */
int v2_read_bool(struct v2_reader *reader, const json_t *parameters, const char *name, bool *value);

/* Entry `index` of the list that is called `key`: an object that has a name. */
int v2_read_entry(struct v2_reader *reader, const char *key, size_t index, const json_t *json,
                  const struct option *table, size_t count, struct v2_entry *entry);

/* ---- Inputs (v2_inputs.c) ---- */

/* Fills reader->tensors and values. */
int v2_read_inputs(struct v2_reader *reader, const json_t *list);

/* The job's items, once inputs are read. */
int v2_make_items(struct v2_reader *reader);

/* ---- Outputs (v2_outputs.c) ---- */

/* Fills call->outputs, index and binary only. `list` NULL: none asked for, which is the class's own output alone. */
int v2_read_outputs(struct v2_reader *reader, const json_t *list);

/* Shapes, memory and places of the results, for items that exist. */
int v2_want_outputs(struct request *request, struct v2_call *call);

#endif
