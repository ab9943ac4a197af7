/* A task takes a block of rows through both products, so that the hidden part stays in a core's cache. The last blocks
 * may be fewer than the threads; a short batch has only such blocks. All threads share these blocks: they first compute
 * panels of the hidden part, then panels of the result. Both ways compute the same tiles, so they give the same bits.
 */
#include "engine/cpu/feed_forward.h"
#include "engine/cpu/linear.h"

/* A feed-forward step with its pointers. */
struct feed_forward {
    const struct cpu_run *run;
    const struct plan_step *step;
    const float *residual; /* (rows, out), or NULL */
    float *y;              /* (rows, out) */
    enum element hidden_element;
    int64_t rows, in, hidden, out; /* hidden: columns of the hidden part, after the gate */
    int64_t panels, second_panels; /* of the two weights */
};

static struct feed_forward feed_forward_of(const struct cpu_run *run, const struct plan_step *step)
{
    return (struct feed_forward){
        .run = run,
        .step = step,
        .residual = floats_of(run, step->z),
        .y = floats_of(run, step->y),
        .hidden_element = run->products->bf16 && !step->feed_forward.gated ? ELEMENT_BF16 : ELEMENT_F32,
        .rows = rows_of(run, step->x),
        .in = columns_of(run, step->x),
        .hidden = run->plan->weights[step->second_weight].columns,
        .out = columns_of(run, step->y),
        .panels = cpu_linear_panels(run, step->weight),
        .second_panels = cpu_linear_panels(run, step->second_weight),
    };
}

/* A thread's scratch: first the products' own, in whole cache lines of 16 floats. */
static int64_t product_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return round_up(
        most(cpu_linear_block_scratch(run, step->weight), cpu_linear_block_scratch(run, step->second_weight)), 16);
}

/* Then follows the hidden part of a block, (PLAN_ROW_BLOCK, hidden); before the gate it is twice as wide. */
int64_t cpu_feed_forward_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return product_scratch(run, step) + PLAN_ROW_BLOCK * run->plan->weights[step->weight].rows;
}

static float *hidden_of(const struct feed_forward *f, int64_t thread)
{
    return f->run->scratch + thread * f->run->scratch_floats + product_scratch(f->run, f->step);
}

static int64_t rows_of_block(const struct feed_forward *f, int64_t block)
{
    return least(PLAN_ROW_BLOCK, f->rows - block * PLAN_ROW_BLOCK);
}

/* Panels first … end - 1 of a block's hidden part. */
static void compute_hidden(const struct feed_forward *f, int64_t block, int64_t first, int64_t end, float *hidden)
{
    const struct linear_block linear = {
        .weight = f->step->weight,
        .bias = f->step->bias,
        .activation = f->step->feed_forward.gated ? (struct plan_activation){.kind = ACTIVATION_NONE}
                                                  : f->step->feed_forward.activation,
        .rows = rows_of_block(f, block),
        .x = elements_of(f->run, f->step->x, block * PLAN_ROW_BLOCK * f->in),
        .y = hidden,
        .x_element = f->run->elements[f->step->x],
        .y_element = f->hidden_element,
    };
    cpu_linear_block(f->run, &linear, first, end, scratch_of(f->run));
}

/* (rows, 2 * hidden) -> (rows, hidden), in place. A row of the result never lies after the row from which it is
 * computed. */
static void gate_hidden(const struct feed_forward *f, int64_t block, float *hidden)
{
    int64_t rows = rows_of_block(f, block);
    for (int64_t r = 0; f->step->feed_forward.gated && r < rows; r++) {
        const float *gates = hidden + (2 * r + 1) * f->hidden;
        float *row = hidden + r * f->hidden;
        f->run->vector->activate(f->hidden, f->step->feed_forward.activation, hidden + 2 * r * f->hidden, row);
        for (int64_t i = 0; i < f->hidden; i++)
            row[i] *= gates[i];
    }
}

/* Panels first … end - 1 of a block's rows of y. */
static void compute_result(const struct feed_forward *f, int64_t block, int64_t first, int64_t end, const float *hidden)
{
    int64_t row = block * PLAN_ROW_BLOCK;
    const struct linear_block linear = {
        .weight = f->step->second_weight,
        .bias = f->step->second_bias,
        .rows = rows_of_block(f, block),
        .x = hidden,
        .x_element = f->hidden_element,
        .residual = f->residual ? f->residual + row * f->out : NULL,
        .y = f->y + row * f->out,
    };
    cpu_linear_block(f->run, &linear, first, end, scratch_of(f->run));
}

/* Blocks 0 … blocks - 1, each by one thread. */
static void compute_alone(const struct feed_forward *f, int64_t blocks)
{
#pragma omp parallel for num_threads(threads_for(f->run, blocks)) schedule(dynamic)
    for (int64_t b = 0; b < blocks; b++) {
        float *hidden = hidden_of(f, omp_get_thread_num());
        compute_hidden(f, b, 0, f->panels, hidden);
        gate_hidden(f, b, hidden);
        compute_result(f, b, 0, f->second_panels, hidden);
    }
}

/* The `count` blocks from `first` on, by all threads together; count < threads. The hidden part of block first + i is
 * in thread i's scratch. */
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
    int64_t blocks = parts_of(f.rows, PLAN_ROW_BLOCK), shared = blocks % run->threads;
    compute_alone(&f, blocks - shared);
    if (shared > 0)
        compute_shared(&f, blocks - shared, shared);
}
