#include "engine/tensors.h"

#include <stdio.h>

/* The free size that equals the size. NULL if the size is not just one free size. */
static const struct plan_factor *free_factor(const struct plan *plan, int size)
{
    const struct plan_size *of = &plan->sizes[size];
    if (of->n_terms != 1 || of->terms[0].coefficient != 1 || of->terms[0].n_factors != 1)
        return NULL;
    const struct plan_factor *factor = &plan->factors[of->terms[0].factors[0]];
    return factor->kind == FACTOR_FREE ? factor : NULL;
}

int tensors_check_input(const struct plan *plan, const struct engine_item *item, int index, struct error *error)
{
    const struct model_input *input = &plan->inputs[index].input;
    for (int d = 0; d < input->rank; d++) {
        long long found = item->inputs[index].sizes[d], constant = input->shape[d];
        const struct plan_factor *factor = free_factor(plan, plan->inputs[index].sizes[d]);
        if (constant >= 0 && found != constant)
            return error_set(error, "input \"%s\" has size %lld in dimension %d of an item; expected %lld", input->name,
                             found, d, constant);
        if (found < 1)
            return error_set(error, "input \"%s\" is empty: its size in dimension %d of an item is %lld", input->name,
                             d, found);
        if (factor && (found < factor->free.least || found > factor->free.most))
            return error_set(error,
                             "input \"%s\" has size %lld in dimension %d of an item; the model accepts %lld to %lld",
                             input->name, found, d, (long long)factor->free.least, (long long)factor->free.most);
    }
    return 0;
}

/* Checks whether dimension d of the input has the size that follows from the other dimensions. */
static int check_shared_size(const struct plan *plan, const struct engine_item *item, int index, int d,
                             struct error *error)
{
    const struct plan_input *input = &plan->inputs[index];
    const struct plan_factor *factor = free_factor(plan, input->sizes[d]);
    long long found = item->inputs[index].sizes[d];
    int64_t expected;
    char text[120];
    if (padder_size(plan, item, input->sizes[d], &expected) && expected == found)
        return 0;
    if (factor)
        return error_set(
            error, "input \"%s\" has size %lld in dimension %d of an item; expected %lld, as in \"%s\", dimension %d",
            input->input.name, found, d, (long long)expected, plan->inputs[factor->free.input].input.name,
            factor->free.dimension);
    return error_set(error, "input \"%s\" has size %lld in dimension %d of an item; expected %lld, which is %s",
                     input->input.name, found, d, (long long)expected,
                     plan_size_text(plan, input->sizes[d], text, sizeof text));
}

static int check_limit(const struct plan *plan, const struct engine_item *item, const struct plan_size_limit *limit,
                       struct error *error)
{
    int64_t found;
    if (!padder_size(plan, item, limit->size, &found))
        return error_set(error, "%s does not fit into 64 bits for this item", limit->what);
    if (found >= limit->least && found <= limit->most && found % limit->multiple == 0)
        return 0;
    if (found % limit->multiple != 0)
        return error_set(error, "%s is %lld for this item; expected a multiple of %lld", limit->what, (long long)found,
                         (long long)limit->multiple);
    if (limit->most == INT64_MAX)
        return error_set(error, "%s is %lld for this item; expected at least %lld", limit->what, (long long)found,
                         (long long)limit->least);
    return error_set(error, "%s is %lld for this item; expected %lld to %lld", limit->what, (long long)found,
                     (long long)limit->least, (long long)limit->most);
}

int tensors_check_limits(const struct plan *plan, const struct engine_item *item, struct error *error)
{
    for (int i = 0; i < plan->n_size_limits; i++)
        if (check_limit(plan, item, &plan->size_limits[i], error) != 0)
            return -1;
    return 0;
}

/* The rows of an axis as text. */
static const char *axis_text(const struct plan *plan, int axis, char *text, size_t room)
{
    char rows[60], sequences[60];
    const struct plan_axis *of = &plan->axes[axis];
    int64_t count;
    text[0] = '\0';
    if (of->kind == AXIS_SIZED && plan_size_is_constant(plan, of->sized.sequences, &count) && count == 1)
        snprintf(text, room, " (%s)", plan_size_text(plan, of->sized.rows, rows, sizeof rows));
    else if (of->kind == AXIS_SIZED)
        snprintf(text, room, " (%s of %s)", plan_size_text(plan, of->sized.sequences, sequences, sizeof sequences),
                 plan_size_text(plan, of->sized.rows, rows, sizeof rows));
    return text;
}

static int check_rows(const struct plan *plan, const struct engine_item *item, struct error *error)
{
    int axis;
    char text[140];
    long long rows = padder_item_rows(plan, item, &axis), most = plan->max_rows;
    axis_text(plan, axis, text, sizeof text);
    if (rows < 1)
        return error_set(error, "with the sizes of this item, an intermediate result has no rows%s", text);
    if (rows > most)
        return error_set(error,
                         "an intermediate result has %lld rows%s for this item; this server accepts at most %lld "
                         "(--max-batch-tokens)",
                         rows, text, most);
    return 0;
}

int tensors_check_item(const struct plan *plan, const struct engine_item *item, struct error *error)
{
    int64_t value;
    char text[120];
    for (int i = 0; i < plan->n_inputs; i++)
        for (int d = 0; d < plan->inputs[i].input.rank; d++)
            if (check_shared_size(plan, item, i, d, error) != 0)
                return -1;
    if (check_rows(plan, item, error) != 0)
        return -1;
    for (int i = 0; i < plan->n_sizes; i++)
        if (!padder_size(plan, item, i, &value))
            return error_set(error, "a size of the item does not fit into 64 bits: %s",
                             plan_size_text(plan, i, text, sizeof text));
    return 0;
}

/* Narrows *least and *most by one limit. */
static void narrow(int64_t *least, int64_t *most, int64_t lower, int64_t upper)
{
    *least = lower > *least ? lower : *least;
    *most = upper < *most ? upper : *most;
}

void tensors_limit_length(const struct plan *plan, struct model_input *input, int index)
{
    if (input->layout != LAYOUT_TENSOR || input->rank == 0)
        return;
    int size = plan->inputs[index].sizes[0];
    const struct plan_factor *factor = free_factor(plan, size);
    int64_t least = input->shape[0] >= 0 ? input->shape[0] : 1, most = input->shape[0] >= 0 ? least : INT64_MAX;
    if (factor)
        narrow(&least, &most, factor->free.least, factor->free.most);
    for (int i = 0; i < plan->n_size_limits; i++)
        if (plan->size_limits[i].size == size)
            narrow(&least, &most, plan->size_limits[i].least, plan->size_limits[i].most);
    input->min_length = least;
    input->own_limit = input->shape[0] >= 0 || most < input->max_length;
    if (input->own_limit)
        input->max_length = most;
}

int tensors_output_shape(const struct plan *plan, const struct engine_item *item, int output, int64_t *shape)
{
    for (int d = 0; d < plan->outputs[output].rank; d++)
        if (!padder_size(plan, item, plan->outputs[output].sizes[d], &shape[d]))
            shape[d] = 0;
    return plan->outputs[output].rank;
}

int tensors_free_shape(const struct plan *plan, int output, int64_t *shape)
{
    for (int d = 0; d < plan->outputs[output].rank; d++)
        if (!plan_size_is_constant(plan, plan->outputs[output].sizes[d], &shape[d]))
            shape[d] = -1;
    return plan->outputs[output].rank;
}
