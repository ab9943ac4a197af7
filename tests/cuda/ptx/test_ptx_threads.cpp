/* Instructions with which threads exchange data, synchronise and access memory. The expected results follow from the
 * definitions in the manual (PTX ISA). Quotes in comments are titles of its sections. */
#include "tests/cuda/ptx/launching.h"

#include <bit>
#include <cmath>

uint32_t device_words[DEVICE_WORDS];

namespace
{
const char STORE[] = "st.global.u32 [%mine], %r0;";

void clear()
{
    for (uint32_t i = 0; i < DEVICE_WORDS; i++)
        device_words[i] = i;
}

void run_body(const std::string &body, const launch_shape &shape = {}, const std::string &before = "")
{
    clear();
    launch_text(kernel_of(body, before), shape);
}

/* "shfl.sync": the clamp is 0 for mode up, and 31 for the other modes. (32 - W) << 8 divides the warp into segments of
 * W lanes. */
void shuffle_instructions_exchange_values_within_a_warp(void **)
{
    run_body(std::string("shfl.sync.bfly.b32 %r0, %thread, 5, 31, -1;") + STORE);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(device_words[i], i ^ 5);
    run_body(std::string("shfl.sync.up.b32 %r0|%p0, %thread, 3, 0, -1; @!%p0 add.s32 %r0, %r0, 100;") + STORE);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(device_words[i], i < 3 ? i + 100 : i - 3);
    run_body(std::string("shfl.sync.down.b32 %r0|%p0, %thread, 3, 0x181f, -1; @!%p0 add.s32 %r0, %r0, 100;") + STORE);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(device_words[i], i % 8 < 5 ? i + 3 : i + 100);
    run_body(std::string("shfl.sync.idx.b32 %r0, %thread, 2, 0x181f, -1;") + STORE);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(device_words[i], i / 8 * 8 + 2);
    /* lane 20 does not take part, so the result is undefined. The emulator sets all bits */
    run_body(std::string(
                 "mov.u32 %r0, 7; setp.lt.s32 %p0, %thread, 16; @%p0 shfl.sync.idx.b32 %r0, %thread, 20, 31, 0xffff;") +
             STORE);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(device_words[i], i < 16 ? ~0u : 7);
}

void vote_instructions_combine_the_threads_of_a_warp(void **)
{
    run_body(std::string("setp.gt.s32 %p0, %thread, 29; vote.sync.ballot.b32 %r0, %p0, -1;") + STORE);
    assert_int_equal(device_words[5], 0xc0000000);
    run_body(
        std::string("setp.gt.s32 %p0, %thread, 30; vote.sync.any.pred %p1, %p0, -1; vote.sync.all.pred %p2, %p0, -1;"
                    "vote.sync.uni.pred %p3, %p0, -1; selp.u32 %r0, 1, 0, %p1; @%p2 add.s32 %r0, %r0, 2;"
                    "@%p3 add.s32 %r0, %r0, 4;") +
        STORE);
    assert_int_equal(device_words[5], 1);
    run_body(std::string("redux.sync.add.s32 %r0, %thread, -1;") + STORE);
    assert_int_equal(device_words[5], 31 * 32 / 2);
    run_body(std::string("setp.gt.s32 %p0, %thread, 3; mov.u32 %r0, 0; @%p0 bra end; activemask.b32 %r0; end:") +
             STORE);
    assert_int_equal(device_words[2], 15);
    assert_int_equal(device_words[4], 0);
}

/* Thread i adds up 1 … i in i iterations. Afterwards, all lanes must execute the vote together. */
void diverged_paths_converge(void **)
{
    for (unsigned seed = 0; seed < 4; seed++) {
        const launch_shape shape = {128, 1, seed};
        run_body(std::string("mov.u32 %r0, 0; mov.u32 %r1, 0;\n"
                             "next: setp.ge.u32 %p0, %r1, %thread; @%p0 bra done;\n"
                             "add.s32 %r1, %r1, 1; add.s32 %r0, %r0, %r1; bra.uni next;\n"
                             "done: vote.sync.ballot.b32 %r2, 1, -1; setp.ne.s32 %p1, %r2, -1; @%p1 trap;") +
                     STORE,
                 shape);
        for (uint32_t i = 0; i < 128; i++)
            assert_int_equal(device_words[i], i * (i + 1) / 2);
    }
}

void barriers_order_warps(void **)
{
    for (unsigned seed = 0; seed < 5; seed++) {
        const launch_shape shape = {256, 2, seed, 1024};
        run_body(
            std::string(
                "mov.u32 %r1, dynamic; shl.b32 %r2, %thread, 2; add.s32 %r2, %r1, %r2;\n"
                "st.shared.u32 [%r2], %thread; bar.sync 0; xor.b32 %r3, %thread, 255; shl.b32 %r3, %r3, 2;\n"
                "add.s32 %r3, %r1, %r3; ld.shared.u32 %r0, [%r3];\n"
                "mov.u32 %r4, %ctaid.x; mad.lo.s32 %r0, %r4, 1000, %r0; mul.wide.u32 %l0, %r4, 1024; add.s64 %mine, "
                "%mine, %l0;") +
                STORE,
            shape, ".extern .shared .align 128 .b8 dynamic[];");
        for (uint32_t i = 0; i < 512; i++)
            assert_int_equal(device_words[i], i / 256 * 1000 + (255 - i % 256));
    }
}

void atomic_instructions_lose_no_update(void **)
{
    const launch_shape shape = {64, 2, 1};
    run_body("atom.global.add.u32 %r0, [%data], 1; red.global.max.u32 [%data + 4], %thread;\n"
             "atom.global.cas.b32 %r1, [%data + 8], 2, 77; atom.global.exch.b32 %r2, [%data + 12], %thread;\n"
             "atom.global.inc.u32 %r3, [%data + 16], 4; red.global.add.f32 [%data + 20], 0f3F800000;",
             shape);
    assert_int_equal(device_words[0], 128);
    assert_int_equal(device_words[1], 63);
    assert_int_equal(device_words[2], 77);
    assert_true(device_words[3] < 64);
    assert_int_equal(device_words[4], (4 + 128) % 5);                   /* the counter wraps around from 4 to 0 */
    assert_int_equal(device_words[5], std::bit_cast<uint32_t>(128.0f)); /* the initial word, 5, is a subnormal float and
                                                                           too small to change the sum */
}

void loads_and_stores_reach_their_memory(void **)
{
    run_body(
        std::string("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%data + 16]; st.global.v2.u32 [%data + 4096], {%r4, %r1};"
                    "ld.global.s8 %r5, [%data + 1023]; st.global.u8 [%data + 4104], 255; mov.u32 %r0, %r5;"));
    assert_int_equal(device_words[1024], 7);
    assert_int_equal(device_words[1025], 4);
    assert_int_equal(device_words[1026], 1026 | 255);
    /* each thread accesses its own local memory, with local and with generic addresses */
    run_body(std::string(".local .align 8 .b8 mine[16]; mov.u64 %l0, mine; cvta.local.u64 %l1, %l0;\n"
                         "st.local.u32 [%l0 + 4], %thread; ld.u32 %r0, [%l1 + 4]; ld.local.u32 %r1, [%l0];\n"
                         "setp.ne.s32 %p0, %r1, -1; @%p0 trap;") +
             STORE);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(device_words[i], i);
    run_body(std::string("mov.u64 %l0, table; add.s64 %l0, %l0, %thread64; ld.global.u8 %r0, [%l0];") + STORE, {4},
             ".global .align 4 .b8 table[4] = {9, 8, 0x7, 255};");
    assert_int_equal(device_words[0], 9);
    assert_int_equal(device_words[3], 255);
    /* shared memory begins with all bits set in every block. Generic addresses can access it */
    run_body(std::string("mov.u32 %r1, small; cvt.u64.u32 %l0, %r1; cvta.shared.u64 %l1, %l0; ld.u32 %r0, [%l1 + 8];\n"
                         "st.shared.u32 [%r1 + 8], 1;") +
                 STORE,
             {32, 2}, ".shared .align 16 .b8 small[64];");
    assert_int_equal(device_words[0], ~0u);
    /* a register that was never written, a parameter by an address in a register, scopes that redeclare a register */
    run_body(std::string("mov.u64 %l0, test_param_0; ld.param.u64 %l1, [%l0]; setp.ne.s64 %p0, %l1, %data; @%p0 trap;\n"
                         "{ .reg .b32 %r9; mov.u32 %r9, 5; { .reg .b32 %r9; mov.u32 %r9, 6; } mov.u32 %r10, %r9; }\n"
                         "add.s32 %r0, %r9, %r10;") +
             STORE);
    assert_int_equal(device_words[0], 4); /* %r9 was never written and is -1, %r10 is 5 */
}

/* "cp.async": the data arrives at the wait for its group, not before. If the source is shorter than the destination,
 * the rest becomes 0. */
void copies_arrive_at_their_wait(void **)
{
    run_body(
        "mov.u32 %r0, dynamic; shl.b32 %r1, %thread, 5; add.s32 %r0, %r0, %r1; shl.b64 %l0, %thread64, 5; add.s64 %l0, "
        "%data, %l0;\n"
        "cp.async.cg.shared.global [%r0], [%l0], 16; cp.async.commit_group;\n"
        "cp.async.ca.shared.global [%r0 + 16], [%l0 + 16], 8, 4; cp.async.commit_group;\n"
        "ld.shared.u32 %r2, [%r0]; cp.async.wait_group 1; ld.shared.u32 %r3, [%r0]; ld.shared.u32 %r4, [%r0 + 16];\n"
        "cp.async.wait_group 0; ld.shared.v2.u32 {%r5, %r6}, [%r0 + 16];\n"
        "st.global.v4.u32 [%l0 + 8192], {%r2, %r3, %r4, %r5}; st.global.u32 [%l0 + 8208], %r6;",
        {32, 1, 0, 1024}, ".extern .shared .align 128 .b8 dynamic[];");
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t *seen = device_words + 2048 + i * 8;
        assert_int_equal(seen[0], ~0u);
        assert_int_equal(seen[1], i * 8);
        assert_int_equal(seen[2], ~0u);
        assert_int_equal(seen[3], i * 8 + 4);
        assert_int_equal(seen[4], 0);
    }
}

