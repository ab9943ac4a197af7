/* What a finished plan tells of itself. */
#include "engine/plan/plan.h"

#include <math.h>
#include <stdlib.h>

static const char *const operation_names[OP_COUNT] = {
    [OP_EMBED] = "embed",
    [OP_ADD_POSITIONS] = "add_positions",
    [OP_LAYER_NORM] = "layer_norm",
    [OP_LINEAR] = "linear",
    [OP_FEED_FORWARD] = "feed_forward",
    [OP_ACTIVATE] = "activate",
    [OP_ADD] = "add",
    [OP_MASK_ROWS] = "mask_rows",
    [OP_ADD_SINUSOIDS] = "add_sinusoids",
    [OP_PROJECT_SEQUENCE] = "project_sequence",
    [OP_CONVOLVE_SEQUENCE] = "convolve_sequence",
    [OP_PROJECT_CALL] = "project_call",
    [OP_ATTEND] = "attend",
    [OP_ATTEND_CALL] = "attend_call",
    [OP_SHIFT_TOKENS] = "shift_tokens",
    [OP_ROTATE] = "rotate",
    [OP_LINEAR_ATTEND] = "linear_attend",
    [OP_LOCAL_ATTEND] = "local_attend",
    [OP_CONCATENATE] = "concatenate",
    [OP_APPEND_ROWS] = "append_rows",
    [OP_CONVOLVE_IMAGE] = "convolve_image",
    [OP_GATE] = "gate",
    [OP_GATHER_ROWS] = "gather_rows",
    [OP_CUT_PADDING] = "cut_padding",
    [OP_RETRIEVE] = "retrieve",
    [OP_GIVE_HIDDEN] = "give_hidden",
    [OP_GIVE_POOLED] = "give_pooled",
    [OP_GIVE_OUTPUT] = "give_output",
    [OP_GIVE_IMAGE] = "give_image",
};

const char *operation_name(enum operation operation)
{
    return operation_names[operation];
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->n_weights; i++) {
        free(plan->weights[i].name);
        free(plan->weights[i].data);
    }
    free(plan->axes);
    free(plan->values);
    free(plan->weights);
    free(plan->steps);
    free(plan->decisions);
    free(plan);
}

bool plan_window_fits(const struct plan_window *window, struct plan_image image)
{
    return image.height + window->before[0] + window->after[0] >= window->size[0] &&
           image.width + window->before[1] + window->after[1] >= window->size[1];
}

struct plan_image plan_convolved(const struct plan_window *window, struct plan_image image)
{
    int64_t height = image.height + window->before[0] + window->after[0] - window->size[0];
    int64_t width = image.width + window->before[1] + window->after[1] - window->size[1];
    return (struct plan_image){height / window->stride[0] + 1, width / window->stride[1] + 1};
}

/* Of a square image, or of pixels side by side. */
static int64_t convolved_rows(const struct plan *plan, const struct plan_axis *axis, int64_t rows)
{
    struct plan_image image = {1, rows};
    if (plan->inputs[axis->input].input.layout == LAYOUT_IMAGE)
        image.height = image.width = (int64_t)sqrt((double)rows);
    if (!plan_window_fits(&axis->window, image))
        return 0;
    image = plan_convolved(&axis->window, image);
    return image.height * image.width;
}

static int64_t axis_rows(const struct plan *plan, int index, int64_t rows, int64_t items)
{
    const struct plan_axis *axis = &plan->axes[index];
    if (axis->input == PLAN_NONE)
        return axis->rows_per_item * items;
    if (axis->joined)
        return axis_rows(plan, axis->first, rows, items) + axis_rows(plan, axis->second, rows, items);
    if (plan_may_lack(plan, axis->input))
        return 0;
    if (axis->window.size[0])
        return convolved_rows(plan, axis, rows);
    return axis->n ? rows / axis->n * axis->k : rows;
}

int64_t plan_value_rows(const struct plan *plan, int value, int64_t rows, int64_t items)
{
    return axis_rows(plan, plan->values[value].axis, rows, items);
}

bool plan_may_lack(const struct plan *plan, int input)
{
    const struct plan_input *of = &plan->inputs[input];
    return of->input.optional && of->fallback == PLAN_NONE && of->input.like == PLAN_NONE;
}
