/* What a finished plan tells of itself. */
#include "engine/plan/plan.h"

#include <math.h>
#include <stdlib.h>

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