/* "ldmatrix": thread t receives the elements at columns 2 (t % 4) and 2 (t % 4) + 1 of row t / 4. With .trans, rows and
 * columns are exchanged. */
void ldmatrix_distributes_matrices_over_the_warp(void **)
{
    for (int transposed = 0; transposed < 2; transposed++) {
        run_body(
            std::string("mov.u32 %r0, dynamic; shl.b32 %r1, %thread, 4; add.s32 %r0, %r0, %r1;\n"
                        "mov.u32 %r2, 0; loop: shl.b32 %r3, %thread, 3; add.s32 %r3, %r3, %r2; cvt.u16.u32 %h0, %r3;\n"
                        "shl.b32 %r4, %r2, 1; add.s32 %r4, %r0, %r4; st.shared.u16 [%r4], %h0; add.s32 %r2, %r2, 1;\n"
                        "setp.lt.s32 %p0, %r2, 8; @%p0 bra loop;\nldmatrix.sync.aligned.m8n8.x4") +
                (transposed ? ".trans" : "") +
                ".shared.b16 {%r5, %r6, %r7, %r8}, [%r0]; shl.b64 %l0, %thread64, 4; add.s64 %l0, %data, %l0;\n"
                "st.global.v4.u32 [%l0], {%r5, %r6, %r7, %r8};",
            {32, 1, 0, 512}, ".extern .shared .align 128 .b8 dynamic[];");
        for (uint32_t t = 0; t < 32; t++)
            for (uint32_t m = 0; m < 4; m++)
                for (uint32_t u = 0; u < 2; u++) {
                    uint32_t row = transposed ? t % 4 * 2 + u : t / 4, column = transposed ? t / 4 : t % 4 * 2 + u;
                    assert_int_equal(device_words[t * 4 + m] >> u * 16 & 0xffff, m * 64 + row * 8 + column);
                }
    }
}

