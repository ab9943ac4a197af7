/* The dtypes that the CUDA backend accepts, and weights that a dtype cannot represent. */
#include "engine/backend.h"
#include "engine/plan/builder.h"
#include "tests/cuda/schedules.h"
#include "tests/unit/loaded.h"
#include "tests/unit/tensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct backend_functions *functions;

static int open_with(enum dtype dtype, struct backend **backend, struct error *error)
{
    struct engine_options options = {.device = {DEVICE_CUDA}, .dtype = dtype};
    return functions->open(&options, 0, backend, error);
}

static int load_plugin(void **state)
{
    (void)state;
    struct error error;
    functions = backend_cuda_load(&error);
    if (!functions)
        print_message("%s\n", error.message);
    return functions ? 0 : -1;
}

static void every_dtype_opens_and_is_reported(void **state)
{
    (void)state;
    static const enum dtype dtypes[][2] = {{DTYPE_F32, DTYPE_F32},
                                           {DTYPE_TF32, DTYPE_TF32},
                                           {DTYPE_BF16, DTYPE_BF16},
                                           {DTYPE_F16, DTYPE_F16},
                                           {DTYPE_AUTO, DTYPE_BF16}};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        struct backend *backend;
        struct error error;
        must(open_with(dtypes[i][0], &backend, &error), &error);
        assert_int_equal(functions->dtype(backend), dtypes[i][1]);
        functions->close(backend);
    }
}

/* Runs the model for an item of one row of ones. Returns -1 if the model fails, or if a result is not finite. */
static int run_ones(struct backend_model *model, const struct plan *plan, struct error *error)
{
    const float row[6] = {1, 1, 1, 1, 1, 1};
    float hidden[4];
    struct engine_item item = {.inputs[0] = {.data = row, .length = 1}, .hidden = hidden};
    struct batch batch;
    assert_int_equal(padder_open(plan, &batch, error), 0);
    padder_lay_out(plan, &batch, &item, 1);
    int result = functions->run(model, 0, &batch, error);
    padder_free(plan, &batch);
    for (int i = 0; i < 4 && result == 0; i++)
        result = isfinite(hidden[i]) ? 0 : -1;
    return result;
}

/* Prepares a linear layer, one of whose weights is `x`, and runs the layer. */
static int prepare_with(enum dtype dtype, float x, struct error *error)
{
    const struct tensor_shape shapes[] = {{"matrix", 4, 6}};
    void *file;
    struct backend *backend;
    struct backend_model *model;
    struct plan_builder builder;
    struct plan *plan;
    struct weights *weights = tensors_random(shapes, 1, &file);
    must(open_with(dtype, &backend, error), error);
    assert_int_equal(plan_begin(&builder, weights, error), 0);
    int rows = plan_input_rows(&builder, "x", 6, 8, PLAN_NONE);
    plan_give(&builder, plan_linear(&builder, rows, plan_matrix(&builder, 4, 6, "matrix"), PLAN_NONE), PLAN_NONE,
              PLAN_NONE, false);
    assert_int_equal(plan_finish(&builder, 8, 1, &plan), 0);
    for (int i = 0; i < plan->n_weights; i++)
        if (plan->weights[i].data && plan->weights[i].columns == 6)
            plan->weights[i].data[13] = x;
    int result = functions->prepare(backend, plan, false, &model, error);
    if (result == 0) {
        result = run_ones(model, plan, error);
        functions->unprepare(model);
    }
    plan_free(plan);
    weights_close(weights);
    free(file);
    functions->close(backend);
    return result;
}

static void f16_refuses_weights_beyond_its_range(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(prepare_with(DTYPE_F16, -65520, &error), -1);
    assert_non_null(strstr(error.message, "weight \"matrix\": element 13 is -65520, beyond f16's maximum of 65504"));
    assert_int_equal(prepare_with(DTYPE_F16, -60000, &error), 0);
    assert_int_equal(prepare_with(DTYPE_BF16, 1e30f, &error), 0);
    assert_int_equal(prepare_with(DTYPE_TF32, 1e30f, &error), 0);
}

static int run_dtypes(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_opens_and_is_reported),
        cmocka_unit_test(f16_refuses_weights_beyond_its_range),
    };
    return cmocka_run_group_tests_name("dtypes", tests, load_plugin, NULL);
}

int main(void)
{
    return run_schedules(run_dtypes);
}
