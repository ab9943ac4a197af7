/* tests/unit/test_passes.c on the CUDA backend, in the thread orders of schedules.h. A device has only one order. */
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
