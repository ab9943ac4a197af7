/* A task takes a block of rows through both products, so that what lies between stays in a core's cache. Blocks that
 * are too few for all threads, the last ones of a batch or all of a short one, are shared: first everyone computes
 * panels of what lies between, then of the result. The tiles are the same in both ways, and so are the bits. */
#include "engine/cpu/feed_forward.h"
#include "engine/cpu/linear.h"

#include <omp.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A feed-forward step with its pointers. */
struct feed_forward {
    const struct cpu_run *run;
    const struct plan_step *step;
    const char *x;
    const float *residual;
    float *y;
    enum element x_element, hidden_element;
    int64_t rows, in, hidden, out; /* hidden: what the gate leaves */
    int64_t panels, second_panels;
};

static struct feed_forward feed_forward_of(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    return (struct feed_forward){
        .run = run,
        .step = step,
        .x = run->arena + plan->values[step->x].offset,
        .x_element = run->elements[step->x],
        .hidden_element = run->products->bf16 && !step->gated ? ELEMENT_BF16 : ELEMENT_F32,
        .residual = step->z == PLAN_NONE ? NULL : (const float *)(run->arena + plan->values[step->z].offset),
        .y = (float *)(run->arena + plan->values[step->y].offset),
        .rows = run->batch->layouts[plan->values[step->x].axis].starts[run->batch->n_items],
        .in = plan->values[step->x].columns,
        .hidden = plan->weights[step->second_weight].columns,
        .out = plan->values[step->y].columns,
        .panels = cpu_linear_panels(run, step->weight),
        .second_panels = cpu_linear_panels(run, step->second_weight),
    };
}

/* A thread's scratch: the products' own, then (PLAN_ROW_BLOCK, hidden), twice as wide before the gate. */
static int64_t product_scratch(const struct products *products, const struct plan *plan, const struct plan_step *step)
{
    int64_t first = cpu_linear_scratch(products, plan, step->weight);
    int64_t second = cpu_linear_scratch(products, plan, step->second_weight);
    return ((first > second ? first : second) + 15) / 16 * 16;
}

int64_t cpu_feed_forward_scratch(const struct products *products, const struct plan *plan, const struct plan_step *step)
{
    return product_scratch(products, plan, step) + PLAN_ROW_BLOCK * plan->weights[step->weight].rows;
}

static float *scratch_of(const struct feed_forward *f, int64_t thread)
{
    return f->run->scratch + thread * f->run->scratch_floats;
}

static float *hidden_of(const struct feed_forward *f, int64_t thread)
{
    return scratch_of(f, thread) + product_scratch(f->run->products, f->run->plan, f->step);
}

/* Panels [first, end) of what lies between, for a block of rows. */
static void compute_hidden(const struct feed_forward *f, int64_t block, int64_t first, int64_t end, float *hidden)
{
    cpu_linear_block(f->run,
                     &(struct linear_block){
                         .weight = f->step->weight,
                         .bias = f->step->bias,
                         .activation = f->step->gated ? ACTIVATION_NONE : f->step->activation,
                         .rows = least(PLAN_ROW_BLOCK, f->rows - block * PLAN_ROW_BLOCK),
                         .x = f->x + block * PLAN_ROW_BLOCK * f->in * element_bytes(f->x_element),
                         .y = hidden,
                         .x_element = f->x_element,
                         .y_element = f->hidden_element,
                     },
                     first, end, scratch_of(f, omp_get_thread_num()));
}

/* In place: a row's result begins where the row does, or before it. */
static void gate_hidden(const struct feed_forward *f, int64_t block, float *hidden)
{
    int64_t rows = least(PLAN_ROW_BLOCK, f->rows - block * PLAN_ROW_BLOCK);
    for (int64_t r = 0; f->step->gated && r < rows; r++) {
        const float *gates = hidden + (2 * r + 1) * f->hidden;
        float *row = hidden + r * f->hidden;
        f->run->vector->activate(f->hidden, f->step->activation, hidden + 2 * r * f->hidden, row);
        for (int64_t i = 0; i < f->hidden; i++)
            row[i] *= gates[i];
    }
}

static void compute_result(const struct feed_forward *f, int64_t block, int64_t first, int64_t end, const float *hidden)
{
    int64_t row = block * PLAN_ROW_BLOCK;
    cpu_linear_block(f->run,
                     &(struct linear_block){
                         .weight = f->step->second_weight,
                         .bias = f->step->second_bias,
                         .rows = least(PLAN_ROW_BLOCK, f->rows - row),
                         .x = hidden,
                         .x_element = f->hidden_element,
                         .residual = f->residual ? f->residual + row * f->out : NULL,
                         .y = f->y + row * f->out,
                     },
                     first, end, scratch_of(f, omp_get_thread_num()));
}

/* Each of the blocks by one thread. */
static void compute_alone(const struct feed_forward *f, int64_t blocks)
{
#pragma omp parallel for num_threads(blocks > 1 ? f->run->threads : 1) schedule(dynamic)
    for (int64_t b = 0; b < blocks; b++) {
        float *hidden = hidden_of(f, omp_get_thread_num());
        compute_hidden(f, b, 0, f->panels, hidden);
        gate_hidden(f, b, hidden);
        compute_result(f, b, 0, f->second_panels, hidden);
    }
}

/* The `count` blocks from `first` on, fewer than there are threads, by all of them: block i's hidden part is in thread
 * i's scratch. */
static void compute_shared(const struct feed_forward *f, int64_t first, int64_t count)
{
    int64_t tasks = count * f->panels, second_tasks = count * f->second_panels;
#pragma omp parallel num_threads(f->run->threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < tasks; t++)
            compute_hidden(f, first + t % count, t / count, t / count + 1, hidden_of(f, t % count));
#pragma omp for schedule(dynamic)
        for (int64_t b = 0; b < count; b++)
            gate_hidden(f, first + b, hidden_of(f, b));
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < second_tasks; t++)
            compute_result(f, first + t % count, t / count, t / count + 1, hidden_of(f, t % count));
    }
}

void cpu_feed_forward(const struct cpu_run *run, const struct plan_step *step)
{
    const struct feed_forward f = feed_forward_of(run, step);
    int64_t blocks = (f.rows + PLAN_ROW_BLOCK - 1) / PLAN_ROW_BLOCK, shared = blocks % run->threads;
    compute_alone(&f, blocks - shared);
    if (shared > 0)
        compute_shared(&f, blocks - shared, shared);
}
