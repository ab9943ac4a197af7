/* Tests every operation on a backend, and compares the results with the scalar reference in double precision. Random
 * batches contain items of different lengths. If the backend is batch invariant, an item alone must give the same bits.
 * SEED chooses the random numbers. The tests are in operations_*.c. */
#include "engine/plan/operations.h"
#include "tests/unit/operation_tests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef KERNELS
/* test_operations_avx2.c and test_operations_baseline.c include this file, and define another value. */
#define KERNELS SET_AUTO
#endif

#ifndef PRODUCTS
#define PRODUCTS LIBRARY_AUTO /* test_operations_bf16_onednn.c defines another value */
#endif

#ifndef DEVICE
#define DEVICE DEVICE_CPU /* tests/cuda/test_operations_cuda.c defines another value */
#endif

#ifndef DTYPE
#define DTYPE DTYPE_F32 /* other files define another value, for example both files test_operations_bf16.c */
#endif

static void test_every_operation_has_its_facts(void **state)
{
    (void)state;
    for (int i = 0; i < OP_COUNT; i++) {
        const char *lack = operation_lack((enum operation)i), *name = operation_name((enum operation)i);
        if (lack)
            fail_msg("operation %d (%s) has no %s in engine/plan/operations.c", i, name ? name : "no name", lack);
        for (int other = 0; other < i; other++)
            if (strcmp(operation_name((enum operation)other), name) == 0)
                fail_msg("operations %d and %d are both named %s", other, i, name);
        if (!bench_has_kernel((enum operation)i))
            fail_msg("the %s engine has no kernel for the operation %s", DEVICE == DEVICE_CPU ? "cpu" : "cuda", name);
    }
}

#ifndef ONLY_PRODUCTS
/* This test runs after the others. It is skipped like them if the processor does not support the kernels. */
static void test_every_operation_was_run(void **state)
{
    (void)state;
    if (bench_untried(OP_GIVE_OUTPUT))
        skip();
    for (int i = 0; i < OP_COUNT; i++) {
        const char *untried = bench_untried((enum operation)i);
        if (untried)
            fail_msg("no test above %s the operation %s", untried, operation_name((enum operation)i));
    }
}
#endif

static bool has_all_but_activate(enum operation operation)
{
    return operation != OP_ACTIVATE;
}

static void test_an_operation_without_a_kernel_is_refused(void **state)
{
    (void)state;
    const struct backend_functions lacking = {.name = "lacking", .has_operation = has_all_but_activate};
    struct plan_step steps[] = {{.operation = OP_ADD}, {.operation = OP_ACTIVATE}};
    struct plan plan = {.steps = steps, .n_steps = 1};
    struct error error = {0};
    assert_int_equal(backend_check_operations(&lacking, &plan, &error), 0);
    plan.n_steps = 2;
    assert_int_equal(backend_check_operations(&lacking, &plan, &error), -1);
    assert_string_equal(error.message, "the lacking engine lacks the operation activate");
}

/* Sets the tolerance. For products in bf16, it is about twice the largest error that SEEDs 1 to 24 give. A number in
 * bf16 has 8 significant bits. A score of 10 has an error of up to 0.04, and its exponential has this relative error.
 * For float32, the tolerance is EXACT. */
static int choose_tolerance(void **state)
{
    (void)state;
#ifdef TOLERANCE
    bench_tolerance = TOLERANCE;
#else
    bench_tolerance = DTYPE == DTYPE_BF16 ? *(const double *)*state : EXACT;
#endif
    return 0;
}

#define TEST(name, in_bf16) cmocka_unit_test_prestate_setup_teardown(name, choose_tolerance, NULL, &(double){in_bf16})
/* On CUDA, f32, tf32, and f32 without tensor cores differ only in the kernels of products. A test in SAME launches the
 * same kernels with each of them. Programs that define ONLY_PRODUCTS leave out these tests. */
#ifdef ONLY_PRODUCTS
#define SAME(name, in_bf16) \
    {                       \
        0                   \
    }
