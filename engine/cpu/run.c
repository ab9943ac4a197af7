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
    fprintf(stderr, "operation %s: %s, but its row in engine/cpu/operations.c does not declare this\n",
            operation_name(run->step->operation), use);
    abort();
}

bool cpu_selects(const struct cpu_run *run, const struct plan_step *step, int64_t sequence)
{
    if (step->only.axis == PLAN_NONE)
        return true;
    const int64_t *starts = run->batch->layouts[step->only.axis].starts + sequence;
    int64_t rows = starts[1] - starts[0];
    return step->only.least <= rows && rows <= step->only.most;
}

bool cpu_selects_rows(const struct cpu_run *run, const struct plan_step *step, int64_t first, int64_t rows)
{
    if (step->only.axis == PLAN_NONE)
        return true;
    const struct layout *layout = layout_of(run, step->x);
    int64_t sequence = 0, behind = layout->n_sequences;
    while (behind - sequence > 1) { /* binary search for the last sequence that begins at `first` or before */
        int64_t middle = (sequence + behind) / 2;
        if (layout->starts[middle] <= first)
            sequence = middle;
        else
            behind = middle;
    }
    for (; sequence < layout->n_sequences && layout->starts[sequence] < first + rows; sequence++)
        if (cpu_selects(run, step, sequence))
            return true;
    return false;
}
