/* outputs: allocates memory for the results that `outputs` of a call names, and writes the answer.
 *
 * The JSON before binary results does not depend on the results. So if all outputs are binary, the JSON is written
 * before the run. The engine then writes the results directly behind it, into the answer. Classes in place of values
 * are written after the run. */
#ifndef SERVER_DIALECTS_V2_OUTPUTS_H
#define SERVER_DIALECTS_V2_OUTPUTS_H

#include "server/dialects/v2/classes.h"
#include "server/dialects/v2/shape.h"
#include "server/http/request.h"

#include <jansson.h>

struct v2_output {
    int index; /* index into model_info.outputs */
    bool binary;
    int64_t item_elements;
    struct v2_shape shape;
    float *values;             /* the results of all items */
    struct v2_classes classes; /* they replace the values, if classes.count > 0 */
};

/* What the answer needs to know about a call. It lies in request memory. */
struct v2_outputs {
    const char *id; /* the id of the call. NULL if the call has none */
    int count;
    struct v2_output *list; /* (count) */
    bool in_place;          /* the answer is complete after the run */
};

/* Sets `index`, `binary` and classes.count of each output. The parameter `binary` is the default. If the list is NULL
 * or empty, the only output is the model's first one. Here and below, a failing function sets request->failure and
 * returns -1. */
int v2_outputs_read(struct request *request, const json_t *list, bool binary, struct v2_outputs *outputs);

/* Allocates memory for the results of the job's items, and sets the other members of `outputs`. */
int v2_outputs_want(struct request *request, struct v2_outputs *outputs);

/* Writes the answer after the run. */
void v2_outputs_write(struct request *request, struct v2_outputs *outputs);

#endif
