/* tests/unit/test_passes.c on the CUDA backend, with each schedule of the shim; on a device there is but one. */
#define DEVICE DEVICE_CUDA
int run_passes(void);
#define main run_passes
#include "tests/unit/test_passes.c"
#undef main
#include "tests/cuda/schedules.h"

int main(void)
{
    return run_schedules(run_passes);
}
