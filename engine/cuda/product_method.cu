#include "engine/cuda/fastest.h"
#include "engine/cuda/product_method.h"
#include "engine/cuda/products.h"

static bool same_weight(const struct plan *plan, int a, int b)
{
    if (a == PLAN_NONE || b == PLAN_NONE)
        return a == b;
    return plan->weights[a].rows == plan->weights[b].rows && plan->weights[a].columns == plan->weights[b].columns;
}

/* Whether the two steps have the same sizes, so that their launches take the same time. */
static bool same_sizes(const struct cuda_run *run, int a, int b)
{
    const struct plan *plan = run->plan;
    const struct plan_step *s = &plan->steps[a], *t = &plan->steps[b];
    if (s->operation != t->operation || run->launches[a].steps != run->launches[b].steps ||
        columns_of(run, s->x) != columns_of(run, t->x) || columns_of(run, s->y) != columns_of(run, t->y) ||
        !same_weight(plan, s->weight, t->weight) || !same_weight(plan, s->bias, t->bias))
        return false;
    return s->operation != OP_PROJECT_SEQUENCE || (s->project_sequence.groups == t->project_sequence.groups &&
                                                   s->project_sequence.transposed == t->project_sequence.transposed);
}

static enum product_method known_method(const struct cuda_run *run, chosen_method chosen, int step)
{
    for (int i = 0; i < step; i++)
        if (run->launches[i].*chosen != PRODUCT_UNDECIDED && same_sizes(run, i, step))
            return run->launches[i].*chosen;
    return PRODUCT_UNDECIDED;
}

void product_method_choose(struct cuda_run *run, chosen_method chosen, bool possible, enum product_method usual,
                           const launch_method &launch)
{
    const enum product_method other = usual == PRODUCT_BY_LIBRARY ? PRODUCT_BY_KERNEL : PRODUCT_BY_LIBRARY;
    const enum product_method methods[] = {usual, other};
    int step = (int)(run->step - run->plan->steps);
    enum product_method *method = &(run->launches[step].*chosen);
    if (*method != PRODUCT_UNDECIDED || !has_not_failed(run))
        return;
    *method = possible ? known_method(run, chosen, step) : PRODUCT_BY_KERNEL;
    if (*method != PRODUCT_UNDECIDED)
        return;
    int fastest = fastest_find(run, cuda_products_stopwatch(run->products), 2, [&](int number) {
        struct cuda_run now = *run;
        now.choosing = false;
        bool supported = launch(&now, methods[number]);
        note(run, now.status);
        return supported && has_not_failed(&now);
    });
    *method = methods[fastest < 0 ? 0 : fastest];
}
