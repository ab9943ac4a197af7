/* tests/unit/test_tensors.c on the CUDA backend, with each schedule of the shim; on a device there is but one. */
#define DEVICE DEVICE_CUDA
int run_tensors(void);
#define main run_tensors
#include "tests/unit/test_tensors.c"
#undef main
#include "tests/cuda/schedules.h"

int main(void)
{
    return run_schedules(run_tensors);
}
