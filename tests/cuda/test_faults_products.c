/* Products that cuBLASLt refuses: with an epilogue, without an algorithm for the shape, or at the launch of the chosen
 * algorithm. The engine's own kernels must replace the refused products, in each dtype. Products are refused at the
 * launch only in f32. The tests are four of tests/unit/test_operations.c. In f32, cuBLASLt is only used without tensor
 * cores. Without the shim, no product is refused. */
#include "config/config.h"

#define DEVICE DEVICE_CUDA
static enum dtype dtype_of_test;
static double tolerance_of_test;
#define DTYPE dtype_of_test
#define TOLERANCE tolerance_of_test
int run_operations(void);
#define main run_operations
#include "tests/unit/test_operations.c"
#undef main
#include "tests/cuda/faults.h"
#include "tests/cuda/schedules.h"

static const struct {
    enum dtype dtype;
    double tolerance;
    const char *refusal;
} refusals[] = {
    {DTYPE_F32, EXACT, "algorithm 1 0 801\n"}, {DTYPE_BF16, 1e-1, "algorithm 1 0 801\n"},
#ifndef __SANITIZE_THREAD__ /* the kernels that compute the refused epilogues have no barriers, so they cannot race */
    {DTYPE_F32, EXACT, "epilogue 1 0 801\n"},  {DTYPE_F32, EXACT, "product 1 0 801\n"},
    {DTYPE_BF16, 1e-1, "epilogue 1 0 801\n"},
#ifndef __SANITIZE_ADDRESS__ /* f16 has the kernels of bf16 with another type, and tf32 has those of float32 */
    {DTYPE_F16, 2e-2, "epilogue 1 0 801\n"},   {DTYPE_F16, 2e-2, "algorithm 1 0 801\n"},
    {DTYPE_TF32, 1e-2, "algorithm 1 0 801\n"},
#endif
#endif
};

static int run_refused(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_linear, 0),
        TEST(test_calls, 0),
        TEST(test_convolve_image, 0),
        TEST(test_output_layer, 0),
    };
    int failed = 0;
    random_seed(getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 20261122);
    print_message("SEED=%s\n", getenv("SEED") ? getenv("SEED") : "20261122");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        bench_options.dtype = dtype_of_test = refusals[i].dtype;
        tolerance_of_test = refusals[i].tolerance;
        print_message("# %s, %s", dtype_name(dtype_of_test), refusals[i].refusal);
        faults_set(refusals[i].refusal);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}

int main(void)
{
    bench_options.device.kind = DEVICE;
    bench_options.cuda_f32 = CUDA_F32_PLAIN;
    faults_begin();
    int failed = run_schedules(run_refused);
    faults_end();
    return failed;
}
