#include "engine/plan/print.h"

#include <inttypes.h>

void print_activation(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    if (step->activation != ACTIVATION_NONE)
        fprintf(out, ", %s", step->activation == ACTIVATION_GELU ? "gelu" : "relu");
}

void print_feed_forward(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    print_activation(plan, step, out);
    if (step->gated)
        fprintf(out, ", gated");
}

void print_groups(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    if (step->groups > 1)
        fprintf(out, " groups %" PRId64, step->groups);
}

void print_tail(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    if (step->tail != PLAN_NONE)
        fprintf(out, " with %s below", plan->weights[step->tail].name);
}

void print_convolution(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    const struct plan_window *window = &step->kernel;
    fprintf(out, " window %" PRId64 " x %" PRId64 " stride %" PRId64 " x %" PRId64, window->size[0], window->size[1],
            window->stride[0], window->stride[1]);
    fprintf(out, " padding %" PRId64 " + %" PRId64 " x %" PRId64 " + %" PRId64, window->before[0], window->after[0],
            window->before[1], window->after[1]);
    if (step->scale != 1.0f)
        fprintf(out, " scale %g", (double)step->scale);
}

static void print_causal(const struct plan_step *step, FILE *out)
{
    if (step->causal)
        fprintf(out, " causal");
}

static void print_heads(const struct plan_step *step, FILE *out)
{
    fprintf(out, " heads %" PRId64 " to %" PRId64, step->first_head, step->first_head + step->heads - 1);
}

void print_attention(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    fprintf(out, " heads %" PRId64 " kv_heads %" PRId64 " scale %g", step->heads, step->kv_heads, (double)step->scale);
    print_causal(step, out);
    if (step->mask != PLAN_NONE)
        fprintf(out, " mask %s", plan->inputs[step->mask].input.name);
}

void print_linear_attention(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_heads(step, out);
    if (step->causal)
        fprintf(out, " bucket %" PRId64, step->bucket);
    if (step->fold > 1)
        fprintf(out, " fold %" PRId64, step->fold);
    if (step->raw_queries)
        fprintf(out, " raw queries");
    print_causal(step, out);
}

void print_local_attention(const struct plan *plan, const struct plan_step *step, FILE *out)
{
    (void)plan;
    print_heads(step, out);
    fprintf(out, " window %" PRId64, step->window);
    print_causal(step, out);
}
