#include "server/dialects/native/model.h"

#include <string.h>

const struct served_model *native_model(const struct request *request)
{
    return &request->set->models[request->model_index];
}

bool native_takes_pictures(const struct request *request)
{
    return native_model(request)->image.height > 0;
}

bool native_is_sequence(const struct model_input *input)
{
    if (input->layout != LAYOUT_TENSOR)
        return input->layout != LAYOUT_IMAGE;
    return input->kind == INPUT_IDS ? input->rank == 1
                                    : input->kind == INPUT_ROWS && input->rank == 2 && input->shape[1] > 0;
}

int native_takes_sequences(struct request *request)
{
    const struct model_input *input = &request->info->inputs[0];
    if (native_is_sequence(input))
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "model \"%s\" accepts %s, for which this route has no key: use /v2/models/%s/infer",
                       request_model_name(request), input->layout == LAYOUT_IMAGE ? "images" : "tensors",
                       request_model_name(request));
}

int64_t native_columns(const struct model_info *info)
{
    const struct model_input *input = &info->inputs[0];
    if (input->kind != INPUT_ROWS)
        return 1;
    return input->layout == LAYOUT_TENSOR && input->rank > 0 ? input->shape[input->rank - 1] : input->columns;
}

void native_place(const struct request *request, struct engine_item *item, const void *data, int64_t length)
{
    const struct model_input *input = &request->info->inputs[0];
    item->inputs[0].data = data;
    item->inputs[0].length = length;
    item->inputs[0].width = input->layout == LAYOUT_CALL ? 1 : 0;
    if (input->layout != LAYOUT_TENSOR)
        return;
    memcpy(item->inputs[0].sizes, input->shape, sizeof input->shape);
    item->inputs[0].sizes[0] = length;
}
