/* The functions of engine/cuda/tensor.h, compared with the fragments of the PTX ISA. The test's kernels compute the
 * places of a lane's elements (a0 … a7, b0 … b3, c0 … c3) by the formulas of the ISA. The test also checks roundings to
 * 16 bits. The program is compiled for the shim, and by nvcc for a device. */
#include "engine/cuda/tensor.h"
#include "tests/cuda/launch.h"
#include "tests/cuda/schedules.h"

#include <math.h>
#include <string.h>

template <typename... Parameters, typename... Arguments>
static void launch_warp(void (*kernel)(Parameters...), size_t shared_bytes, Arguments... arguments)
{
    launch_block(kernel, WARP, shared_bytes, arguments...);
}

/* ---- mma.m16n8k16 ---- */

template <typename T> static __global__ void multiply(const float *a, const float *b, float *d)
{
    int group = warp_thread() / 4, thread = warp_thread() % 4;
    float ai[8], bi[4], ci[4];
    uint32_t fragment[4];
    for (int i = 0; i < 8; i++) {
        int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
        int column = thread * 2 + (i & 1) + (i >= 4 ? 8 : 0);
        ai[i] = a[row * 16 + column];
    }
    for (int i = 0; i < 4; i++)
        bi[i] = b[(thread * 2 + (i & 1) + (i >= 2 ? 8 : 0)) * 8 + group];
    for (int i = 0; i < 4; i++) {
        fragment[i] = pair_of<T>(ai[2 * i], ai[2 * i + 1]);
        ci[i] = d[(i < 2 ? group : group + 8) * 8 + thread * 2 + (i & 1)];
    }
    multiply_add<T>(ci, fragment, pair_of<T>(bi[0], bi[1]), pair_of<T>(bi[2], bi[3]));
    for (int i = 0; i < 4; i++)
        d[(i < 2 ? group : group + 8) * 8 + thread * 2 + (i & 1)] = ci[i];
}

/* Uses small integers, for which every product and sum is exact. */
static void check_product(void (*kernel)(const float *, const float *, float *))
{
    float a[16 * 16], b[16 * 8], d[16 * 8], expected[16 * 8];
    for (int i = 0; i < 16 * 16; i++)
        a[i] = (float)(i * 37 % 23 - 11);
    for (int i = 0; i < 16 * 8; i++)
        b[i] = (float)(i * 29 % 19 - 9);
    for (int i = 0; i < 16 * 8; i++) {
        expected[i] = d[i] = (float)(i % 7);
        for (int l = 0; l < 16; l++)
            expected[i] += a[i / 8 * 16 + l] * b[l * 8 + i % 8];
    }
    void *on_device[] = {to_device(a, sizeof a), to_device(b, sizeof b), to_device(d, sizeof d)};
    launch_warp(kernel, 0, (float *)on_device[0], (float *)on_device[1], (float *)on_device[2]);
    to_host(d, on_device[2], sizeof d);
    cudaFree(on_device[0]);
    cudaFree(on_device[1]);
    for (int i = 0; i < 16 * 8; i++)
        assert_true(d[i] == expected[i]);
}

static void products_are_exact(void **)
{
    check_product(multiply<bf16>);
    check_product(multiply<f16>);
}

/* ---- mma.m16n8k8 of TF32 ---- */

static __global__ void multiply_tf32(const float *a, const float *b, float *d)
{
    int group = warp_thread() / 4, thread = warp_thread() % 4;
    uint32_t ai[4], bi[2];
    float ci[4];
    for (int i = 0; i < 4; i++) {
        int row = i == 0 || i == 2 ? group : group + 8, column = i < 2 ? thread : thread + 4;
        ai[i] = __float_as_uint(a[row * 8 + column]);
        ci[i] = d[(i < 2 ? group : group + 8) * 8 + thread * 2 + (i & 1)];
    }
    for (int i = 0; i < 2; i++)
        bi[i] = __float_as_uint(b[(i == 0 ? thread : thread + 4) * 8 + group]);
    multiply_add_tf32(ci, ai, bi[0], bi[1]);
    for (int i = 0; i < 4; i++)
        d[(i < 2 ? group : group + 8) * 8 + thread * 2 + (i & 1)] = ci[i];
}

static void run_tf32(const float (&a)[16 * 8], const float (&b)[8 * 8], float (&d)[16 * 8])
{
    void *on_device[] = {to_device(a, sizeof a), to_device(b, sizeof b), to_device(d, sizeof d)};
    launch_warp(multiply_tf32, 0, (float *)on_device[0], (float *)on_device[1], (float *)on_device[2]);
    to_host(d, on_device[2], sizeof d);
    cudaFree(on_device[0]);
    cudaFree(on_device[1]);
}

