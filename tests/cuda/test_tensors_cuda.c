/* tests/unit/test_tensors.c on the CUDA backend, in the thread orders of schedules.h. A device has only one order. */
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
