/* v2: the Open Inference Protocol with Triton's binary tensors. v2.c has the table of routes and what is known without
 * running a model; v2_infer.c, v2_inputs.c and v2_outputs.c read a call and write its answer; v2_tensors.c
 * reads values, and v2_kinds.c knows what each kind of input is. */
#ifndef SERVER_V2_H
#define SERVER_V2_H

#include "server/http/routes.h"
#include "server/text/json_body.h"
#include "server/text/numbers.h"

#include <jansson.h>

extern const struct dialect v2_dialect;

#define V2_VERSION "1" /* of each model; there is no other */

/* Finds the model of the path, and its version where the path names one. -1: request->failure. */
int v2_model(struct request *request);

enum outcome v2_infer_read(struct request *request);
int v2_infer_answer(struct request *request);

/* ---- Tensors (v2_tensors.c) ---- */

#define V2_MAX_RANK (ENGINE_MAX_RANK + 1) /* an item's, and the batch before it */

struct v2_shape {
    int rank;
    int64_t sizes[V2_MAX_RANK]; /* -1: free */
};

void v2_write_shape(struct writer *writer, const struct v2_shape *shape); /* "[1,2]" */

/* A tensor as a call declares it. Its values are in the JSON or, where `data` is NULL, among the body's bytes. */
struct v2_tensor {
    const char *name, *datatype;
    struct v2_shape shape;
    json_t *data;
    const struct numbers *numbers; /* what `data` holds, when an empty list stands for it; NULL: itself */
    const char *bytes;
    int64_t n_bytes;
};

/* What an input is to the protocol (v2_kinds.c): its datatypes, the first of which is metadata's, then NULL; and its
 * shape, which may depend on the rank that a tensor has. */
const char *v2_input_datatype(const struct model_input *input, int index);
struct v2_shape v2_input_shape(const struct model_input *input, int rank);

/* Gives an item the values of input `index` that are its own. */
void v2_input_place(const struct v2_tensor *tensor, const struct model_input *input, const char *values,
                    struct engine_item *item, int index);

/* Elements from dimension `first` on. The tensor passed v2_tensor_check, or its product is known to be small. */
int64_t v2_elements(const struct v2_shape *shape, int first);

int64_t v2_value_bytes(const struct v2_tensor *tensor); /* of an element as the engine takes it */

/* Whether the model's input takes such a tensor, with as many bytes as its shape says; -1: request->failure. */
int v2_tensor_check(struct request *request, const struct v2_tensor *tensor, const struct model_input *input);

/* The values as the engine takes them, in the body itself where that can be, else in request memory. The tensor passed
 * v2_tensor_check. NULL: request->failure. */
const void *v2_tensor_values(struct request *request, const struct v2_tensor *tensor, const struct model_input *input);

/* The tensor of a call that has no JSON: the shape is what the bytes make of it, one item. -1: request->failure. */
int v2_tensor_raw(struct request *request, const struct model_input *input, struct v2_tensor *tensor);

#endif