/* The row and the column of element i of a thread. The formulas come from the tables "Matrix fragments for
 * mma.m16n8k16" and "mma.m16n8k8" of the manual. */
struct place {
    unsigned row, column;
};

place of_a(unsigned thread, unsigned i, bool tf32)
{
    unsigned group = thread >> 2, in_group = thread % 4;
    if (tf32)
        return {i == 0 || i == 2 ? group : group + 8, i < 2 ? in_group : in_group + 4};
    return {i < 2 || (i >= 4 && i < 6) ? group : group + 8, in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}

place of_b(unsigned thread, unsigned i, bool tf32)
{
    unsigned group = thread >> 2, in_group = thread % 4;
    if (tf32)
        return {i == 0 ? in_group : in_group + 4, group};
    return {in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0), group};
}

place of_c(unsigned thread, unsigned i)
{
    return {i < 2 ? thread >> 2 : (thread >> 2) + 8, thread % 4 * 2 + (i & 1)};
}

float a_at(place p)
{
    return (float)((int)(p.row * 7 + p.column * 3) % 11 - 5);
}

float b_at(place p)
{
    return (float)((int)(p.row * 5 + p.column) % 7 - 3);
}

uint16_t half_of(float x, bool is_bf16) /* x is a small whole number, which both formats represent */
{
    uint32_t bits = std::bit_cast<uint32_t>(x), size = bits & 0x7fffffff;
    if (is_bf16)
        return (uint16_t)(bits >> 16);
    return (uint16_t)(size ? (bits >> 16 & 0x8000) | (size - (112u << 23)) >> 13 : 0);
}

