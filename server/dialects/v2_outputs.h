/* v2_outputs: from the `outputs` of a call to the memory of its results, and to the text of its answer.
 *
 * If all outputs are binary, the JSON before them does not depend on their values. It is then written before the run,
 * and the engine writes the results after it, into the answer itself. */
#ifndef SERVER_DIALECTS_V2_OUTPUTS_H
#define SERVER_DIALECTS_V2_OUTPUTS_H

#include "server/dialects/v2_shape.h"
#include "server/http/request.h"

#include <jansson.h>

struct v2_output {
    int index; /* in model_info.outputs */
    bool binary;
    int64_t item_elements;
    struct v2_shape shape;
    float *values; /* of all items */
};

/* What the answer needs of a call, in request memory. */
struct v2_outputs {
    const char *id; /* of the call; NULL: it has none */
    int count;
    struct v2_output *list; /* (count) */
    bool in_place;          /* the answer is complete after the run */
};

/* Sets index and binary of each output. `binary` is the default. Without a list, or with an empty one, the only output
 * is the model's first. -1: request->failure, here and below. */
int v2_outputs_read(struct request *request, const json_t *list, bool binary, struct v2_outputs *outputs);

/* Gives the items of the job memory for their results, and sets the rest of `outputs`. */
int v2_outputs_want(struct request *request, struct v2_outputs *outputs);

/* Writes the answer after the run. */
void v2_outputs_write(struct request *request, const struct v2_outputs *outputs);

#endif
