/* Kernels with planted faults, to test the shim. Each fault runs in a separate process. The end of the process depends
 * on the build:
 * - A missing barrier is a race, and gives a wrong result in thread orders other than lockstep.
 * - A sum without an atomic operation is a race. Only the thread sanitizer finds it.
 * - An overrun is an error of the address sanitizer.
 * - If some threads do not reach a barrier or a shuffle, the process ends. It also ends if an argument of a kernel
 *   points to memory of the host.
 * The same kernels without faults must succeed. */
#include "engine/cuda/gpu.h"
#include "tests/cuda/shim/tf32_model.h"
#include "tests/cuda/tf32_recorded.h"

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <spawn.h>
#include <sys/wait.h>

extern "C" {
#include <cmocka.h>
}

#define THREADS 64
#define WRONG 3 /* exit status after a wrong result */
#define ADDRESS_ERROR 1
#define RACE 66 /* exit status of the thread sanitizer */

#if defined(__SANITIZE_ADDRESS__)
#define FOUND_AS(plain, address, thread) (address)
#elif defined(__SANITIZE_THREAD__)
#define FOUND_AS(plain, address, thread) (thread)
#else
#define FOUND_AS(plain, address, thread) (plain)
#endif

enum fault {
    NONE,
    NO_BARRIER,
    NO_ATOMIC,
    DYNAMIC_OVERRUN,
    STATIC_OVERRUN,
    DEVICE_OVERRUN,
    TWO_BARRIERS,
    FEW_LANES,
    HOST_POINTER
};

/* Thread t writes the number of thread t - 1 to out[t]. The number is exchanged in shared memory. Thread 0 writes 0. */
static __global__ void hand_on(bool waits, int *out)
{
    int *numbers = (int *)dynamic_shared_memory, t = (int)threadIdx.x;
    numbers[t] = t;
    if (waits)
        __syncthreads();
    out[t] = t > 0 ? numbers[t - 1] : 0;
}

static __global__ void count_threads(bool atomic, int *out)
{
    if (atomic)
        atomicAdd(out, 1);
    else
        out[0] = out[0] + 1;
}

/* In the next three kernels, one thread writes element `place` of an array with THREADS elements. */
static __global__ void write_dynamic(int place)
{
    if (threadIdx.x == 0)
        ((int *)dynamic_shared_memory)[place] = 1;
}

static __global__ void write_static(int place, int *out)
{
    __shared__ int numbers[THREADS];
    if (threadIdx.x != 0)
        return;
    numbers[place] = 1;
    out[0] = numbers[0];
}

static __global__ void write_device(int place, int *out)
{
    if (threadIdx.x == 0)
        out[place] = 1;
}

static __global__ void wait_apart(bool apart)
{
    if (apart && threadIdx.x % 2)
        __syncthreads();
    else
        __syncthreads();
}

static __global__ void shuffle_lanes(unsigned lanes)
{
    if (threadIdx.x % WARP < lanes)
        __shfl_xor_sync(0xffffffffu, 1, 1);
}

static cudaStream_t stream;

template <typename... Parameters, typename... Arguments>
static void launch(void (*kernel)(Parameters...), Arguments... arguments)
{
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = dim3(1);
    configuration.blockDim = dim3(THREADS);
    configuration.dynamicSmemBytes = THREADS * sizeof(int);
    configuration.stream = stream;
    if (cudaLaunchKernelEx(&configuration, kernel, static_cast<Parameters>(arguments)...) != cudaSuccess)
        exit(WRONG);
}

/* Runs all kernels, one of them with the fault. Returns the exit status, unless the fault ends the process. */
static int run(enum fault fault)
{
    int *out, host[THREADS] = {}, behind = THREADS;
    bool right = true;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaMalloc((void **)&out, sizeof host) != cudaSuccess)
        return WRONG;
    launch(hand_on, fault != NO_BARRIER, out);
    cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    for (int i = 0; i < THREADS; i++)
        right = right && host[i] == (i > 0 ? i - 1 : 0);
    memset(host, 0, sizeof host);
    cudaMemcpyAsync(out, host, sizeof host, cudaMemcpyHostToDevice, stream);
    launch(count_threads, fault != NO_ATOMIC, out);
    cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    right = right && host[0] == THREADS;
    launch(write_dynamic, fault == DYNAMIC_OVERRUN ? behind : 0);
    launch(write_static, fault == STATIC_OVERRUN ? behind : 0, out);
    launch(write_device, fault == DEVICE_OVERRUN ? behind : 0, fault == HOST_POINTER ? host : out);
    launch(wait_apart, fault == TWO_BARRIERS);
    launch(shuffle_lanes, fault == FEW_LANES ? WARP / 2 : WARP);
    cudaStreamSynchronize(stream);
    cudaFree(out);
    cudaStreamDestroy(stream);
    return right ? 0 : WRONG;
}

