#include "engine/cpu/run.h"

#include <stdio.h>
#include <stdlib.h>

int64_t cpu_no_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    (void)run, (void)step;
    return 0;
}

void cpu_refuse_use(const struct cpu_run *run, const char *use)
{
    fprintf(stderr, "operation %s: %s, which its row in engine/cpu/operations.c does not say\n",
            operation_name(run->step->operation), use);
    abort();
}

bool cpu_selects(const struct cpu_run *run, const struct plan_step *step, int64_t item)
{
    if (step->only.axis == PLAN_NONE)
        return true;
    const int64_t *starts = run->batch->layouts[step->only.axis].starts + item;
    int64_t rows = starts[1] - starts[0];
    return step->only.least <= rows && rows <= step->only.most;
}

bool cpu_selects_rows(const struct cpu_run *run, const struct plan_step *step, int64_t first, int64_t rows)
{
    if (step->only.axis == PLAN_NONE)
        return true;
    const int64_t *starts = layout_of(run, step->x)->starts;
    int64_t item = 0, behind = run->batch->n_items;
    while (behind - item > 1) { /* the last item that begins at `first` or before */
        int64_t middle = (item + behind) / 2;
        if (starts[middle] <= first)
            item = middle;
        else
            behind = middle;
    }
    for (; item < run->batch->n_items && starts[item] < first + rows; item++)
        if (cpu_selects(run, step, item))
            return true;
    return false;
}
