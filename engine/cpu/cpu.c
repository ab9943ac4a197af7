/* cpu: the CPU backend, which runs the steps of a plan in order on OpenMP threads. Each model has one arena and one
 * block of scratch. */
#define _GNU_SOURCE /* for sched_getaffinity */
#include "engine/backend.h"
#include "engine/cpu/elements.h"
#include "engine/cpu/operations.h"
#include "engine/cpu/team.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define ALIGNMENT 64 /* in bytes: one cache line */

/* A batch with fewer FLOPs takes less than about a millisecond, and one thread runs it. Several threads would have to
 * wake up and wait for each other at each step. Between steps, they would occupy cores that the server could use. */
#define FLOPS_ALONE 1e8

struct backend {
    struct products products;
    int threads;
    double flops_alone; /* FLOPS_ALONE, or 0 if every batch uses all threads */
    char description[208];
};

struct backend_model {
    struct backend *backend;
    struct cpu_run run; /* all members except for the batch */
    /* By weight: its copy for products_linear_tile. NULL if no step reads it in this way. */
    struct product_weight **packed;
    /* By weight: its copy for projections in bf16. NULL if no step reads it in this way. */
    struct product_weight **projections;
    enum element *elements; /* by value: the type of its elements */
    atomic_bool failed;
    double row_flops;    /* approximate FLOPs for one row, in the steps that compute all rows */
    double wanted_flops; /* FLOPs for one requested row of the output */
    void *memory;        /* the arena, the scratch of the threads, the shared scratch, and the slots, in this order */
    size_t memory_bytes, scratch_bytes;
};

/* The number of processors that the container may use, from its limit of CPU time, rounded up. The limit is in cpu.max
 * of cgroup v2, as "quota period" or "max period". Returns `most` if there is no limit, or if the limit is higher. */
static int quota_cores(int most)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    long long quota, period;
    int cores = most;
    if (file && fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0)
        cores = (int)((quota + period - 1) / period < most ? (quota + period - 1) / period : most);
    if (file)
        fclose(file);
    return cores;
}

/* The number of cores that this process may use. With taskset or in a container, it may be less than the number of
 * cores of the machine. */
static int usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int cores = quota_cores(CPU_COUNT(&set));
    return cores < 1 ? 1 : cores;
}

static int open_cpu(const struct engine_options *options, int index, struct backend **backend, struct error *error)
{
    (void)index; /* there is only one CPU device */
    if (options->dtype == DTYPE_TF32 || options->dtype == DTYPE_F16)
        return error_set(error, "dtype \"%s\": expected auto, f32 or bf16 on the CPU", dtype_name(options->dtype));
    struct backend *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, "out of memory while opening the CPU engine");
    enum instruction_set set;
    opened->threads = options->threads > 0 ? (int)options->threads : usable_cores();
    if (instruction_set_choose(options->kernels, &set, error) != 0 ||
        products_open(set, options->products, options->dtype == DTYPE_BF16, opened->threads, &opened->products,
                      error) != 0) {
        free(opened);
        return -1;
    }
    opened->flops_alone = options->all_threads ? 0 : FLOPS_ALONE;
    snprintf(opened->description, sizeof opened->description, "%s, %s, %d thread%s", opened->products.vector->name,
             opened->products.description, opened->threads, opened->threads == 1 ? "" : "s");
    *backend = opened;
    return 0;
}

static void close_cpu(struct backend *backend)
{
    products_close(&backend->products);
    free(backend);
}

static const char *kernels(const struct backend *backend)
{
    return backend->description;
}

static enum dtype dtype(const struct backend *backend)
{
    return backend->products.bf16 ? DTYPE_BF16 : DTYPE_F32;
}

static bool batch_invariant(const struct backend *backend)
{
    return backend->products.batch_invariant;
}

static bool has_operation(enum operation operation)
{
    const struct cpu_operation *row = &cpu_operations[operation];
    return row->run && row->thread_scratch && row->shared_scratch;
}

