/* tests/reference/test_cases.c on the CUDA backend, with each schedule of the shim; on a device there is but one. */
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
