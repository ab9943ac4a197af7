#include "engine/cuda/fastest.h"
#include "engine/cuda/products.h"
#include "engine/cuda/roads.h"

static bool same_weight(const struct plan *plan, int a, int b)
{
    if (a == PLAN_NONE || b == PLAN_NONE)
        return a == b;
    return plan->weights[a].rows == plan->weights[b].rows && plan->weights[a].columns == plan->weights[b].columns;
}

/* Whether launches of the two steps take the same time. */
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

static enum road known_road(const struct cuda_run *run, int step)
{
    for (int i = 0; i < step; i++)
        if (run->launches[i].road != ROAD_OPEN && same_sizes(run, i, step))
            return run->launches[i].road;
    return ROAD_OPEN;
}

void road_choose(struct cuda_run *run, bool possible, const launch_road &launch)
{
    const enum road roads[] = {ROAD_LIBRARY, ROAD_KERNEL};
    int step = (int)(run->step - run->plan->steps);
    enum road *road = &run->launches[step].road;
    if (*road != ROAD_OPEN || !goes_on(run))
        return;
    *road = possible ? known_road(run, step) : ROAD_KERNEL;
    if (*road != ROAD_OPEN)
        return;
    int fastest = find_fastest(run, cuda_products_stopwatch(run->products), 2, [&](int number) {
        struct cuda_run now = *run;
        now.choosing = false;
        launch(&now, roads[number]);
        note(run, now.status);
        return goes_on(&now);
    });
    *road = roads[fastest < 0 ? 0 : fastest];
}
