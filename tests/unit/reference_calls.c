#include "tests/unit/reference_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t integer_at(const struct weights_tensor *tensor, int64_t index)
{
    int64_t integer;
    int32_t narrow;
    const char *data = tensor->data;
    if (tensor->dtype == WEIGHTS_BOOL)
        return data[index] != 0;
    if (tensor->dtype == WEIGHTS_I64) {
        memcpy(&integer, data + (size_t)index * sizeof integer, sizeof integer);
        return integer;
    }
    memcpy(&narrow, data + (size_t)index * sizeof narrow, sizeof narrow);
    return narrow;
}

static bool is_integers(const struct weights_tensor *tensor)
{
    return tensor->dtype == WEIGHTS_I64 || tensor->dtype == WEIGHTS_I32;
}

/* Returns all elements of a tensor as floats, like the engine's outputs. The caller frees them. */
static float *float_data(const struct weights_tensor *tensor)
{
    float *floats = malloc((size_t)tensor->elements * sizeof *floats);
    if (!is_integers(tensor) && tensor->dtype != WEIGHTS_BOOL) {
        weights_to_f32(tensor, floats);
        return floats;
    }
    for (int64_t i = 0; i < tensor->elements; i++)
        floats[i] = (float)integer_at(tensor, i);
    return floats;
}

/* Returns all elements of a tensor in the format that the engine reads: int32_t ids, bytes of a mask, or floats. The
 * caller frees them. */
static void *input_data(const struct weights_tensor *tensor)
{
    if (tensor->dtype == WEIGHTS_BOOL) {
        uint8_t *mask = malloc((size_t)tensor->elements);
        memcpy(mask, tensor->data, (size_t)tensor->elements);
        return mask;
    }
    if (!is_integers(tensor))
        return float_data(tensor);
    int32_t *ids = malloc((size_t)tensor->elements * sizeof *ids);
    for (int64_t i = 0; i < tensor->elements; i++)
        ids[i] = (int32_t)integer_at(tensor, i);
    return ids;
}

static const struct weights_tensor *find(const struct weights *calls, int index, const char *folder, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%d/%s/%s", index, folder, name);
    return weights_find(calls, full);
}

/* The first dimension of an attention mask is the batch, unless the item is a call. In a call, a mask of rank 3 has one
 * matrix for each head of each sequence. */
static void give_attention_mask(struct forward_call *call, int input, const struct weights_tensor *tensor, bool is_call)
{
    int64_t width = tensor->dtype == WEIGHTS_BOOL ? 1 : 4, each = tensor->elements / call->n_items;
    for (int64_t b = 0; b < call->n_items; b++) {
        call->items[b].inputs[input].data = (char *)call->inputs[input] + b * each * width;
        call->items[b].inputs[input].length = tensor->shape[tensor->rank - 2];
        call->items[b].inputs[input].columns = tensor->shape[tensor->rank - 1];
        call->items[b].inputs[input].n_masks = is_call && tensor->rank == 3 ? tensor->shape[0] : 0;
        call->items[b].inputs[input].floats = tensor->dtype != WEIGHTS_BOOL;
    }
}

static void give_input(const struct model *model, struct forward_call *call, int input,
                       const struct weights_tensor *tensor)
{
    const struct model_input *model_input = &model_info(model)->inputs[input];
    bool is_call = model_input->layout == LAYOUT_CALL;
    call->inputs[input] = input_data(tensor);
    if (model_input->kind == INPUT_ATTENTION_MASK) {
        give_attention_mask(call, input, tensor, is_call);
        return;
    }
    int64_t bytes = tensor->dtype == WEIGHTS_BOOL ? 1 : 4;
    for (int64_t b = 0; b < call->n_items; b++) {
        call->items[b].inputs[input].data =
            (char *)call->inputs[input] + b * (tensor->elements / call->n_items) * bytes;
        if (model_input->layout == LAYOUT_TENSOR) {
            assert_int_equal(tensor->rank, model_input->rank + 1);
            memcpy(call->items[b].inputs[input].sizes, tensor->shape + 1,
                   (size_t)model_input->rank * sizeof *tensor->shape);
            continue;
        }
        call->items[b].inputs[input].length = tensor->shape[is_call ? 0 : 1];
        call->items[b].inputs[input].width = is_call ? tensor->shape[1] : 0;
        if (model_input->layout == LAYOUT_IMAGE) {
            call->items[b].inputs[input].length = tensor->shape[2];
            call->items[b].inputs[input].width = tensor->shape[3];
        } else if (model_input->layout == LAYOUT_CHANNELS) {
            call->items[b].inputs[input].length = tensor->elements / call->n_items / tensor->shape[1];
        }
    }
}

/* Requests the output, and sets in each item where the engine writes it. Call this function after the inputs are
 * set. */
static void want_output(const struct model *model, struct forward_call *call, int index,
                        const struct weights_tensor *tensor)
{
    struct call_output *output = &call->outputs[call->n_outputs++];
    assert_true(call->n_outputs <= CALL_OUTPUTS);
    *output = (struct call_output){.index = index, .elements = tensor->elements, .expected = float_data(tensor)};
    output->found = calloc((size_t)tensor->elements, sizeof *output->found);
    for (int64_t b = 0; b < call->n_items; b++) {
        struct engine_item *item = &call->items[b];
        int64_t shape[ENGINE_MAX_RANK], each = tensor->elements / call->n_items, elements = 1;
        int rank = model_output_shape(model, item, index, shape);
        bool batched = tensor->rank > rank;
        assert_int_equal(tensor->rank - batched, rank);
        for (int i = 0; i < rank; i++) {
            assert_int_equal(shape[i], tensor->shape[i + batched]);
            elements *= shape[i];
        }
        assert_int_equal(elements, each);
        if (index > 0) {
            call->extras[b][item->n_extras++] =
                (struct engine_extra){.output = index, .data = output->found + b * each};
            continue;
        }
        item->output = output->found + b * each;
        item->n_rows = model_info(model)->n_tensors ? 0 : each / model_info(model)->output_columns;
    }
}

bool call_prepare(const struct model *model, const struct weights *calls, int index, struct forward_call *call)
{
    const struct model_info *info = model_info(model);
    const struct weights_tensor *output = find(calls, index, "out", info->outputs[0]);
    memset(call, 0, sizeof *call);
    if (!output)
        return false;
    call->n_items = info->inputs[0].layout == LAYOUT_CALL ? 1 : output->shape[0];
    assert_true(call->n_items <= CALL_ITEMS);
    for (int i = 0; i < info->n_inputs; i++) {
        const struct weights_tensor *input = find(calls, index, "in", info->inputs[i].name);
        if (input)
            give_input(model, call, i, input);
    }
    for (int64_t b = 0; b < call->n_items; b++)
        call->items[b].extras = call->extras[b];
    for (int i = 0; i < info->n_outputs; i++) {
        output = find(calls, index, "out", info->outputs[i]);
        if (output)
            want_output(model, call, i, output);
    }
    return true;
}

void call_free(struct forward_call *call)
{
    for (int i = 0; i < ENGINE_MAX_INPUTS; i++)
        free(call->inputs[i]);
    for (int i = 0; i < call->n_outputs; i++) {
        free(call->outputs[i].expected);
        free(call->outputs[i].found);
    }
}