static void products_of_tf32_are_exact(void **)
{
    float a[16 * 8], b[8 * 8], d[16 * 8], expected[16 * 8];
    for (int i = 0; i < 16 * 8; i++)
        a[i] = (float)(i * 37 % 23 - 11);
    for (int i = 0; i < 8 * 8; i++)
        b[i] = (float)(i * 29 % 19 - 9);
    for (int i = 0; i < 16 * 8; i++) {
        expected[i] = d[i] = (float)(i % 7);
        for (int l = 0; l < 8; l++)
            expected[i] += a[i / 8 * 8 + l] * b[l * 8 + i % 8];
    }
    run_tf32(a, b, d);
    for (int i = 0; i < 16 * 8; i++)
        assert_true(d[i] == expected[i]);
}

/* Each sum is d + a b. It is element (5, 3) of a product, and the other elements are 0. All generations of tensor cores
 * cut off the lower 13 bits of operands, and round sums towards zero. */
static void operands_and_sums_of_tf32_are_truncated(void **)
{
    static const struct {
        float d, a, b, sum;
    } sums[] = {
        {0, 1 + 0x1.8p-10f, 1, 1 + 0x1p-10f},
        {0, -1 - 0x1.ffep-11f, 1, -1},
        {0, 1, 3 + 0x1.8p-9f, 3 + 0x1p-9f},
        {1, 0x1p-24f, 1, 1},
        {1, 0x1.8p-24f, 1, 1},
        {-1, -0x1.8p-24f, 1, -1},
        {1, 0x1p-23f, 1, 1 + 0x1p-23f},
        {1, -0x1p-24f, 1, 1 - 0x1p-24f},
        {1, 1 + 0x1p-10f, 1 + 0x1p-10f, 2 + 0x1p-9f + 0x1p-20f},
        {0x1p90f, 0x1p60f, 0x1p60f, 0x1p120f},
        {0x1p-120f, 0x1p-60f, 0x1p-60f, 0x1p-119f},
        {0, INFINITY, 2, INFINITY},
        {-INFINITY, 1, 1, -INFINITY},
    };
    const int count = sizeof sums / sizeof *sums;
    for (int i = 0; i < count; i++) {
        float a[16 * 8] = {}, b[8 * 8] = {}, d[16 * 8] = {};
        a[5 * 8 + 2] = sums[i].a;
        b[2 * 8 + 3] = sums[i].b;
        d[5 * 8 + 3] = sums[i].d;
        run_tf32(a, b, d);
        if (d[5 * 8 + 3] != sums[i].sum)
            fail_msg("sum %d is %a and not %a", i, (double)d[5 * 8 + 3], (double)sums[i].sum);
    }
}

/* ---- ldmatrix ---- */

static __global__ void load_and_copy(const uint16_t *matrices, uint32_t *plain, uint32_t *transposed)
{
    uint16_t(*rows)[8] = (uint16_t(*)[8])dynamic_shared_memory;
    uint32_t fragment[4];
    copy_async(rows[warp_thread()], matrices + warp_thread() * 8, true);
    copies_commit();
    copies_wait<0>();
    __syncwarp();
    load_matrices(fragment, rows[warp_thread()]);
    for (int i = 0; i < 4; i++)
        plain[warp_thread() * 4 + i] = fragment[i];
    load_matrices_transposed(fragment, rows[warp_thread()]);
    for (int i = 0; i < 4; i++)
        transposed[warp_thread() * 4 + i] = fragment[i];
}

/* Of matrix m, a lane holds the elements 2 (lane % 4) and 2 (lane % 4) + 1 in row lane / 4. The same holds for the
 * transposed matrix. */
static void ldmatrix_distributes_matrices_over_the_warp(void **)
{
    uint16_t matrices[4][8][8];
    uint32_t plain[WARP][4], transposed[WARP][4];
    for (int i = 0; i < 4 * 8 * 8; i++)
        ((uint16_t *)matrices)[i] = (uint16_t)(i * 251 + 3);
    memset(plain, 0, sizeof plain);
    void *from = to_device(matrices, sizeof matrices), *to = to_device(plain, sizeof plain);
    void *turned = to_device(plain, sizeof plain);
    launch_warp(load_and_copy, sizeof matrices, (uint16_t *)from, (uint32_t *)to, (uint32_t *)turned);
    to_host(plain, to, sizeof plain);
    to_host(transposed, turned, sizeof transposed);
    cudaFree(from);
    for (int l = 0; l < WARP; l++)
        for (int m = 0; m < 4; m++) {
            int row = l / 4, column = l % 4 * 2;
            assert_int_equal(plain[l][m], matrices[m][row][column] | (uint32_t)matrices[m][row][column + 1] << 16);
            assert_int_equal(transposed[l][m], matrices[m][column][row] | (uint32_t)matrices[m][column + 1][row] << 16);
        }
}

