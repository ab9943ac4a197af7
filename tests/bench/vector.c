/* vector: the speed of the functions of engine/cpu/vector.h, for each instruction set of this processor, and in bf16.
 *
 *     vector [SECONDS]   each line takes at least SECONDS (0.1)
 *
 * One thread runs. The operands fit into the second-level cache, like the rows of a task, except for attention over
 * many keys. The rate of an attention is also printed as a part of the peak rate. The peak rate is that of a plain loop
 * of multiply-adds over registers. */
#include "engine/cpu/vector.h"
#include "tests/unit/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define ROWS 64
#define COLUMNS 512
/* Number of independent sums, one in each register. It exceeds the latency of a multiply-add in cycles, times the
 * number of units for multiply-adds. The sums fit into 16 registers. */
#define SUMS 12

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- The peak of the processor: sums in registers, no loads ---- */

#define MULTIPLY_ADD_LOOP(name, lanes, attributes)                                                       \
    static attributes float name(int64_t rounds)                                                         \
    {                                                                                                    \
        typedef float vector __attribute__((vector_size(4 * (lanes))));                                  \
        vector sums[SUMS], factor = 0.999f - (vector){0}, all = {0};                                     \
        for (int i = 0; i < SUMS; i++)                                                                   \
            sums[i] = (float)i - (vector){0};                                                            \
        for (int64_t round = 0; round < rounds; round++)                                                 \
            _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) sums[i] = sums[i] * factor + factor; \
        for (int i = 0; i < SUMS; i++)                                                                   \
            all += sums[i];                                                                              \
        return all[0];                                                                                   \
    }

MULTIPLY_ADD_LOOP(multiply_add_baseline, 4, )
#ifdef __x86_64__
MULTIPLY_ADD_LOOP(multiply_add_avx2, 8, __attribute__((target("avx2,fma"))))
MULTIPLY_ADD_LOOP(multiply_add_avx512, 16, __attribute__((target("avx512f"))))
#endif

static const struct {
    float (*loop)(int64_t rounds);
    int lanes;
} multiply_adds[SET_COUNT] = {
    [SET_BASELINE] = {multiply_add_baseline, 4},
#ifdef __x86_64__
    [SET_AVX2] = {multiply_add_avx2, 8},
    [SET_AVX512] = {multiply_add_avx512, 16},
#endif
};

#ifdef __x86_64__
/* Measures the processor's instruction for pairs of bf16. The factors are ones. */
static __attribute__((target("avx512f,avx512bf16"))) float multiply_add_bf16(int64_t rounds)
{
    __m512 sums[SUMS], all = _mm512_setzero_ps();
    __m512bh pairs = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    for (int i = 0; i < SUMS; i++)
        sums[i] = _mm512_setzero_ps();
    for (int64_t round = 0; round < rounds; round++) {
        _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) sums[i] = _mm512_dpbf16_ps(sums[i], pairs, pairs);
    }
    for (int i = 0; i < SUMS; i++)
        all = _mm512_add_ps(all, sums[i]);
    return _mm512_reduce_add_ps(all);
}
#endif

static volatile float kept;

/* Returns the peak rate. `operations` is the number of multiplications and additions in a round. */
static double peak_flops(float (*loop)(int64_t rounds), double operations)
{
    int64_t rounds = 1000000;
    double best = 1e9;
    for (int run = 0; run < 20; run++) {
        double begin = now_s();
        kept = loop(rounds);
        double took = now_s() - begin;
        best = took < best ? took : best;
    }
    return operations * (double)rounds / best;
}

/* ---- The kernels ---- */

/* Allocates memory with the alignment of the engine's arena and scratch. */
static float *aligned(size_t floats)
{
    float *memory = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64);
    if (!memory)
        abort();
    return memory;
}

struct bench {
    const struct vector_functions *vector;
    float *x, *y, *z, *gain, *bias, *scratch;
    struct vector_keys keys;
    struct vector_attend attend;
    float *packed;
};

struct kernel {
    const char *name;
    void (*run)(struct bench *bench);
    double elements, bytes, flops; /* numbers for one run, 0: not printed */
};

