/* reference_calls: converts recorded calls of forward() to items of the model. The file
 * tests/reference/NAME/calls.safetensors contains the calls. The names of its tensors are INDEX/in/PARAMETER and
 * INDEX/out/OUTPUT. */
#ifndef TESTS_UNIT_REFERENCE_CALLS_H
#define TESTS_UNIT_REFERENCE_CALLS_H

#include "engine/engine.h"

#define CALL_ITEMS 8
#define CALL_OUTPUTS 8

/* One output of a call. The outputs of the items follow one another. */
struct call_output {
    int index; /* index in model_info.outputs */
    int64_t elements;
    float *expected, *found;
};

/* One call of forward(). Each of its sequences is one item. With LAYOUT_CALL, the whole call is one item. */
struct forward_call {
    struct engine_item items[CALL_ITEMS];
    struct engine_extra extras[CALL_ITEMS][CALL_OUTPUTS];
    int64_t n_items;
    void *inputs[ENGINE_MAX_INPUTS];
    struct call_output outputs[CALL_OUTPUTS]; /* outputs[0] is the class's own output */
    int n_outputs;
};

/* Prepares call `index`. Returns false if the file does not contain this call. Call weights_read of `calls` first. The
 * caller must call call_free. */
bool call_prepare(const struct model *model, const struct weights *calls, int index, struct forward_call *call);
void call_free(struct forward_call *call);

#endif
