/* Which thread of a warp holds which elements of a matrix. The test compares the functions of engine/cuda/tensor.h and
 * split_tile.h with NVIDIA's library CuTe. The program is compiled for the shim, and by nvcc for the PTX emulator. The
 * test therefore also checks the layouts in the shim and in the emulator, and the operands of the engine's
 * instructions. All numbers are small integers, so all sums are exact. */
#include "engine/cuda/split_tile.h"
#include "tests/cuda/fragments/layouts.h"
#include "tests/cuda/launch.h"
#include "tests/cuda/schedules.h"

#include <stdlib.h>
#include <string.h>

/* ---- Products ---- */

struct registers {
    uint32_t a[WARP][4], b[WARP][2];
    float d[WARP][4];
};

static __device__ void add_product(bf16, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    multiply_add<bf16>(d, a, b0, b1);
}

static __device__ void add_product(f16, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    multiply_add<f16>(d, a, b0, b1);
}

static __device__ void add_product(float, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    multiply_add_tf32(d, a, b0, b1);
}

/* T is float for TF32. */
template <typename T> static __global__ void multiply(struct registers *registers)
{
    uint32_t a[4];
    float d[4];
    for (int i = 0; i < 4; i++) {
        a[i] = registers->a[warp_thread()][i];
        d[i] = registers->d[warp_thread()][i];
    }
    add_product(T(), d, a, registers->b[warp_thread()][0], registers->b[warp_thread()][1]);
    for (int i = 0; i < 4; i++)
        registers->d[warp_thread()][i] = d[i];
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint32_t bf16_bits(float x)
{
    return bits_of(x) >> 16;
}

/* Returns the bits in f16 of 0, or of a positive number that is normal in f16. */
static uint32_t f16_bits(float x)
{
    return x == 0 ? 0 : (bits_of(x) >> 13) - ((127 - 15) << 10);
}

/* The formats, in the order of enum instruction. */
static const struct format {
    const char *name;
    void (*multiply)(struct registers *);
    uint32_t (*bits)(float);
    int depth, in_register; /* number of columns of A, and number of elements in a register */
} formats[] = {
    {"bf16", multiply<bf16>, bf16_bits, 16, 2},
    {"f16", multiply<f16>, f16_bits, 16, 2},
    {"tf32", multiply<float>, bits_of, 8, 1},
};

/* Matrices that are large enough for each instruction. */
struct matrices {
    float a[16][16], b[16][8], d[16][8];
};

/* Writes an operand to the registers of all threads. CuTe gives the places of the elements. */
template <int COLUMNS, int REGISTERS>
static void place_operand(enum instruction instruction, enum fragment_operand operand,
                          const float (&matrix)[16][COLUMNS], uint32_t (&registers)[WARP][REGISTERS])
{
    const struct format *format = &formats[instruction];
    assert_int_equal(layout_elements(instruction, operand), REGISTERS * format->in_register);
    memset(registers, 0, sizeof registers);
    for (int thread = 0; thread < WARP; thread++)
        for (int i = 0; i < REGISTERS * format->in_register; i++) {
            struct fragment_place at = layout_place(instruction, operand, thread, i);
            registers[thread][i / format->in_register] |= format->bits(matrix[at.row][at.column])
                                                          << i % format->in_register * 16;
        }
}

/* Computes d += a b with the instruction. Returns whether all registers agree with CuTe. */
static bool is_product(enum instruction instruction, const struct matrices *m)
{
    struct registers registers;
    place_operand(instruction, OPERAND_A, m->a, registers.a);
    place_operand(instruction, OPERAND_B, m->b, registers.b);
    assert_int_equal(layout_elements(instruction, OPERAND_D), 4);
    for (int thread = 0; thread < WARP; thread++)
        for (int i = 0; i < 4; i++) {
            struct fragment_place at = layout_place(instruction, OPERAND_D, thread, i);
            registers.d[thread][i] = m->d[at.row][at.column];
        }
    void *memory = to_device(&registers, sizeof registers);
    launch_block(formats[instruction].multiply, WARP, 0, (struct registers *)memory);
    to_host(&registers, memory, sizeof registers);
    for (int thread = 0; thread < WARP; thread++)
        for (int i = 0; i < 4; i++) {
            struct fragment_place at = layout_place(instruction, OPERAND_D, thread, i);
            float expected = m->d[at.row][at.column];
            for (int l = 0; l < formats[instruction].depth; l++)
                expected += m->a[at.row][l] * m->b[l][at.column];
            if (registers.d[thread][i] != expected)
                return false;
        }
    return true;
}

/* Fills each matrix with different integers. Those of A and B are at most 256, and exact in each format. */
static void number_elements(struct matrices *m)
{
    for (int i = 0; i < 16 * 16; i++)
        m->a[i / 16][i % 16] = (float)(i + 1);
    for (int i = 0; i < 16 * 8; i++) {
        m->b[i / 8][i % 8] = (float)(i + 1);
        m->d[i / 8][i % 8] = (float)(1000 + i);
    }
}

/* One element of A or B is 1, and the other elements of this operand are 0. The result shows the element's row and
 * column, because all elements of the other operand differ. */
static void check_products(enum instruction instruction)
{
    int depth = formats[instruction].depth;
    for (int i = 0; i < 16 * depth; i++) {
        struct matrices m = {};
        number_elements(&m);
        memset(m.a, 0, sizeof m.a);
        m.a[i / depth][i % depth] = 1;
        if (!is_product(instruction, &m))
            fail_msg("%s: wrong product of element (%d, %d) of A", formats[instruction].name, i / depth, i % depth);
    }
    for (int i = 0; i < depth * 8; i++) {
        struct matrices m = {};
        number_elements(&m);
        memset(m.b, 0, sizeof m.b);
        m.b[i / 8][i % 8] = 1;
        if (!is_product(instruction, &m))
            fail_msg("%s: wrong product of element (%d, %d) of B", formats[instruction].name, i / 8, i % 8);
    }
}

static void products_of_bf16_have_the_layout_of_cute(void **)
{
    check_products(MMA_BF16);
}

static void products_of_f16_have_the_layout_of_cute(void **)
{
    check_products(MMA_F16);
}

static void products_of_tf32_have_the_layout_of_cute(void **)
{
    check_products(MMA_TF32);
}

/* ---- ldmatrix ---- */

template <bool TRANSPOSED> static __global__ void load_rows(const uint16_t *rows, uint32_t *fragments)
{
    uint16_t(*shared)[8] = (uint16_t(*)[8])dynamic_shared_memory;
    uint32_t fragment[4];
    for (int i = 0; i < 8; i++)
        shared[warp_thread()][i] = rows[warp_thread() * 8 + i];
    __syncwarp();
    if (TRANSPOSED)
        load_matrices_transposed(fragment, shared[warp_thread()]);
    else
        load_matrices(fragment, shared[warp_thread()]);
    for (int i = 0; i < 4; i++)
        fragments[warp_thread() * 4 + i] = fragment[i];
}

static void check_loads(bool transposed)
{
    uint16_t rows[WARP][8];
    uint32_t fragments[WARP][4] = {};
    for (int i = 0; i < WARP * 8; i++)
        rows[i / 8][i % 8] = (uint16_t)(i * 251 + 3);
    void *from = to_device(rows, sizeof rows), *to = to_device(fragments, sizeof fragments);
    launch_block(transposed ? load_rows<true> : load_rows<false>, WARP, sizeof rows, (uint16_t *)from, (uint32_t *)to);
    to_host(fragments, to, sizeof fragments);
    cudaFree(from);
    for (int thread = 0; thread < WARP; thread++)
        for (int i = 0; i < 8; i++) {
            struct fragment_place at = layout_loaded(transposed, thread, i);
            assert_in_range(at.row, 0, WARP - 1);
            if ((uint16_t)(fragments[thread][i / 2] >> i % 2 * 16) != rows[at.row][at.column])
                fail_msg("thread %d: element %d is not (%d, %d)", thread, i, at.row, at.column);
        }
}

static void loaded_fragments_have_the_layout_of_cute(void **)
{
    check_loads(false);
}

static void transposed_fragments_have_the_layout_of_cute(void **)
{
    check_loads(true);
}

/* ---- Fragments of floats in split_tile.h ---- */

#define LINES 64
#define LINE 32 /* number of the first line of a fragment */
#define DEPTH 8 /* number of a fragment's first element within each line */

struct split_fragments {
    struct split<4> a[WARP], b[WARP];
};

/* Element l of line i is i * split_depth<LINES> + l + 1. These numbers are at most 2048, so they are exact in TF32. */
template <bool ALONG> static __device__ void number_lines(struct split_lines<LINES, ALONG> *x)
{
    for (int i = warp_thread(); i < LINES * split_depth<LINES>; i += WARP) {
        int line = i / split_depth<LINES>, l = i % split_depth<LINES>;
        (ALONG ? x->of[line][l] : x->of[l][line]) = (float)(i + 1);
    }
    __syncwarp();
}

template <bool ALONG> static __global__ void load_fragments(struct split_fragments *to)
{
    struct split_lines<LINES, ALONG> *x = (struct split_lines<LINES, ALONG> *)dynamic_shared_memory;
    number_lines(x);
    split_load_a(&to->a[warp_thread()], x, LINE, DEPTH);
    split_load_b(&to->b[warp_thread()], x, LINE, DEPTH);
}

static void check_part(const struct split<4> &fragment, int i, int line, int l)
{
    assert_int_equal(fragment.high[i], bits_of((float)(line * split_depth<LINES> + l + 1)));
    assert_int_equal(fragment.low[i], 0);
}

/* A fragment of B has two registers. Two fragments with 8 columns each are loaded at a time. */
template <bool ALONG> static void check_fragments(void)
{
    struct split_fragments fragments = {};
    void *memory = to_device(&fragments, sizeof fragments);
    launch_block(load_fragments<ALONG>, WARP, sizeof(struct split_lines<LINES, ALONG>),
                 (struct split_fragments *)memory);
    to_host(&fragments, memory, sizeof fragments);
    for (int thread = 0; thread < WARP; thread++)
        for (int i = 0; i < 4; i++) {
            struct fragment_place a = layout_place(MMA_TF32, OPERAND_A, thread, i);
            struct fragment_place b = layout_place(MMA_TF32, OPERAND_B, thread, i % 2);
            check_part(fragments.a[thread], i, LINE + a.row, DEPTH + a.column);
            check_part(fragments.b[thread], i, LINE + i / 2 * 8 + b.column, DEPTH + b.row);
        }
}

static void fragments_of_split_lines_have_the_layout_of_cute(void **)
{
    check_fragments<true>();
    check_fragments<false>();
}

/* Each warp writes its (LINES / 2, LINES / 4) results of the tile. */
static __global__ void give_sums(float *tile)
{
    struct split_sums<LINES> sums = {
    };
    for (int i = 0; i < LINES / 32; i++)
        for (int n = 0; n < LINES / 32; n++)
            for (int j = 0; j < 4; j++)
                sums.large[i][n][j] = (float)((((int)threadIdx.x * (LINES / 32) + i) * (LINES / 32) + n) * 4 + j);
    split_give(sums, [&](int row, int column, float first, float second) {
        tile[row * LINES + column] = first;
        tile[row * LINES + column + 1] = second;
    });
}

static void results_of_split_tiles_are_at_the_layouts_places(void **)
{
    static float tile[LINES][LINES];
    memset(tile, 0xff, sizeof tile);
    void *memory = to_device(tile, sizeof tile);
    launch_block(give_sums, SPLIT_WARPS * WARP, 0, (float *)memory);
    to_host(tile, memory, sizeof tile);
    for (int i = 0; i < SPLIT_WARPS * WARP * LINES / 32 * LINES / 32 * 4; i++) {
        int j = i % 4, n = i / 4 % (LINES / 32), line = i / 4 / (LINES / 32) % (LINES / 32);
        int thread = i / 4 / (LINES / 32) / (LINES / 32), warp = thread / WARP;
        struct fragment_place at = layout_place(MMA_TF32, OPERAND_D, thread % WARP, j);
        int row = warp / 4 * (LINES / 2) + line * 16 + at.row, column = warp % 4 * (LINES / 4) + n * 8 + at.column;
        if (tile[row][column] != (float)i)
            fail_msg("thread %d: result %d is not at (%d, %d)", thread, i % 16, row, column);
    }
}

static int run_fragments(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_bf16_have_the_layout_of_cute),
        cmocka_unit_test(products_of_f16_have_the_layout_of_cute),
        cmocka_unit_test(products_of_tf32_have_the_layout_of_cute),
        cmocka_unit_test(loaded_fragments_have_the_layout_of_cute),
        cmocka_unit_test(transposed_fragments_have_the_layout_of_cute),
        cmocka_unit_test(fragments_of_split_lines_have_the_layout_of_cute),
        cmocka_unit_test(results_of_split_tiles_are_at_the_layouts_places),
    };
    return cmocka_run_group_tests_name("fragments", tests, open_stream, close_stream);
}

int main(void)
{
    return run_schedules(run_fragments);
}
