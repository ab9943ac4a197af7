#include "server/dialects/v2/kinds.h"

#include <string.h>

struct kind {
    const char *datatypes[V2_MAX_DATATYPES]; /* datatypes that the input accepts, ended by NULL. The first of them is
                                                 in the metadata */
    struct v2_shape (*shape)(const struct model_input *input, int rank);
    void (*place)(const struct v2_tensor *tensor, const struct model_input *input, const char *values,
                  struct engine_item *item, int index);
};

/* The size of a dimension that is a length. -1 if the model accepts more than one length. */
static int64_t length_size(const struct model_input *input)
{
    return input->min_length == input->max_length ? input->max_length : -1;
}

/* The shape (batch, sizes…), for LAYOUT_TENSOR. */
static struct v2_shape tensor_shape(const struct model_input *input)
{
    struct v2_shape shape = {1 + input->rank, {-1}};
    memcpy(shape.sizes + 1, input->shape, (size_t)input->rank * sizeof *shape.sizes);
    return shape;
}

/* The shape (batch, length), or (length, batch) for LAYOUT_CALL. For LAYOUT_TENSOR it is that of tensor_shape. */
static struct v2_shape list_shape(const struct model_input *input, int rank)
{
    (void)rank;
    if (input->layout == LAYOUT_TENSOR)
        return tensor_shape(input);
    if (input->layout == LAYOUT_CALL)
        return (struct v2_shape){2, {length_size(input), -1}};
    return (struct v2_shape){2, {-1, length_size(input)}};
}

/* The shape (batch, columns, height, width). For LAYOUT_CHANNELS it is (batch, columns, …) with the rank of the
 * tensor. */
static struct v2_shape channels_shape(const struct model_input *input, int rank)
{
    struct v2_shape shape = {rank < 2 || rank > V2_MAX_RANK ? 3 : rank, {-1, input->columns}};
    if (input->layout == LAYOUT_IMAGE)
        shape.rank = 4;
    for (int d = 2; d < shape.rank; d++)
        shape.sizes[d] = -1;
    return shape;
}

static struct v2_shape rows_shape(const struct model_input *input, int rank)
{
    if (input->layout == LAYOUT_IMAGE || input->layout == LAYOUT_CHANNELS)
        return channels_shape(input, rank);
    struct v2_shape shape = list_shape(input, rank);
    if (input->layout == LAYOUT_TENSOR)
        return shape;
    shape.sizes[shape.rank++] = input->columns;
    return shape;
}

static void place_rows(const struct v2_tensor *tensor, const struct model_input *input, const char *values,
                       struct engine_item *item, int index)
{
    const int64_t *sizes = tensor->shape.sizes;
    item->inputs[index].data = values;
    switch (input->layout) {
    case LAYOUT_SEQUENCE:
        item->inputs[index].length = sizes[1];
        break;
    case LAYOUT_CALL:
        item->inputs[index].length = sizes[0];
        item->inputs[index].width = sizes[1];
        break;
    case LAYOUT_IMAGE:
        item->inputs[index].length = sizes[2];
        item->inputs[index].width = sizes[3];
        break;
    case LAYOUT_CHANNELS:
        item->inputs[index].length = v2_elements(&tensor->shape, 2);
        break;
    case LAYOUT_TENSOR:
        memcpy(item->inputs[index].sizes, sizes + 1, (size_t)input->rank * sizeof *sizes);
        break;
    }
}

/* The shape (batch, queries, columns). If input->masks_per_sequence is not 0, it is (queries, columns) or (masks,
 * queries, columns). */
static struct v2_shape attention_mask_shape(const struct model_input *input, int rank)
{
    int64_t columns = input->columns > 0 ? input->columns : -1;
    if (input->masks_per_sequence > 0 && rank != 3)
        return (struct v2_shape){2, {-1, columns}};
    return (struct v2_shape){3, {-1, -1, columns}};
}

static void place_attention_mask(const struct v2_tensor *tensor, const struct model_input *input, const char *values,
                                 struct engine_item *item, int index)
{
    const struct v2_shape *shape = &tensor->shape;
    item->inputs[index].data = values;
    item->inputs[index].length = shape->sizes[shape->rank - 2];
    item->inputs[index].columns = shape->sizes[shape->rank - 1];
    item->inputs[index].n_masks = input->masks_per_sequence > 0 && shape->rank == 3 ? shape->sizes[0] : 0;
    item->inputs[index].floats = strcmp(tensor->datatype, "BOOL") != 0;
}

static void place_ignored(const struct v2_tensor *tensor, const struct model_input *input, const char *values,
                          struct engine_item *item, int index)
{
    (void)tensor;
    (void)input;
    item->inputs[index].data = values;
}

static const struct kind kinds[] = {
    [INPUT_IDS] = {{"INT64", "INT32"}, list_shape, place_rows},
    [INPUT_ROWS] = {{"FP32", "FP16", "BF16"}, rows_shape, place_rows},
    [INPUT_MASK] = {{"BOOL"}, list_shape, place_rows},
    [INPUT_ATTENTION_MASK] = {{"BOOL", "FP32", "FP16", "BF16"}, attention_mask_shape, place_attention_mask},
    [INPUT_IGNORED] = {{"BOOL"}, list_shape, place_ignored},
};

const char *v2_input_datatype(const struct model_input *input, int index)
{
    if (index >= V2_MAX_DATATYPES || (index > 0 && input->kind == INPUT_ATTENTION_MASK && !input->accepts_floats))
        return NULL;
    return kinds[input->kind].datatypes[index];
}

struct v2_shape v2_input_shape(const struct model_input *input, int rank)
{
    return kinds[input->kind].shape(input, rank);
}

void v2_input_place(const struct v2_tensor *tensor, const struct model_input *input, const char *values,
                    struct engine_item *item, int index)
{
    kinds[input->kind].place(tensor, input, values, item, index);
}