static void unprepare(struct backend_model *model)
{
    for (int i = 0; model->packed && i < model->run.plan->n_weights; i++)
        products_free_weight(&model->backend->products, model->packed[i]);
    for (int i = 0; model->projections && i < model->run.plan->n_weights; i++)
        products_free_weight(&model->backend->products, model->projections[i]);
    free(model->packed);
    free(model->projections);
    free(model->elements);
    if (model->memory)
        munmap(model->memory, model->memory_bytes);
    free(model);
}

/* Maps memory for the arena, the scratch and the slots. The pages are zeroed, so that even unused rows of the first
 * batch contain finite numbers. Pages become resident only when batches use them. */
static int map_memory(struct backend_model *model, size_t arena_bytes, size_t thread_bytes)
{
    size_t slots_bytes; /* the product below may overflow, because config.json may contain a window of any size */
    if (__builtin_mul_overflow((size_t)model->run.plan->n_slots * sizeof(float), (size_t)model->run.plan->state_floats,
                               &slots_bytes) ||
        __builtin_add_overflow(arena_bytes, model->scratch_bytes, &model->memory_bytes) ||
        __builtin_add_overflow(model->memory_bytes, slots_bytes, &model->memory_bytes))
        return -1;
    if (model->memory_bytes == 0)
        return 0;
    void *memory = mmap(NULL, model->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    model->memory = memory;
    model->run.arena = memory;
    model->run.scratch = (float *)(model->run.arena + arena_bytes);
    model->run.shared = (float *)(model->run.arena + arena_bytes + thread_bytes);
    model->run.slots = (float *)(model->run.arena + arena_bytes + model->scratch_bytes);
    return 0;
}

/* Whether the step reads the weight as floats. If y has a column with sums of E, these sums are computed from the
 * floats of E. */
static bool is_read_otherwise(const struct products *products, const struct plan_step *step, int weight)
{
    bool packed = cpu_tiles_weight(step, weight) ||
                  (cpu_projects_weight(step, products->bf16, weight) && !step->project_sequence.sums_column);
    return step->bias == weight || step->tail == weight || step->second_bias == weight ||
           (step->weight == weight && !packed);
}

/* Packs step->weight for the projection `step`. */
static int take_projection(struct backend_model *model, const struct plan *plan, const struct plan_step *step,
                           struct error *error)
{
    const struct plan_weight *weight = &plan->weights[step->weight];
    int64_t rows = weight->rows / step->project_sequence.groups,
            n = step->project_sequence.transposed ? weight->columns : rows;
    return products_take_projection(&model->backend->products, step->project_sequence.groups, n,
                                    step->project_sequence.transposed ? rows : weight->columns,
                                    step->project_sequence.transposed, weight->data, &model->projections[step->weight],
                                    error);
}

/* Packs a weight for products_linear_tile, or for projections in bf16. The floats of the weight stay in the plan if
 * other devices share the plan, or if a step reads them. */
static int take_weight(struct backend_model *model, struct plan *plan, int w, bool shared, struct error *error)
{
    const struct products *products = &model->backend->products;
    struct plan_weight *weight = &plan->weights[w];
    const struct plan_step *projection = NULL;
    bool tiled = false, kept = shared;
    for (int i = 0; i < plan->n_steps; i++) {
        tiled |= cpu_tiles_weight(&plan->steps[i], w);
        kept |= is_read_otherwise(products, &plan->steps[i], w);
        if (cpu_projects_weight(&plan->steps[i], products->bf16, w))
            projection = &plan->steps[i];
    }
    if (projection && take_projection(model, plan, projection, error) != 0)
        return -1;
    float *data = weight->data;
    if ((tiled || projection) && !kept)
        weight->data = NULL;
    if (tiled)
        return products_take_weight(products, weight->rows, weight->columns, data, !kept, &model->packed[w], error);
    if (projection && !kept)
        free(data);
    return 0;
}

/* If a weight is multiplied without oneDNN, `notice` contains the reason after success. */
static int take_weights(struct backend_model *model, struct plan *plan, bool shared, struct error *notice,
                        struct error *error)
{
    model->packed = calloc((size_t)plan->n_weights + 1, sizeof(struct product_weight *));
    model->projections = calloc((size_t)plan->n_weights + 1, sizeof(struct product_weight *));
    if (!model->packed || !model->projections)
        return error_set(error, "out of memory while preparing a model");
    model->run.packed = model->packed;
    model->run.projections = model->projections;
    for (int w = 0; w < plan->n_weights; w++) {
        error->message[0] = '\0';
        if (take_weight(model, plan, w, shared, error) != 0)
            return -1;
        if (error->message[0])
            error_set(notice, "%s: %s", plan->weights[w].name, error->message);
    }
    return 0;
}

static int choose_elements(struct backend_model *model, const struct plan *plan, struct error *error)
{
    model->elements = calloc((size_t)plan->n_values + 1, sizeof *model->elements);
    if (!model->elements)
        return error_set(error, "out of memory while preparing a model");
    cpu_choose_elements(plan, model->backend->products.bf16, model->elements);
    model->run.elements = model->elements;
    return 0;
}

/* The largest number of floats of scratch that a step needs for each thread, and the largest number that all threads
 * share. Both are rounded up to whole cache lines. */
static void size_scratch(const struct cpu_run *run, int64_t *thread, int64_t *shared)
{
    *thread = *shared = 0;
    for (int i = 0; i < run->plan->n_steps; i++) {
        const struct plan_step *step = &run->plan->steps[i];
        const struct cpu_operation *operation = &cpu_operations[step->operation];
        *thread = most(*thread, operation->thread_scratch(run, step));
        *shared = most(*shared, operation->shared_scratch(run, step));
    }
    *thread = round_up(*thread, ALIGNMENT / (int64_t)sizeof(float));
    *shared = round_up(*shared, ALIGNMENT / (int64_t)sizeof(float));
}

static void count_flops(struct backend_model *model)
{
    const struct plan *plan = model->run.plan;
    int64_t rows = plan_counts_axes(plan) ? plan_side(plan, PLAN_ROW_BLOCK) : PLAN_ROW_BLOCK;
    for (int i = 0; i < plan->n_steps; i++) {
        double flops = (double)plan_step_flops(plan, &plan->steps[i], rows) / PLAN_ROW_BLOCK;
        *(plan->steps[i].operation == OP_GIVE_OUTPUT ? &model->wanted_flops : &model->row_flops) += flops;
    }
}

static int prepare(struct backend *backend, struct plan *plan, bool shared, struct backend_model **model,
                   struct error *error)
{
    if (backend_check_operations(&backend_cpu, plan, error) != 0)
        return -1;
    struct backend_model *prepared = calloc(1, sizeof *prepared);
    if (!prepared)
        return error_set(error, "out of memory while preparing a model");
    prepared->backend = backend;
    prepared->run = (struct cpu_run){
        .plan = plan,
        .products = &backend->products,
        .vector = backend->products.vector,
        .threads = backend->threads,
        .failed = &prepared->failed,
    };
    int64_t shared_floats;
    size_scratch(&prepared->run, &prepared->run.scratch_floats, &shared_floats);
    size_t thread_bytes = (size_t)(prepared->run.scratch_floats * backend->threads) * sizeof(float);
    prepared->scratch_bytes = thread_bytes + (size_t)shared_floats * sizeof(float);
    if (map_memory(prepared, plan->arena_bytes, thread_bytes) != 0) {
        error_set(error,
                  "out of memory for the arena: %zu bytes for batches of %lld rows (--max-batch-tokens) and %lld "
                  "sequences (--max-batch-requests)",
                  plan->arena_bytes, (long long)plan->max_rows, (long long)plan->max_items);
        unprepare(prepared);
        return -1;
    }
    struct error notice = {""};
    if (choose_elements(prepared, plan, error) != 0 || take_weights(prepared, plan, shared, &notice, error) != 0) {
        unprepare(prepared);
        return -1;
    }
    *error = notice;
    count_flops(prepared);
    *model = prepared;
    return 0;
}

static size_t weights_bytes(const struct backend_model *model)
{
    const struct plan *plan = model->run.plan;
    size_t bytes = 0;
    for (int i = 0; i < plan->n_weights; i++) {
        if (plan->weights[i].data)
            bytes += (size_t)(plan->weights[i].rows * plan->weights[i].columns) * sizeof(float);
        if (model->packed[i])
            bytes += products_weight_bytes(model->packed[i]);
        if (model->projections[i])
            bytes += products_weight_bytes(model->projections[i]);
    }
    return bytes;
}

static size_t scratch_bytes(const struct backend_model *model)
{
    return model->scratch_bytes;
}

/* Approximate FLOPs of the batch. Rows are rounded up, because products are computed in whole blocks of rows. */
static double batch_flops(const struct backend_model *model, const struct batch *batch)
{
    const struct plan *plan = model->run.plan;
    int64_t longest = 0;
    for (int a = 0; plan_counts_axes(plan) && a < plan->n_axes; a++)
        longest = most(longest, batch->layouts[a].item_starts[batch->n_items]);
    for (int i = 0; i < plan->n_inputs; i++) {
        int value = plan->inputs[i].value;
        int64_t rows = value == PLAN_NONE ? 0 : batch->layouts[plan->values[value].axis].item_starts[batch->n_items];
        longest = most(longest, rows);
    }
    return (double)round_up(longest, PLAN_ROW_BLOCK) * model->row_flops +
           (double)round_up(batch->n_wanted, PLAN_ROW_BLOCK) * model->wanted_flops;
}

static int enter(struct backend *backend, struct error *error)
{
    return team_start(backend->threads, error);
}

/* Runs the step for run.batch. A step can use only the kinds of scratch that its row in operations.c declares. */
static void run_step(struct cpu_run run, const struct plan_step *step)
{
    const struct cpu_operation *operation = &cpu_operations[step->operation];
    run.step = step;
    if (operation->thread_scratch == cpu_no_scratch)
        run.scratch = NULL;
    if (operation->shared_scratch == cpu_no_scratch)
        run.shared = NULL;
    operation->run(&run, step);
}

/* The number of threads that run the batch. The thread that serves a failed device has not called `enter`. If it cannot
 * start a team of threads, it computes alone. */
static int team_for(const struct backend_model *model, const struct batch *batch)
{
    struct error error;
    bool alone = batch_flops(model, batch) < model->backend->flops_alone;
    return alone || team_start(model->run.threads, &error) != 0 ? 1 : model->run.threads;
}

/* The time in seconds. 0 if the times of the batch are not measured. */
static double now_s(const struct batch *batch)
{
    struct timespec time = {0};
    if (batch->seconds)
        clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Adds the time since `begin` to the time of a step. Returns the current time. */
static double add_time(const struct batch *batch, int step, double begin)
{
    double now = now_s(batch);
    if (batch->seconds)
        batch->seconds[step] += now - begin;
    return now;
}

/* Copies the items' inputs into the arena. */
static void gather_inputs(const struct cpu_run *run)
{
    for (int i = 0; i < run->plan->n_inputs; i++) {
        int value = run->plan->inputs[i].value;
        int64_t items = value == PLAN_NONE ? 0 : run->batch->n_items;
#pragma omp parallel for num_threads(threads_for(run, items))
        for (int64_t b = 0; b < items; b++)
            padder_gather_item(run->plan, run->batch, i, b, run->arena + run->plan->values[value].offset);
    }
}

static int run_batch(struct backend_model *model, int lane, const struct batch *batch, struct error *error)
{
    (void)lane; /* there is only one lane */
    struct cpu_run run = model->run;
    run.batch = batch;
    atomic_store(&model->failed, false);
    omp_set_num_threads(1); /* a library must compute a product on the calling thread only */
    run.threads = team_for(model, batch);
    double begin = now_s(batch);
    gather_inputs(&run);
    begin = add_time(batch, run.plan->n_steps, begin);
    for (int i = 0; i < run.plan->n_steps; i++) {
        run_step(run, &run.plan->steps[i]);
        begin = add_time(batch, i, begin);
    }
    return atomic_load(&model->failed) ? error_set(error, "out of memory in a matrix product") : 0;
}

const struct backend_functions backend_cpu = {
    .name = "cpu",
    .open = open_cpu,
    .close = close_cpu,
    .kernels = kernels,
    .dtype = dtype,
    .batch_invariant = batch_invariant,
    .has_operation = has_operation,
    .prepare = prepare,
    .unprepare = unprepare,
    .weights_bytes = weights_bytes,
    .scratch_bytes = scratch_bytes,
    .enter = enter,
    .run = run_batch,
};
