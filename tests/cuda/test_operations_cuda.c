/* tests/unit/test_operations.c on the CUDA backend, in the thread orders of schedules.h. A device has only one
 * order. */
#define DEVICE DEVICE_CUDA
int run_operations(void);
#define main run_operations
#include "tests/unit/test_operations.c"
#undef main
#include "tests/cuda/schedules.h"

int main(void)
{
#ifdef CUDA_F32
    bench_options.cuda_f32 = CUDA_F32; /* test_operations_plain.c defines another value */
#endif
    return run_schedules(run_operations);
}
