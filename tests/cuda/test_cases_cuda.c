/* tests/reference/test_cases.c on the CUDA backend, in the thread orders of schedules.h. A device has one order. */
#include "tests/cuda/alone.h"

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