static void run_layer_norm(struct bench *b)
{
    b->vector->layer_norm(ROWS, COLUMNS, b->x, b->gain, b->bias, 1e-5f, ELEMENT_F32, b->y);
}

static void run_gelu(struct bench *b)
{
    b->vector->activate(ROWS * COLUMNS, (struct plan_activation){.kind = ACTIVATION_GELU}, b->x, b->y);
}

static void run_relu(struct bench *b)
{
    b->vector->activate(ROWS * COLUMNS, (struct plan_activation){.kind = ACTIVATION_RELU}, b->x, b->y);
}

static void run_add(struct bench *b)
{
    b->vector->add(ROWS * COLUMNS, b->x, b->z, 1, b->y);
}

static void run_finish_gelu(struct bench *b)
{
    b->vector->finish_linear(&(struct vector_finish){
        .rows = ROWS,
        .columns = COLUMNS,
        .x = b->x,
        .x_stride = COLUMNS,
        .bias = b->bias,
        .activation = {.kind = ACTIVATION_GELU},
        .y = b->y,
        .y_stride = COLUMNS,
    });
}

static void run_finish_residual(struct bench *b)
{
    b->vector->finish_linear(&(struct vector_finish){
        .rows = ROWS,
        .columns = COLUMNS,
        .x = b->x,
        .x_stride = COLUMNS,
        .bias = b->bias,
        .residual = b->z,
        .residual_stride = COLUMNS,
        .y = b->y,
        .y_stride = COLUMNS,
    });
}

/* Computes the softmax of its own result, because the values hardly influence the time. */
static void run_softmax(struct bench *b)
{
    for (int r = 0; r < ROWS; r++)
        b->vector->softmax(COLUMNS, 1, b->y + r * COLUMNS);
}

static void run_pack_keys(struct bench *b)
{
    b->vector->pack_keys(&b->keys, b->packed);
}

static void run_sinusoids(struct bench *b)
{
    for (int r = 0; r < ROWS; r++)
        b->vector->add_sinusoids(COLUMNS / 2, (float)(1000 + r), b->gain, b->x + r * COLUMNS, b->y + r * COLUMNS);
}

static void run_exp(struct bench *b)
{
    b->vector->exp_rows(ROWS, COLUMNS, b->x, COLUMNS, b->gain, b->y);
}

static void run_attend(struct bench *b)
{
    b->vector->attend(&b->attend);
}

static void time_kernel(struct bench *bench, const struct kernel *kernel, double peak, double seconds)
{
    double best = 1e9, start = now_s();
    for (int i = 0; i < ROWS * COLUMNS; i++)
        bench->y[i] = bench->x[i];
    for (int runs = 0; runs < 5 || now_s() - start < seconds; runs++) {
        double begin = now_s();
        kernel->run(bench);
        double took = now_s() - begin;
        best = took < best ? took : best;
    }
    printf("  %-34s", kernel->name);
    if (kernel->elements > 0)
        printf("%9.0f M/s", kernel->elements / best / 1e6);
    if (kernel->bytes > 0)
        printf("%8.1f GB/s", kernel->bytes / best / 1e9);
    if (kernel->flops > 0)
        printf("%9.1f GFLOP/s %5.1f %% of the multiply-add rate", kernel->flops / best / 1e9,
               100 * kernel->flops / best / peak);
    printf("\n");
    fflush(stdout);
}

