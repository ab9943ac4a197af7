/* The CPU backend: OpenMP threads, one arena a model, the plan's steps in order. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "engine/backend.h"
#include "engine/cpu/operations.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

struct backend {
    struct products products;
    const struct vector_functions *vector;
    int threads;
    char description[160];
};

struct backend_model {
    struct cpu_run run; /* all but the batch */
    size_t scratch_bytes;
};

/* Cores that this process may use: less than the machine's under taskset or a container's cpuset. */
static int usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int cores = CPU_COUNT(&set);
    return cores < 1 ? 1 : cores;
}

static int open_cpu(const struct engine_options *options, struct backend **backend, struct error *error)
{
    struct backend *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, "out of memory while opening the CPU engine");
    enum instruction_set set;
    if (instruction_set_choose(options->kernels, &set, error) != 0 ||
        products_open(set, &opened->products, error) != 0) {
        free(opened);
        return -1;
    }
    opened->vector = vector_functions_of(set);
    opened->threads = options->threads > 0 ? (int)options->threads : usable_cores();
    snprintf(opened->description, sizeof opened->description, "%s, %s, %d thread%s", opened->vector->name,
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

static bool batch_invariant(const struct backend *backend)
{
    return backend->products.batch_invariant;
}

/* Zeroed, so that surplus rows of the first batch hold numbers. */
static void *allocate(size_t bytes)
{
    size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *memory = room >= bytes ? aligned_alloc(ALIGNMENT, room ? room : ALIGNMENT) : NULL;
    if (memory)
        memset(memory, 0, room);
    return memory;
}

static void unprepare(struct backend_model *model)
{
    free(model->run.arena);
    free(model->run.scratch);
    free(model->run.shared);
    free(model);
}

static int prepare(struct backend *backend, struct plan *plan, struct backend_model **model, struct error *error)
{
    int64_t thread_floats = 0, shared_floats = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        int64_t thread = cpu_thread_scratch(plan, &plan->steps[i]), shared = cpu_shared_scratch(plan, &plan->steps[i]);
        thread_floats = thread > thread_floats ? thread : thread_floats;
        shared_floats = shared > shared_floats ? shared : shared_floats;
    }
    struct backend_model *prepared = calloc(1, sizeof *prepared);
    if (!prepared)
        return error_set(error, "out of memory while preparing a model");
    size_t thread_bytes = (size_t)(thread_floats * backend->threads) * sizeof(float);
    size_t shared_bytes = (size_t)shared_floats * sizeof(float);
    prepared->scratch_bytes = thread_bytes + shared_bytes;
    prepared->run = (struct cpu_run){
        .plan = plan,
        .products = &backend->products,
        .vector = backend->vector,
        .arena = allocate(plan->arena_bytes),
        .threads = backend->threads,
        .scratch = allocate(thread_bytes),
        .scratch_floats = thread_floats,
        .shared = allocate(shared_bytes),
    };
    if (!prepared->run.arena || !prepared->run.scratch || !prepared->run.shared) {
        unprepare(prepared);
        return error_set(error, "out of memory for the arena: %zu bytes for batches of %lld rows (--max-batch-tokens)",
                         plan->arena_bytes, (long long)plan->max_rows);
    }
    *model = prepared;
    return 0;
}

static size_t scratch_bytes(const struct backend_model *model)
{
    return model->scratch_bytes;
}

static int run_batch(struct backend_model *model, const struct batch *batch, struct error *error)
{
    (void)error; /* nothing here can fail */
    struct cpu_run run = model->run;
    run.batch = batch;
    for (int i = 0; i < run.plan->n_inputs; i++)
        padder_gather(run.plan, batch, i, run.arena + run.plan->values[run.plan->inputs[i].value].offset);
    for (int i = 0; i < run.plan->n_steps; i++)
        cpu_operations[run.plan->steps[i].operation](&run, &run.plan->steps[i]);
    return 0;
}

const struct backend_functions backend_cpu = {
    .name = "cpu",
    .open = open_cpu,
    .close = close_cpu,
    .kernels = kernels,
    .batch_invariant = batch_invariant,
    .prepare = prepare,
    .unprepare = unprepare,
    .scratch_bytes = scratch_bytes,
    .run = run_batch,
};
