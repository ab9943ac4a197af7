/* tests/reference/test_cases.c on the CUDA backend, in the thread orders of schedules.h. A device has only one order.
 * In f32, each product consists of three products in TF32 (engine/cuda/split.h). The errors must be as small as with
 * products of floats. */
#include "tests/cuda/alone.h"

#ifndef DTYPE
#define DTYPE DTYPE_F32
#define TOLERANCE 1e-6
#endif

#define DEVICE DEVICE_CUDA
#define ALONE_TOLERANCE alone_tolerance(DTYPE)
int run_cases(void);
#define main run_cases
#include "tests/reference/test_cases.c"
#undef main
#include "tests/cuda/schedules.h"

int main(void)
{
    return run_schedules(run_cases);
}