/* Runs a process with the fault. The seed chooses the order of threads. Returns the exit status. If a signal ended the
 * process, returns minus the signal's number. */
static int end_of(enum fault fault, const char *seed)
{
    char number[16], program[] = "/proc/self/exe";
    char *arguments[] = {program, number, nullptr};
    pid_t child;
    int status;
    snprintf(number, sizeof number, "%d", (int)fault);
    setenv("SHIM_SEED", seed, 1);
    print_message("# a planted fault, %s, SHIM_SEED=%s\n", number, seed);
    assert_int_equal(posix_spawn(&child, program, nullptr, nullptr, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void correct_kernels_end_without_an_error(void **)
{
    assert_int_equal(end_of(NONE, "0"), 0);
    assert_int_equal(end_of(NONE, "1"), 0);
    assert_int_equal(end_of(NONE, "2"), 0);
}

/* Only lockstep order gives the right result. */
static void a_missing_barrier_is_found(void **)
{
    assert_int_equal(end_of(NO_BARRIER, "0"), FOUND_AS(0, 0, RACE));
    assert_int_equal(end_of(NO_BARRIER, "1"), FOUND_AS(WRONG, WRONG, RACE));
    assert_int_equal(end_of(NO_BARRIER, "2"), FOUND_AS(WRONG, WRONG, RACE));
}

static void a_missing_atomic_operation_is_found(void **)
{
    assert_int_equal(end_of(NO_ATOMIC, "2"), FOUND_AS(0, 0, RACE));
}

#ifdef __SANITIZE_ADDRESS__
static void overruns_are_found(void **)
{
    assert_int_equal(end_of(DYNAMIC_OVERRUN, "0"), ADDRESS_ERROR);
    assert_int_equal(end_of(STATIC_OVERRUN, "0"), ADDRESS_ERROR);
    assert_int_equal(end_of(DEVICE_OVERRUN, "0"), ADDRESS_ERROR);
}
#endif

static void a_barrier_that_not_all_threads_reach_ends_the_process(void **)
{
    assert_int_equal(end_of(TWO_BARRIERS, "0"), -SIGABRT);
    assert_int_equal(end_of(FEW_LANES, "0"), -SIGABRT);
}

static void a_kernel_with_a_pointer_to_host_memory_ends_the_process(void **)
{
    assert_int_equal(end_of(HOST_POINTER, "0"), -SIGABRT);
}

/* Each recorded sum is computed in all rows and columns of the result. Therefore each element of the result is
 * tested. */
static void tensor_cores_compute_what_mma_sim_computes(void **)
{
    for (int number = 0; number < TF32_RECORDED; number++) {
        const uint32_t *a = tf32_recorded[number], *b = a + 8, *sum = a + 17;
        shim::tf32_product product = {};
        for (int l = 0; l < 8; l++) {
            for (int row = 0; row < 16; row++)
                product.a[row][l] = a[l];
            for (int column = 0; column < 8; column++)
                product.b[l][column] = b[l];
        }
        for (int i = 0; i < 16 * 8; i++)
            memcpy(&product.d[i / 8][i % 8], a + 16, sizeof(float));
        shim::tf32_multiply(&product);
        for (int i = 0; i < 16 * 8; i++)
            if (memcmp(&product.d[i / 8][i % 8], sum, sizeof(float)) != 0)
                fail_msg("sum %d, element %d: %a", number, i, (double)product.d[i / 8][i % 8]);
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_cores_compute_what_mma_sim_computes),
        cmocka_unit_test(correct_kernels_end_without_an_error),
        cmocka_unit_test(a_missing_barrier_is_found),
        cmocka_unit_test(a_missing_atomic_operation_is_found),
#ifdef __SANITIZE_ADDRESS__
        cmocka_unit_test(overruns_are_found),
#endif
        cmocka_unit_test(a_barrier_that_not_all_threads_reach_ends_the_process),
        cmocka_unit_test(a_kernel_with_a_pointer_to_host_memory_ends_the_process),
    };
    if (count > 1)
        return run((enum fault)atoi(arguments[1]));
    return cmocka_run_group_tests_name("the shim", tests, NULL, NULL);
}