#else
#define SAME(name, in_bf16) TEST(name, in_bf16)
#endif

int main(void)
{
    bench_options.device.kind = DEVICE;
    bench_options.dtype = DTYPE;
    bench_options.kernels = KERNELS;
    bench_options.products = PRODUCTS;
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20261120;
    random_seed(seed);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct CMUnitTest tests[] = {
        TEST(test_give_tensor, 2.6e-2),
        SAME(test_reshape_ids, EXACT),
        SAME(test_folded_positions, EXACT),
        TEST(test_folded_attention, 1.2e-1),
        SAME(test_folded_linear_and_local_attention, 4e-2),
        TEST(test_folded_convolve_append_pad, 2e-2),
        cmocka_unit_test(test_every_operation_has_its_facts),
        cmocka_unit_test(test_an_operation_without_a_kernel_is_refused),
        SAME(test_embed_and_positions, EXACT),
        SAME(test_axial_positions, EXACT),
        SAME(test_layer_norm, EXACT),
        SAME(test_group_norm, EXACT),
        TEST(test_products_of_norm, 2.6e-2),
        TEST(test_a_product_can_read_the_result_of_attention, 0.04),
        TEST(test_linear, 2.6e-2),
        TEST(test_values_that_two_steps_read_are_not_fused, 2e-2),
        TEST(test_project_sequence, 1.4e-1),
        TEST(test_convolve_sequence, 2e-2),
        TEST(test_attend, 1.2e-1),
        TEST(test_full_attention, 3.2e-2),
        TEST(test_padded_and_masked, 2.4e-2),
        TEST(test_masked_attention, 2.4e-2),
        TEST(test_calls, 1.7e-2),
        SAME(test_shift_tokens, EXACT),
        SAME(test_shift_of_norms, 2e-2),
        SAME(test_pairs, 3e-4),
        TEST(test_two_projections, 4.5e-2),
        TEST(test_linear_attend, 4e-2),
        TEST(test_causal_linear_attend, 1.7e-2),
        SAME(test_causal_attention_to_a_context, EXACT),
        TEST(test_local_attend, 3.8e-2),
        SAME(test_retrieve, EXACT),
        TEST(test_reshape, 2e-2),
        SAME(test_rotate_concatenate_gate_cut, 1.2e-3),
        TEST(test_pad_rows, 2e-2),
        TEST(test_convolve_image, 3.2e-2),
        TEST(test_convolve_groups, 3.2e-2),
        TEST(test_convolve_rows, 3.2e-2),
        TEST(test_image_attention, 1.3e-2),
        SAME(test_permute, EXACT),
        SAME(test_arrange_parts, EXACT),
        SAME(test_arrange_rows, EXACT),
        SAME(test_arrange_ids, EXACT),
        TEST(test_combine, 2e-2),
        SAME(test_functions, EXACT),
        SAME(test_select, EXACT),
        SAME(test_select_ids, EXACT),
        SAME(test_activations, 3e-4),
        TEST(test_epilogues, 2.9e-2),
        SAME(test_every_activation_is_fused, EXACT),
        SAME(test_computed_ids_select_rows_of_a_table, EXACT),
        SAME(test_reduce, EXACT),
        SAME(test_cumulate, EXACT),
        SAME(test_argmax, EXACT),
        SAME(test_softmax, EXACT),
        SAME(test_multiply, 1e-3),
        SAME(test_norm_of_sequences, EXACT),
        SAME(test_space_of_sequences, EXACT),
        TEST(test_convolve_sequences, 3.2e-2),
        TEST(test_output_layer, 8e-3),
        SAME(test_every_operation_was_run, EXACT),
    };
    size_t count = 0;
    for (size_t i = 0; i < COUNT(tests); i++)
        if (tests[i].test_func)
            tests[count++] = tests[i];
    return _cmocka_run_group_tests("operations", tests, count, NULL, NULL);
}
