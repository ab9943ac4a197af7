/* reference_calls: the calls of a reference case, tests/reference/NAME/calls.safetensors, as items for its model.
 * Tensors are named INDEX/in/PARAMETER and INDEX/out/OUTPUT. */
#ifndef TESTS_UNIT_REFERENCE_CALLS_H
#define TESTS_UNIT_REFERENCE_CALLS_H

#include "engine/engine.h"

#define CALL_ITEMS 8
#define CALL_OUTPUTS 8

/* One output of a call: the outputs of its items, one after another. */
struct call_output {
    int index; /* into model_info.outputs */
    int64_t elements;
    float *expected, *found;
};

/* One call of forward(): its sequences as items, or all of it as one item with LAYOUT_CALL. */
struct call {
    struct engine_item items[CALL_ITEMS];
    struct engine_extra extras[CALL_ITEMS][CALL_OUTPUTS];
    int64_t n_items;
    void *inputs[ENGINE_MAX_INPUTS];
    struct call_output outputs[CALL_OUTPUTS]; /* [0]: the class's own */
    int n_outputs;
};

/* The call number `index`; false: the file has no more. The file's data has been read. call_free is owed. */
bool call_prepare(const struct model *model, const struct weights *calls, int index, struct call *call);
void call_free(struct call *call);

#endif