/* ---- Copies with a wait ---- */

static __global__ void copy_groups(const uint4 *from, uint32_t *to)
{
    uint4 *shared = (uint4 *)dynamic_shared_memory;
    copy_async(&shared[warp_thread()], from + warp_thread(), true);
    copies_commit();
    copy_async(&shared[WARP + warp_thread()], from, false); /* fills the destination with zeros */
    copies_commit();
    copies_wait<1>();
    to[warp_thread()] = shared[warp_thread()].x; /* the element that this thread copied */
    copies_wait<0>();
    __syncwarp();
    to[WARP + warp_thread()] = shared[WARP + (warp_thread() + 1) % WARP].y;
}

static void asynchronous_copies_arrive_group_by_group(void **)
{
    uint32_t from[WARP][4], to[2 * WARP];
    for (int i = 0; i < WARP * 4; i++)
        from[i / 4][i % 4] = (uint32_t)i + 1;
    memset(to, 0xee, sizeof to);
    void *source = to_device(from, sizeof from), *target = to_device(to, sizeof to);
    launch_warp(copy_groups, 2 * sizeof from, (uint4 *)source, (uint32_t *)target);
    to_host(to, target, sizeof to);
    cudaFree(source);
    for (int i = 0; i < WARP; i++) {
        assert_int_equal(to[i], i * 4 + 1);
        assert_int_equal(to[WARP + i], 0);
    }
}

/* ---- Rounding ---- */

template <typename T> static __global__ void round_all(const float *x, uint16_t *bits, uint32_t *pairs)
{
    T element = of_float<T>(x[warp_thread()]);
    memcpy(&bits[warp_thread()], &element, sizeof element);
    pairs[warp_thread()] = pair_of<T>(x[warp_thread()], x[(warp_thread() + 1) % WARP]);
}

template <typename T> static void check_rounding(const float *x, const uint16_t *expected, int count)
{
    float given[WARP] = {};
    uint16_t bits[WARP] = {};
    uint32_t pairs[WARP] = {};
    memcpy(given, x, (size_t)count * sizeof *x);
    void *from = to_device(given, sizeof given), *to = to_device(bits, sizeof bits);
    void *of_two = to_device(pairs, sizeof pairs);
    launch_warp(round_all<T>, 0, (float *)from, (uint16_t *)to, (uint32_t *)of_two);
    to_host(bits, to, sizeof bits);
    to_host(pairs, of_two, sizeof pairs);
    cudaFree(from);
    for (int i = 0; i < count; i++)
        assert_int_equal(bits[i], expected[i]);
    for (int i = 0; i + 1 < count; i++)
        assert_int_equal(pairs[i], expected[i] | (uint32_t)expected[i + 1] << 16);
}

static void rounding_is_to_nearest_even(void **)
{
    const float bfloats[] = {1, -2.5f, 1.00390625f, 1.01171875f, 3.4e38f, INFINITY, 0x1p-133f, 0};
    const uint16_t bfloat_bits[] = {0x3f80, 0xc020, 0x3f80, 0x3f82, 0x7f80, 0x7f80, 0x0001, 0};
    const float halves[] = {1,     -2.5f,    1.00048828125f, 1.00146484375f, 65504,       65519,
                            65520, 0x1p-24f, 0x1p-25f,       0x1.8p-24f,     0x1.ffep-15f};
    const uint16_t half_bits[] = {0x3c00, 0xc100, 0x3c00, 0x3c02, 0x7bff, 0x7bff,
                                  0x7c00, 0x0001, 0x0000, 0x0002, 0x0400};
    check_rounding<bf16>(bfloats, bfloat_bits, sizeof bfloats / sizeof *bfloats);
    check_rounding<f16>(halves, half_bits, sizeof halves / sizeof *halves);
}

static int run_tensor(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_exact),
        cmocka_unit_test(products_of_tf32_are_exact),
        cmocka_unit_test(operands_and_sums_of_tf32_are_truncated),
        cmocka_unit_test(ldmatrix_distributes_matrices_over_the_warp),
        cmocka_unit_test(asynchronous_copies_arrive_group_by_group),
        cmocka_unit_test(rounding_is_to_nearest_even),
    };
    return cmocka_run_group_tests_name("tensor", tests, open_stream, close_stream);
}

int main(void)
{
    return run_schedules(run_tensor);
}
