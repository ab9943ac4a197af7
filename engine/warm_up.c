/* warm_up: the first batch of a model, which runs before any request. It consists of one short item of zeros. */
#include "engine/engine.h"
#include "engine/model.h"
#include "engine/plan/arithmetic.h"
#include "engine/plan/padder.h"

#include <stdlib.h>

/* Numbers of sizes to try, because a class may refuse the smallest ones. LENGTHS lengths are tried. For images, EDGES
 * heights are combined with EDGES widths, because a class may need different heights and widths. */
#define LENGTHS 64
#define EDGES 32
#define DOUBLINGS 16 /* number of powers of two that are tried for a module's free sizes, after LENGTHS */

/* An item, and the memory to which it points. */
struct warm_up {
    struct engine_item item;
    void *inputs[ENGINE_MAX_INPUTS];
    float *output;
};

static void warm_up_free(struct warm_up *warm_up)
{
    for (int i = 0; i < ENGINE_MAX_INPUTS; i++)
        free(warm_up->inputs[i]);
    free(warm_up->output);
}

/* The length of size number `size`, counted from 0. */
static int64_t length_of(const struct model_input *input, int64_t size)
{
    int64_t least = (input->min_length + input->multiple - 1) / input->multiple * input->multiple;
    return least + size * input->multiple;
}

/* Sets the sizes of a tensor, if all free sizes of the item are `side`. */
static void set_sizes(const struct plan *plan, int input, int64_t side, struct engine_item *item)
{
    for (int d = 0; d < plan->inputs[input].input.rank; d++)
        if (!plan_size_at(plan, plan->inputs[input].sizes[d], side, &item->inputs[input].sizes[d]))
            item->inputs[input].sizes[d] = 0; /* model_check refuses this size */
}

/* The value of the free sizes for attempt number `size` with a module: first all small numbers, then powers of two. */
static int64_t side_of(int64_t size)
{
    return size < LENGTHS ? 1 + size : LENGTHS << (size - LENGTHS + 1);
}

/* Sets the lengths of the required inputs. Their data is set later. */
static void set_lengths(const struct model *model, int64_t size, struct engine_item *item)
{
    const struct model_info *info = model_info(model);
    const struct plan *plan = model_plan(model);
    for (int i = 0; i < info->n_inputs; i++) {
        const struct model_input *input = &info->inputs[i];
        bool image = input->layout == LAYOUT_IMAGE;
        if (input->optional)
            continue;
        set_sizes(plan, i, side_of(size), item);
        if (plan_counts_axes(plan) && input->like < 0) {
            item->inputs[i].width = 1;
            item->inputs[i].length = least(most(side_of(size), input->min_length), input->max_length);
            continue;
        }
        item->inputs[i].width = image ? 1 + size % EDGES : 1;
        item->inputs[i].length = input->like >= 0 ? item->inputs[input->like].length
                                 : image          ? 1 + size / EDGES
                                                  : length_of(input, size);
    }
}

static int allocate_inputs(const struct model *model, struct warm_up *warm_up, struct error *error)
{
    const struct model_info *info = model_info(model);
    const struct plan *plan = model_plan(model);
    for (int i = 0; i < info->n_inputs; i++) {
        if (info->inputs[i].optional)
            continue;
        size_t rows = info->inputs[i].layout == LAYOUT_TENSOR
                          ? (size_t)padder_length(plan, &warm_up->item, i)
                          : (size_t)(warm_up->item.inputs[i].length * warm_up->item.inputs[i].width);
        size_t columns = info->inputs[i].columns > 0 ? (size_t)info->inputs[i].columns : 1;
        free(warm_up->inputs[i]);
        warm_up->inputs[i] = NULL;
        warm_up->item.inputs[i].data = NULL;
        if (rows > (size_t)plan->max_rows) /* model_check refuses an item without this input */
            continue;
        warm_up->inputs[i] = calloc(rows * columns, sizeof(float)); /* for bytes, ids or floats */
        if (!warm_up->inputs[i])
            return error_set(error, "out of memory for the warm-up batch of %zu rows", rows);
        warm_up->item.inputs[i].data = warm_up->inputs[i];
    }
    return 0;
}

/* Requests the whole first tensor of a module. */
static int allocate_tensor(const struct model *model, struct warm_up *warm_up, struct error *error)
{
    int64_t shape[ENGINE_MAX_RANK], elements = 1;
    int rank = model_output_shape(model, &warm_up->item, 0, shape);
    for (int d = 0; d < rank; d++)
        elements *= shape[d];
    warm_up->output = calloc((size_t)elements, sizeof(float));
    warm_up->item.output = warm_up->output;
    return warm_up->output ? 0 : error_set(error, "out of memory for the warm-up batch");
}

/* Requests one row of the output, a whole image, or the whole first tensor of a module. */
static int allocate_output(const struct model *model, struct warm_up *warm_up, struct error *error)
{
    static const int32_t first = 0;
    struct engine_item *item = &warm_up->item;
    const struct model_info *info = model_info(model);
    if (info->n_tensors > 0)
        return allocate_tensor(model, warm_up, error);
    item->n_rows = 1;
    item->rows = &first;
    if (info->inputs[0].layout == LAYOUT_IMAGE) {
        int64_t shape[ENGINE_MAX_RANK];
        model_output_shape(model, item, 0, shape);
        item->n_rows = shape[1] * shape[2];
        item->rows = NULL;
    }
    warm_up->output = calloc((size_t)(item->n_rows * info->output_columns), sizeof(float));
    item->output = warm_up->output;
    return item->output ? 0 : error_set(error, "out of memory for the warm-up batch");
}

/* Finds the shortest item that the model accepts. Returns 1 if it accepts none of the sizes. */
static int find_item(const struct model *model, struct warm_up *warm_up, struct error *error)
{
    int64_t sizes = model_info(model)->inputs[0].layout == LAYOUT_IMAGE ? EDGES * EDGES : LENGTHS;
    if (plan_counts_axes(model_plan(model)))
        sizes += DOUBLINGS;
    for (int64_t size = 0; size < sizes; size++) {
        set_lengths(model, size, &warm_up->item);
        if (allocate_inputs(model, warm_up, error) != 0)
            return -1;
        if (model_check(model, &warm_up->item, error) == 0)
            return allocate_output(model, warm_up, error);
    }
    return 1;
}

int model_warm_up(struct model *model, int lane, double *flops, struct error *error)
{
    struct warm_up warm_up = {.output = NULL};
    *flops = 0;
    if (model_enter(model, lane, error) != 0)
        return -1;
    int status = find_item(model, &warm_up, error);
    if (status == 0) {
        *flops = model_item_flops(model, &warm_up.item);
        status = model_run(model, lane, &warm_up.item, 1, error);
    }
    warm_up_free(&warm_up);
    return status < 0 ? -1 : 0;
}
