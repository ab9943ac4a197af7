/* tests/reference/test_parts.c on the CUDA backend, in the thread orders of schedules.h. A device has only one
 * order. */
#include "tests/cuda/alone.h"

#define DEVICE DEVICE_CUDA
#define ROUNDS 2 /* few rounds, because a round has some hundred batches, which take long on the shim */
#define ALONE_TOLERANCE alone_tolerance(DTYPE)
int run_parts(void);
#define main run_parts
#include "tests/reference/test_parts.c"
#undef main
#include "tests/cuda/schedules.h"

int main(void)
{
    return run_schedules(run_parts);
}