void mma_instructions_compute_exact_products(void **)
{
    const char *const types[] = {"m16n8k16.row.col.f32.bf16.bf16.f32", "m16n8k16.row.col.f32.f16.f16.f32",
                                 "m16n8k8.row.col.f32.tf32.tf32.f32"};
    for (unsigned type = 0; type < 3; type++) {
        bool tf32 = type == 2;
        clear();
        for (unsigned t = 0; t < 32; t++) {
            uint32_t *words = device_words + t * 16;
            for (unsigned i = 0; i < 4; i++) {
                const unsigned lower = i * 2, upper = i * 2 + 1;
                /* sets the bits that TF32 ignores */
                uint32_t a = std::bit_cast<uint32_t>(a_at(of_a(t, i, true))) | 0x1fff;
                uint32_t b = i < 2 ? std::bit_cast<uint32_t>(b_at(of_b(t, i, true))) | 0x1fff : 0;
                words[i] = tf32 ? a
                                : half_of(a_at(of_a(t, lower, false)), type == 0) |
                                      (uint32_t)half_of(a_at(of_a(t, upper, false)), type == 0) << 16;
                if (i < 2)
                    words[4 + i] = tf32 ? b
                                        : half_of(b_at(of_b(t, lower, false)), type == 0) |
                                              (uint32_t)half_of(b_at(of_b(t, upper, false)), type == 0) << 16;
                words[8 + i] = std::bit_cast<uint32_t>((float)(of_c(t, i).row * 100 + of_c(t, i).column));
            }
        }
        launch_text(kernel_of(
            std::string("shl.b64 %l0, %thread64, 6; add.s64 %l0, %data, %l0;\n"
                        "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%l0]; ld.global.v2.u32 {%r4, %r5}, [%l0 + 16];\n"
                        "ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%l0 + 32];\nmma.sync.aligned.") +
            types[type] +
            " {%r6, %r7, %r8, %r9}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7, %r8, %r9};\n"
            "st.global.v4.u32 [%l0 + 32], {%r6, %r7, %r8, %r9};"));
        for (unsigned t = 0; t < 32; t++)
            for (unsigned i = 0; i < 4; i++) {
                place p = of_c(t, i);
                float sum = (float)(p.row * 100 + p.column);
                for (unsigned k = 0; k < (tf32 ? 8u : 16u); k++)
                    sum += a_at({p.row, k}) * b_at({k, p.column});
                assert_int_equal(device_words[t * 16 + 8 + i], std::bit_cast<uint32_t>(sum));
            }
    }
}
} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffle_instructions_exchange_values_within_a_warp),
        cmocka_unit_test(vote_instructions_combine_the_threads_of_a_warp),
        cmocka_unit_test(diverged_paths_converge),
        cmocka_unit_test(barriers_order_warps),
        cmocka_unit_test(atomic_instructions_lose_no_update),
        cmocka_unit_test(loads_and_stores_reach_their_memory),
        cmocka_unit_test(copies_arrive_at_their_wait),
        cmocka_unit_test(ldmatrix_distributes_matrices_over_the_warp),
        cmocka_unit_test(mma_instructions_compute_exact_products),
    };
    return cmocka_run_group_tests_name("threads and memory in PTX", tests, NULL, NULL);
}
