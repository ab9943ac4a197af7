/* reference_calls: the calls of a reference case, tests/reference/NAME/calls.safetensors, as items for the model. The
 * names of tensors are INDEX/in/PARAMETER and INDEX/out/OUTPUT. */
#ifndef TESTS_UNIT_REFERENCE_CALLS_H
#define TESTS_UNIT_REFERENCE_CALLS_H

#include "engine/engine.h"

#define CALL_ITEMS 8
#define CALL_OUTPUTS 8

/* One output of a call: the outputs of its items in order. */
struct call_output {
    int index; /* index in model_info.outputs */
    int64_t elements;
    float *expected, *found;
};

/* One call of forward(). Its sequences are items. With LAYOUT_CALL, the call is one item. */
struct forward_call {
    struct engine_item items[CALL_ITEMS];
    struct engine_extra extras[CALL_ITEMS][CALL_OUTPUTS];
    int64_t n_items;
    void *inputs[ENGINE_MAX_INPUTS];
    struct call_output outputs[CALL_OUTPUTS]; /* [0]: the output of the class */
    int n_outputs;
};

/* Prepares call `index`. Returns false if the file has no such call. The data of the file must have been read. The
 * caller must call call_free. */
bool call_prepare(const struct model *model, const struct weights *calls, int index, struct forward_call *call);
void call_free(struct forward_call *call);

#endif
