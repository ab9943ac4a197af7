/* outputs: allocates memory for the outputs that an inference request names, and writes the answer.
 *
 * The JSON before binary outputs does not depend on the results. So if all outputs are binary, the JSON is written
 * before the job runs. The engine then writes the results directly behind the JSON, into the answer. If an output
 * contains classes in place of values, the whole answer is written after the job has run. */
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
    float *values;             /* (items, item_elements): the results of all items */
    struct v2_classes classes; /* replace the values in the answer if classes.count > 0 */
};

/* What the answer needs to know about the request. The struct is in request memory. */
struct v2_outputs {
    const char *id; /* the key `id` of the request. NULL if it is absent */
    int count;
    struct v2_output *list; /* (count): the requested outputs */
    bool in_place;          /* the engine writes the results into the answer, so the answer is complete after the run */
};

/* Fills outputs->list from `list`, the value of the key `outputs`. Sets `index`, `binary` and classes.count of each
 * output. `binary` is the default for outputs that do not say whether they are binary. If `list` is NULL or empty, the
 * only output is the model's first one.
 *
 * Here and below, a failing function sets request->failure and returns -1. */
int v2_outputs_read(struct request *request, const json_t *list, bool binary, struct v2_outputs *outputs);

/* Allocates memory for the results of the job's items, and sets the other members of `outputs`. */
int v2_outputs_want(struct request *request, struct v2_outputs *outputs);

/* Writes the answer. Call it after the job has run. */
void v2_outputs_write(struct request *request, struct v2_outputs *outputs);

#endif