static void time_rows(struct bench *bench, double seconds)
{
    const double n = ROWS * COLUMNS;
    const struct kernel kernels[] = {
        {"layer norm, 512 columns", run_layer_norm, n, 8 * n, 0},
        {"gelu", run_gelu, n, 8 * n, 0},
        {"relu", run_relu, n, 8 * n, 0},
        {"add", run_add, n, 12 * n, 0},
        {"bias, gelu after a product", run_finish_gelu, n, 8 * n, 0},
        {"bias, residual after a product", run_finish_residual, n, 12 * n, 0},
        {"sinusoids, 512 columns", run_sinusoids, n, 8 * n, 0},
        {"exp", run_exp, n, 8 * n, 0},
        {"softmax, 512 columns", run_softmax, n, 8 * n, 0},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        time_kernel(bench, &kernels[i], 0, seconds);
}

/* Measures attention of `rows` queries over k keys of dim_head columns. The matrices of 8 heads are side by side, as in
 * the engine. */
static void time_attend(struct bench *bench, int64_t rows, int64_t k, int64_t dim_head, bool causal, double peak,
                        double seconds)
{
    int64_t stride = 8 * dim_head;
    float *queries = aligned((size_t)(rows * stride)), *keys = aligned((size_t)(2 * k * stride));
    float *out = aligned((size_t)(rows * stride));
    char name[64];
    for (int64_t i = 0; i < rows * stride; i++)
        queries[i] = random_float();
    for (int64_t i = 0; i < 2 * k * stride; i++)
        keys[i] = random_float();
    bench->keys = (struct vector_keys){
        .k = k,
        .dim_head = dim_head,
        .dim_value = dim_head,
        .keys = keys,
        .key_stride = stride,
        .values = keys + k * stride,
        .value_stride = stride,
    };
    bench->packed = aligned((size_t)vector_packed_keys(k, dim_head, dim_head));
    bench->attend = (struct vector_attend){
        .rows = rows,
        .k = k,
        .dim_head = dim_head,
        .dim_value = dim_head,
        .queries = queries,
        .query_stride = stride,
        .packed = bench->packed,
        .scale = 0.125f,
        .causal = causal,
        .out = out,
        .out_stride = stride,
        .scratch = aligned((size_t)vector_attend_scratch(dim_head, dim_head)),
    };
    const double moved = 2.0 * (double)(k * dim_head);
    snprintf(name, sizeof name, "pack keys, values %lld x %lld", (long long)k, (long long)dim_head);
    time_kernel(bench, &(struct kernel){name, run_pack_keys, moved, 8 * moved, 0}, peak, seconds);
    snprintf(name, sizeof name, "attend %lld x %lld x %lld%s", (long long)rows, (long long)k, (long long)dim_head,
             causal ? ", causal" : "");
    int64_t scores = rows * k;
    for (int64_t r = 0; causal && r < rows; r++) /* subtracts the keys that a row does not see */
        scores -= r + 1 < k ? k - r - 1 : 0;
    time_kernel(bench, &(struct kernel){name, run_attend, 0, 0, 4.0 * (double)(scores * dim_head)}, peak, seconds);
    free(bench->attend.scratch);
    free(bench->packed);
    free(queries);
    free(keys);
    free(out);
}

static void time_functions(const struct vector_functions *functions, double peak, double seconds)
{
    struct bench bench = {.vector = functions};
    float **operands[] = {&bench.x, &bench.y, &bench.z, &bench.gain, &bench.bias};
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        *operands[i] = aligned(ROWS * COLUMNS);
        for (int j = 0; j < ROWS * COLUMNS; j++)
            (*operands[i])[j] = random_float() * 3;
    }
    printf("%s: multiply-add %.1f GFLOP/s\n", bench.vector->name, peak / 1e9);
    time_rows(&bench, seconds);
    time_attend(&bench, 128, 256, 64, false, peak, seconds);
    time_attend(&bench, 128, 128, 32, false, peak, seconds);
    time_attend(&bench, 128, 1024, 64, false, peak, seconds);
    time_attend(&bench, 128, 8192, 64, false, peak, seconds);
    time_attend(&bench, 1, 256, 64, false, peak, seconds);
    time_attend(&bench, 128, 128, 64, true, peak, seconds);
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        free(*operands[i]);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 0.1;
    random_seed(1);
#ifdef __x86_64__
    if (cpu_has_bf16())
        time_functions(vector_functions_of_bf16(), peak_flops(multiply_add_bf16, 4.0 * SUMS * 16), seconds);
#endif
    for (int i = SET_AVX512; i < SET_COUNT; i++) {
        enum instruction_set set;
        struct error error;
        if (instruction_set_choose((enum instruction_set)i, &set, &error) == 0 && vector_functions_of(set))
            time_functions(vector_functions_of(set),
                           peak_flops(multiply_adds[set].loop, 2.0 * SUMS * multiply_adds[set].lanes), seconds);
    }
    return 0;
}
