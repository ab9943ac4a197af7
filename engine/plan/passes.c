/* passes: functions that find, insert and remove steps. */
#include "engine/plan/passes.h"
#include "engine/plan/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int plan_count_readers(const struct plan *plan, int value)
{
    int readers = 0;
    for (int i = 0; i < plan->n_steps; i++)
        for (int r = 0; r < PLAN_READS; r++)
            readers += plan->steps[i].reads[r] == value;
    return readers;
}

int plan_writer(const struct plan *plan, int value)
{
    for (int i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].y == value)
            return i;
    return PLAN_NONE;
}

int plan_last_writer(const struct plan *plan, int value)
{
    int last = PLAN_NONE;
    for (int i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].y == value)
            last = i;
    return last;
}

void plan_drop_unread_steps(struct plan *plan)
{
    for (int i = plan->n_steps - 1; i >= 0; i--) {
        const struct plan_step *step = &plan->steps[i];
        if (step->y != PLAN_NONE && plan_count_readers(plan, step->y) == 0 && step->operation != OP_ATTEND &&
            step->operation != OP_ATTEND_CALL)
            plan_remove_step(plan, i);
    }
}

void plan_insert_step(struct plan_builder *builder, int index, struct plan_step step)
{
    struct plan *plan = builder->plan;
    if (builder->failed || !plan_grow(builder, &plan->steps, &plan->n_steps, sizeof step))
        return;
    memmove(&plan->steps[index + 1], &plan->steps[index], (size_t)(plan->n_steps - 1 - index) * sizeof step);
    plan->steps[index] = step;
}

void plan_remove_step(struct plan *plan, int index)
{
    plan->n_steps--;
    memmove(&plan->steps[index], &plan->steps[index + 1], (size_t)(plan->n_steps - index) * sizeof *plan->steps);
}

void plan_decide(struct plan_builder *builder, struct plan_decision decision, const char *format, ...)
{
    struct plan *plan = builder->plan;
    struct plan_decision *place =
        builder->failed ? NULL : plan_grow(builder, &plan->decisions, &plan->n_decisions, sizeof *place);
    if (!place)
        return;
    *place = decision;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(place->what, sizeof place->what, format, arguments);
    va_end(arguments);
}
