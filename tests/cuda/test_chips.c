/* Chips with less shared memory than compute capability 8.0. In 8.6, 8.9 and 12.0, a block has at most 99 KiB. On these
 * chips, attention and projections must also run on tensor cores, for all heads of at most 128 features. The results
 * must have the same bits as on chips with more shared memory. */
int run_long_sequences(void);
#define main run_long_sequences
#include "tests/cuda/test_long.c"
#undef main

#include "tests/cuda/counts.h"

enum { FIRST = 2, N_ITEMS = 2, N_CHIPS = 3, N_SIZES = 7 };

/* The maximum shared memory of a block, in KiB. 99 belongs to compute capabilities 8.6, 8.9 and 12.0, 163 to 8.0, and
 * 227 to 9.0 and 10.0. */
static const char *const chips[N_CHIPS] = {"99", "163", "227"};

/* 136 keys fill three tiles. With 99 KiB, shared memory can hold all three tiles for narrow heads, but not for wide
 * heads. */
static const struct sizes on_chips[N_SIZES] = {
    {64, 136, 2, 2, 1, .two = true},     {128, 136, 2, 2, .groups = 1},
    {160, 136, 2, 2, .groups = 1},       {192, 136, 2, 2, .groups = 1},
    {256, 136, 2, 2, .groups = 1},       {96, 1, 1, 1, 1, .causal = true, .all_keys = true},
    {128, 1, 1, 1, 1, .all_keys = true},
};

static void expect_kernel(const char *name, uint64_t before, bool launched)
{
    if ((launches_of(name) > before) != launched)
        fail_msg("%s was %slaunched", name, launched ? "not " : "");
}

/* Runs the items on each chip. Attention and projections must launch their kernels for tensor cores, and not their
 * other kernels. */
static void run_on_chips(const struct backend_functions *cuda, enum dtype dtype, const struct sizes *s,
                         const struct weights *weights, const float *x, int64_t n, float *found)
{
    const char *attends = dtype == DTYPE_F32 ? "attend_part<" : "attend_tensor<";
    const char *projects = dtype == DTYPE_F32 ? "multiply_part<" : "project_tensor<";
    for (int chip = 0; chip < N_CHIPS; chip++) {
        setenv("SHIM_SHARED_KIB", chips[chip], 1);
        uint64_t attend = launches_of("attend<"), attend_on_tensor_cores = launches_of(attends);
        uint64_t project = launches_of("project<"), project_on_tensor_cores = launches_of(projects);
        run(cuda, dtype, s, weights, FIRST, N_ITEMS, x, found + chip * n);
        expect_kernel(attends, attend_on_tensor_cores, true);
        expect_kernel("attend<", attend, false);
        expect_kernel(projects, project_on_tensor_cores, !s->all_keys);
        expect_kernel("project<", project, false);
    }
    unsetenv("SHIM_SHARED_KIB");
}

static void test_chips(void **state)
{
    const struct sizes *s = *state;
    int64_t e_rows = s->groups * LONGEST;
    const struct tensor_shape shapes[] = {{"e", e_rows, s->k}, {"f", e_rows, s->k}};
    struct error error;
    void *file;
    if (on_device())
        skip();
    const struct backend_functions *cuda = backend_cuda_load(&error);
    if (!cuda)
        fail_msg("%s", error.message);
    random_seed(18);
    struct weights *weights = tensors_random(shapes, s->two ? 2 : 1, &file);
    int64_t rows = lengths[FIRST] + lengths[FIRST + 1], n = (rows + N_ITEMS) * s->d;
    float *x = calloc((size_t)((2 + N_CHIPS) * n), sizeof *x), *expected = x + n, *found = expected + n;
    for (int64_t i = 0; i < rows * s->d; i++)
        x[i] = random_float() * 2;
    run(&backend_cpu, DTYPE_F32, s, weights, FIRST, N_ITEMS, x, expected);
    for (int i = 0; i < N_DTYPES; i++) {
        if (dtypes[i].dtype == DTYPE_TF32) /* the kernels for tf32 use no tensor cores */
            continue;
        run_on_chips(cuda, dtypes[i].dtype, s, weights, x, n, found);
        compare(dtypes[i].dtype, dtypes[i].bound, rows * s->d, found, expected);
        for (int chip = 1; chip < N_CHIPS; chip++)
            assert_memory_equal(found, found + chip * n, (size_t)n * sizeof *found);
    }
    free(x);
    weights_close(weights);
    free(file);
}

static int run_chips(void)
{
    struct CMUnitTest tests[N_SIZES];
    static char names[N_SIZES][64];
    for (int i = 0; i < N_SIZES; i++) {
        snprintf(names[i], sizeof names[i], "heads of %d features%s", (int)(on_chips[i].d / on_chips[i].heads),
                 on_chips[i].all_keys ? ", all keys" : "");
        tests[i] = (struct CMUnitTest){names[i], test_chips, NULL, NULL, (void *)&on_chips[i]};
    }
    return _cmocka_run_group_tests("chips", tests, N_SIZES, NULL, NULL);
}

/* Thread order 1 shows a missing barrier before the second tile of keys, order 0 does not (schedules.h). */
int main(void)
{
#ifndef __SANITIZE_THREAD__
    setenv("SHIM_SEED", "1", 0);
#endif
    return run_schedules(run_chips);
}
