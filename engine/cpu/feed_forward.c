/* feed_forward: a task computes both products for a block of rows, so that the result of the first product stays in a
 * core's cache. This result is called the hidden part. If the number of blocks is not a multiple of the number of
 * threads, the threads share the remaining blocks. A short batch consists only of such blocks. The threads first
 * compute panels of the hidden part, and then panels of the result. Both ways compute the same tiles, so the bits are
 * the same. */
#include "engine/cpu/feed_forward.h"
#include "engine/cpu/linear.h"

/* The parameters of a feed-forward step, with pointers to its matrices. */
struct feed_forward {
    const struct cpu_run *run;
    const struct plan_step *step;
    const float *residual; /* (rows, out). NULL if there is no residual */
    float *y;              /* (rows, out) */
    enum element hidden_element;
    /* Number of rows, and numbers of columns of x, of the hidden part after the gate, and of y. */
    int64_t rows, in, hidden, out;
    int64_t panels, second_panels; /* number of panels of each of the two weights */
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

/* The scratch of a thread begins with the scratch of the products, rounded up to cache lines of 16 floats. */
static int64_t product_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return round_up(
        most(cpu_linear_block_scratch(run, step->weight), cpu_linear_block_scratch(run, step->second_weight)), 16);
}

/* After the scratch of the products, the scratch contains the hidden part of a block, (PLAN_ROW_BLOCK, hidden). Before
 * the gate, the hidden part is twice as wide. */
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

/* Computes panels first … end - 1 of the hidden part of a block. */
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

/* Applies the gate in place, from (rows, 2 * hidden) to (rows, hidden). A row of the result never lies after the row
 * from which it is computed. */
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

/* Computes panels first … end - 1 of y for the rows of a block. */
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

/* Computes blocks 0 … blocks - 1, each on one thread. */
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

/* Computes `count` blocks, beginning with block `first`, by all threads together. `count` is less than the number of
 * threads. The hidden part of block first + i is in the scratch of thread i. */
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
