/* Instructions whose result in a lane depends only on this lane. The expected results follow from the definitions in
 * the manual (PTX ISA), or from IEEE 754. Each instruction runs in a whole warp, and in a warp with a single lane. */
#include "tests/cuda/ptx/launching.h"

#include <bit>
#include <cmath>

uint32_t device_words[DEVICE_WORDS];

namespace
{
constexpr uint64_t NAN32 = 0x7fffffff, INF = 0x7f800000, ONE = 0x3f800000, NEGATIVE = 0x80000000;

/* The instruction `text` reads a, b and c from registers 0, 1 and 2, and writes register 3. The registers are %r with
 * 32 bits, %l with 64 bits, %h with 16 bits, or predicates %p. A predicate is true if the operand is not 0. */
struct example {
    const char *text;
    uint64_t a, b, c, result;
};

uint64_t bits_of(float x)
{
    return std::bit_cast<uint32_t>(x);
}

std::string kernel_of_example(const char *text)
{
    const char *result = strstr(text, "%r3")   ? "cvt.u64.u32 %l3, %r3;\n"
                         : strstr(text, "%h3") ? "cvt.u64.u16 %l3, %h3;\n"
                         : strstr(text, "%p3") ? "selp.u64 %l3, 1, 0, %p3;\n"
                                               : "";
    std::string body = "ld.global.v2.u64 {%l0, %l1}, [%data];\nld.global.u64 %l2, [%data + 16];\n";
    for (const char *n : {"0", "1", "2"})
        body += std::string("cvt.u32.u64 %r") + n + ", %l" + n + ";\ncvt.u16.u64 %h" + n + ", %l" + n +
                ";\nsetp.ne.s64 %p" + n + ", %l" + n + ", 0;\n";
    return kernel_of(body + text + "\n" + result +
                     "shl.b64 %l4, %thread64, 3;\nadd.s64 %l4, %data, %l4;\nst.global.u64 [%l4 + 64], %l3;");
}

void check_example(const example &e)
{
    const unsigned threads = 33;
    uint64_t operands[] = {e.a, e.b, e.c}, results[threads];
    memcpy(device_words, operands, sizeof operands);
    launch_shape shape;
    shape.threads = threads;
    launch_text(kernel_of_example(e.text), shape);
    memcpy(results, device_words + 16, sizeof results);
    for (unsigned thread = 0; thread < threads; thread++)
        if (results[thread] != e.result)
            fail_msg("%s of 0x%llx, 0x%llx, 0x%llx: thread %u has 0x%llx, expected 0x%llx", e.text,
                     (unsigned long long)e.a, (unsigned long long)e.b, (unsigned long long)e.c, thread,
                     (unsigned long long)results[thread], (unsigned long long)e.result);
}

template <size_t n> void check_examples(const example (&examples)[n])
{
    for (const example &e : examples)
        check_example(e);
}

void integer_instructions_have_the_listed_results(void **)
{
    const example examples[] = {
        {"add.s32 %r3, %r0, %r1;", 0x7fffffff, 1, 0, 0x80000000},
        {"add.s64 %l3, %l0, -1;", 0, 0, 0, ~0ull},
        {"add.u16 %h3, %h0, %h1;", 0xffff, 2, 0, 1},
        {"add.s16 %h3, %h0, %h1;", 0x7fff, 1, 0, 0x8000},
        {"sub.s32 %r3, %r0, %r1;", 1, 2, 0, 0xffffffff},
        {"sub.s16 %h3, %h0, %h1;", 1, 2, 0, 0xffff},
        {"mul.lo.s32 %r3, %r0, %r1;", 0x10001, 0x10001, 0, 0x20001},
        {"mul.lo.s16 %h3, %h0, %h1;", 0xffff, 0x101, 0, 0xfeff},
        {"mul.hi.u16 %h3, %h0, %h1;", 0xffff, 0xffff, 0, 0xfffe},
        {"mul.hi.s32 %r3, %r0, %r1;", 0xffffffff, 2, 0, 0xffffffff},
        {"mul.hi.u32 %r3, %r0, %r1;", 0xffffffff, 2, 0, 1},
        {"mul.hi.s64 %l3, %l0, %l1;", ~0ull, 3, 0, ~0ull},
        {"mul.wide.s32 %l3, %r0, %r1;", 0xffffffff, 2, 0, ~1ull},
        {"mul.wide.u32 %l3, %r0, %r1;", 0xffffffff, 2, 0, 0x1fffffffe},
        {"mul.wide.s16 %r3, %h0, %h1;", 0xffff, 2, 0, 0xfffffffe},
        {"mul.wide.u16 %r3, %h0, %h1;", 0xffff, 0xffff, 0, 0xfffe0001},
        {"mad.lo.s32 %r3, %r0, %r1, %r2;", 7, 6, 0xffffffff, 41},
        {"mad.lo.s64 %l3, %l0, %l1, %l2;", 1ull << 32, 3, ~0ull, (3ull << 32) - 1},
        {"mad.wide.u32 %l3, %r0, %r1, %l2;", 0xffffffff, 2, 5, 0x200000003},
        {"div.s32 %r3, %r0, %r1;", 0xfffffff9, 2, 0, 0xfffffffd},
        {"div.u32 %r3, %r0, %r1;", 0xfffffff9, 2, 0, 0x7ffffffc},
        {"div.s64 %l3, %l0, %l1;", 1ull << 63, ~0ull, 0, 1ull << 63},
        {"rem.s32 %r3, %r0, %r1;", 0xfffffff9, 2, 0, 0xffffffff},
        {"rem.u64 %l3, %l0, %l1;", 1000000000007, 10, 0, 7},
        {"neg.s32 %r3, %r0;", 5, 0, 0, 0xfffffffb},
        {"abs.s64 %l3, %l0;", ~0ull, 0, 0, 1},
        {"min.s32 %r3, %r0, %r1;", 0xffffffff, 1, 0, 0xffffffff},
        {"min.u32 %r3, %r0, %r1;", 0xffffffff, 1, 0, 1},
        {"min.u64 %l3, %l0, %l1;", ~0ull, 1, 0, 1},
        {"max.s64 %l3, %l0, %l1;", ~0ull, 1, 0, 1},
        {"max.u16 %h3, %h0, %h1;", 0xffff, 1, 0, 0xffff},
    };
    check_examples(examples);
}

void bit_instructions_have_the_listed_results(void **)
{
    const example examples[] = {
        {"and.b32 %r3, %r0, %r1;", 0xff00ff00, 0x0ff00ff0, 0, 0x0f000f00},
        {"or.b16 %h3, %h0, %h1;", 0xf0, 0xf, 0, 0xff},
        {"xor.b64 %l3, %l0, -1;", 1, 0, 0, ~1ull},
        {"not.b32 %r3, %r0;", 0xff, 0, 0, 0xffffff00},
        {"and.pred %p3, %p0, !%p1;", 1, 0, 0, 1},
        {"xor.pred %p3, %p0, %p1;", 1, 1, 0, 0},
        {"not.pred %p3, %p0;", 1, 0, 0, 0},
        {"mov.pred %p3, %p0;", 1, 0, 0, 1},
        {"shl.b32 %r3, %r0, %r1;", 1, 31, 0, 0x80000000},
        {"shl.b32 %r3, %r0, %r1;", 1, 32, 0, 0},
        {"shl.b64 %l3, %l0, %r1;", 1, 63, 0, 1ull << 63},
        {"shl.b16 %h3, %h0, %r1;", 3, 15, 0, 0x8000},
        {"shl.b16 %h3, %h0, %r1;", 1, 16, 0, 0},
        {"shr.u16 %h3, %h0, %r1;", 0x8000, 15, 0, 1},
        {"shr.u16 %h3, %h0, %r1;", 0x8000, 16, 0, 0},
        {"shr.u32 %r3, %r0, %r1;", 0x80000000, 33, 0, 0},
        {"shr.s32 %r3, %r0, %r1;", 0x80000000, 33, 0, 0xffffffff},
        {"shr.s64 %l3, %l0, %r1;", 1ull << 63, 62, 0, ~1ull},
        {"shf.l.wrap.b32 %r3, %r0, %r1, %r2;", 0x80000000, 1, 33, 3},
        {"shf.l.clamp.b32 %r3, %r0, %r1, %r2;", 0x80000000, 1, 33, 0x80000000},
        {"shf.r.wrap.b32 %r3, %r0, %r1, %r2;", 0x80000000, 1, 4, 0x18000000},
        {"shf.r.clamp.b32 %r3, %r0, %r1, %r2;", 0x80000000, 1, 40, 1},
        {"popc.b64 %r3, %l0;", 0xf0000000000000f1, 0, 0, 9},
        {"popc.b32 %r3, %r0;", 0xf00000f1, 0, 0, 9},
        {"clz.b32 %r3, %r0;", 1, 0, 0, 31},
        {"clz.b64 %r3, %l0;", 0, 0, 0, 64},
        {"brev.b32 %r3, %r0;", 6, 0, 0, 0x60000000},
        {"bfe.u32 %r3, %r0, %r1, %r2;", 0x12345678, 8, 12, 0x456},
        {"bfe.s32 %r3, %r0, %r1, %r2;", 0x00000f00, 8, 4, 0xffffffff},
        {"bfe.s32 %r3, %r0, %r1, %r2;", 0x80000000, 40, 4, 0xffffffff}, /* bits beyond a are a's sign */
        {"bfe.u64 %l3, %l0, %r1, %r2;", ~0ull, 60, 64, 15},
        {"bfi.b32 %r3, %r0, %r1, 8, 4;", 0xa, 0xffffffff, 0, 0xfffffaff},
        {"bfi.b64 %l3, %l0, %l1, 32, 32;", 0x12345678, 0x9abcdef0, 0, 0x123456789abcdef0},
        {"prmt.b32 %r3, %r0, %r1, %r2;", 0x33221100, 0x77665544, 0x7041, 0x77004411},
        {"prmt.b32 %r3, %r0, %r1, %r2;", 0x00800000, 0, 0x000a, 0x000000ff},
        {"lop3.b32 %r3, %r0, %r1, %r2, 0xe8;", 0xf0, 0xcc, 0xaa, 0xe8}, /* the majority of the three bits */
        {"mov.b64 %l3, {%r0, %r1};", 1, 2, 0, 0x200000001},
        {"mov.b64 {%r5, %r3}, %l0;", 0x200000001, 0, 0, 2},
        {"mov.b64 {_, %r3}, %l0;", 0x200000001, 0, 0, 2},
        {"mov.b32 %r3, {%h0, %h1};", 0x1234, 0x5678, 0, 0x56781234},
        {"mov.b32 {%h3, %h5}, %r0;", 0x56781234, 0, 0, 0x1234},
    };
    check_examples(examples);
}

void float_instructions_have_the_listed_results(void **)
{
    const uint64_t third = 0x3eaaaaab, least = 1, next = ONE + 1, huge = 0x7f7fffff, two = bits_of(2),
                   half = bits_of(0.5f);
    const example examples[] = {
        {"add.f32 %r3, %r0, %r1;", ONE, bits_of(0x1p-24f), 0, ONE}, /* a tie, rounded to the even number */
        {"add.rn.f32 %r3, %r0, %r1;", next, bits_of(0x1p-24f), 0, ONE + 2},
        {"add.rz.f32 %r3, %r0, %r1;", ONE, bits_of(-0x1p-40f), 0, ONE - 1},
        {"add.rp.f32 %r3, %r0, %r1;", ONE, bits_of(0x1p-40f), 0, next},
        {"add.rm.f32 %r3, %r0, %r1;", ONE, bits_of(0x1p-40f), 0, ONE},
        {"add.rm.f32 %r3, %r0, %r1;", ONE, ONE | NEGATIVE, 0, NEGATIVE},
        {"add.f32 %r3, %r0, %r1;", INF, INF | NEGATIVE, 0, NAN32},
        {"add.rz.f32 %r3, %r0, %r1;", huge, huge, 0, huge},
        {"add.f32 %r3, %r0, %r1;", huge, huge, 0, INF},
        {"add.f32 %r3, %r0, 0f3F800000;", ONE, 0, 0, two},
        {"add.ftz.f32 %r3, %r0, %r1;", least, least, 0, 0},
        {"add.f32 %r3, %r0, %r1;", least, least, 0, 2},
        {"add.sat.f32 %r3, %r0, %r1;", ONE, ONE, 0, ONE},
        {"sub.f32 %r3, %r0, %r1;", ONE, two, 0, ONE | NEGATIVE},
        {"mul.f32 %r3, %r0, %r1;", third, bits_of(3), 0, ONE},
        {"mul.rz.f32 %r3, %r0, %r1;", next, next, 0, ONE + 2},
        {"mul.rp.f32 %r3, %r0, %r1;", next, next, 0, ONE + 3},
        {"mul.ftz.f32 %r3, %r0, %r1;", 0x00800000, half | NEGATIVE, 0, NEGATIVE},
        /* (1 + 2^-23)^2 - (1 + 2^-22) = 2^-46: the product is not rounded before the sum */
        {"fma.rn.f32 %r3, %r0, %r1, %r2;", next, next, (ONE + 2) | NEGATIVE, bits_of(0x1p-46f)},
        {"fma.rm.f32 %r3, %r0, %r1, %r2;", ONE, ONE, bits_of(-0x1p-60f), ONE - 1},
        {"fma.rz.f32 %r3, %r0, %r1, %r2;", ONE | NEGATIVE, ONE, bits_of(0x1p-60f), (ONE - 1) | NEGATIVE},
        {"fma.rn.ftz.f32 %r3, %r0, %r1, %r2;", least, ONE, least, 0},
        {"div.rn.f32 %r3, %r0, %r1;", ONE, bits_of(3), 0, third},
        {"div.rz.f32 %r3, %r0, %r1;", ONE, bits_of(3), 0, third - 1},
        {"div.approx.f32 %r3, %r0, %r1;", ONE, bits_of(0x1.8p126f), 0, 0}, /* the reciprocal counts as 0 */
        {"rcp.rn.f32 %r3, %r0;", bits_of(3), 0, 0, third},
        {"rcp.approx.ftz.f32 %r3, %r0;", least | NEGATIVE, 0, 0, INF | NEGATIVE},
        {"sqrt.rn.f32 %r3, %r0;", bits_of(2.25f), 0, 0, bits_of(1.5f)},
        {"sqrt.rn.f32 %r3, %r0;", ONE | NEGATIVE, 0, 0, NAN32},
        {"rsqrt.approx.f32 %r3, %r0;", bits_of(4), 0, 0, half},
        {"ex2.approx.f32 %r3, %r0;", bits_of(-3), 0, 0, bits_of(0.125f)},
        {"ex2.approx.ftz.f32 %r3, %r0;", bits_of(-127), 0, 0, 0},
        {"ex2.approx.ftz.f32 %r3, %r0;", INF | NEGATIVE, 0, 0, 0},
        {"lg2.approx.f32 %r3, %r0;", bits_of(8), 0, 0, bits_of(3)},
        {"tanh.approx.f32 %r3, %r0;", bits_of(100), 0, 0, ONE},
        {"min.f32 %r3, %r0, %r1;", 0x7fc00000, two, 0, two},
        {"max.f32 %r3, %r0, %r1;", two, 0xffc00001, 0, two},
        {"max.NaN.f32 %r3, %r0, %r1;", two, 0xffc00001, 0, NAN32},
        {"min.f32 %r3, %r0, %r1;", 0x7fc00000, 0x7fc00000, 0, NAN32},
        {"min.f32 %r3, %r0, %r1;", 0, NEGATIVE, 0, NEGATIVE},
        {"max.f32 %r3, %r0, %r1;", NEGATIVE, 0, 0, 0},
        {"neg.f32 %r3, %r0;", 0, 0, 0, NEGATIVE},
        {"abs.f32 %r3, %r0;", INF | NEGATIVE, 0, 0, INF},
        {"copysign.f32 %r3, %r0, %r1;", NEGATIVE, two, 0, two | NEGATIVE},
        {"testp.subnormal.f32 %p3, %r0;", least, 0, 0, 1},
        {"testp.number.f32 %p3, %r0;", 0x7f800001, 0, 0, 0},
        {"mul.f64 %l3, %l0, %l1;", std::bit_cast<uint64_t>(1.5), std::bit_cast<uint64_t>(3.0), 0,
         std::bit_cast<uint64_t>(4.5)},
        {"fma.rn.f64 %l3, %l0, %l1, 0dBFF0000000000000;", std::bit_cast<uint64_t>(1 + 0x1p-52),
         std::bit_cast<uint64_t>(1 - 0x1p-52), 0, std::bit_cast<uint64_t>(-0x1p-104)},
    };
    check_examples(examples);
}

void comparisons_have_the_listed_results(void **)
{
    const uint64_t nan = 0x7fc00000, two = bits_of(2);
    const example examples[] = {
        {"setp.lt.s32 %p3, %r0, %r1;", 0xffffffff, 0, 0, 1},
        {"setp.lt.u32 %p3, %r0, %r1;", 0xffffffff, 0, 0, 0},
        {"setp.ge.u64 %p3, %l0, %l1;", 1ull << 63, 1, 0, 1},
        {"setp.eq.b32 %p3, %r0, %r1;", 0x80000000, 0x80000000, 0, 1},
        {"setp.le.s64 %p3, %l0, %l1;", 5, 5, 0, 1},
        {"setp.ge.s64 %p3, %l0, %l1;", ~0ull, 0, 0, 0},
        {"setp.eq.s16 %p3, %h0, %h1;", 0x10001, 1, 0, 1},
        {"setp.ne.b64 %p3, %l0, %l1;", 1, 1ull << 32, 0, 1},
        {"setp.hi.u32 %p3, %r0, %r1;", 2, 1, 0, 1},
        {"setp.lt.f32 %p3, %r0, %r1;", ONE, two, 0, 1},
        {"setp.lt.f32 %p3, %r0, %r1;", nan, two, 0, 0},
        {"setp.ltu.f32 %p3, %r0, %r1;", nan, two, 0, 1},
        {"setp.geu.f32 %p3, %r0, %r1;", ONE, two, 0, 0},
        {"setp.ne.f32 %p3, %r0, %r1;", nan, two, 0, 0},
        {"setp.neu.f32 %p3, %r0, %r1;", nan, two, 0, 1},
        {"setp.eq.f32 %p3, %r0, %r1;", 0, NEGATIVE, 0, 1},
        {"setp.eq.f32 %p3, %r0, %r1;", 0, 1, 0, 0},
        {"setp.eq.ftz.f32 %p3, %r0, %r1;", 0, 1, 0, 1},
        {"setp.num.f32 %p3, %r0, %r1;", ONE, nan, 0, 0},
        {"setp.nan.f32 %p3, %r0, %r1;", ONE, nan, 0, 1},
        {"setp.lt.and.s32 %p3, %r0, %r1, %p2;", 1, 2, 0, 0},
        {"setp.gt.or.s32 %p3, %r0, %r1, !%p2;", 1, 2, 0, 1},
        {"setp.gt.xor.s32 %p3, %r0, %r1, %p2;", 3, 2, 1, 0},
        {"selp.b32 %r3, %r0, %r1, %p2;", 4, 5, 1, 4},
        {"selp.b64 %l3, %l0, %l1, %p2;", 4, 5, 0, 5},
        {"selp.s32 %r3, %r0, -1, %p2;", 4, 0, 0, 0xffffffff},
        {"selp.u16 %h3, 7, 8, %p2;", 4, 5, 0, 8},
        {"slct.b32.f32 %r3, %r0, %r1, %r2;", 4, 5, nan, 5},
        {"slct.b32.s32 %r3, %r0, %r1, %r2;", 4, 5, NEGATIVE, 5},
        {"@%p0 mov.u32 %r3, 1; @!%p0 mov.u32 %r3, 2;", 0, 0, 0, 2},
    };
    check_examples(examples);
}

void conversions_have_the_listed_results(void **)
{
    const uint64_t nan = 0x7fc00000;
    const example examples[] = {
        {"cvt.s64.s32 %l3, %r0;", 0xffffffff, 0, 0, ~0ull},
        {"cvt.u64.u32 %l3, %r0;", 0xffffffff, 0, 0, 0xffffffff},
        {"cvt.s32.s8 %r3, %r0;", 0x180, 0, 0, 0xffffff80},
        {"cvt.u32.u16 %r3, %h0;", 0x12345, 0, 0, 0x2345},
        {"cvt.s64.s32 %l3, %l0;", 0x1ffffffff, 0, 0, ~0ull}, /* the upper half of a wide register is ignored */
        {"cvt.sat.s8.s32 %r3, %r0;", 1000, 0, 0, 127},
        {"cvt.rn.f32.s32 %r3, %r0;", 0x1000001, 0, 0, bits_of(0x1p24f)},
        {"cvt.rp.f32.s32 %r3, %r0;", 0x1000001, 0, 0, bits_of(0x1.000002p24f)},
        {"cvt.rz.f32.s32 %r3, %r0;", 0xfefffffd, 0, 0, bits_of(-0x1.000002p24f)},
        {"cvt.rn.f32.u64 %r3, %l0;", ~0ull, 0, 0, bits_of(0x1p64f)},
        {"cvt.rn.f64.s64 %l3, %l0;", ~0ull, 0, 0, std::bit_cast<uint64_t>(-1.0)},
        {"cvt.rni.s32.f32 %r3, %r0;", bits_of(2.5f), 0, 0, 2},
        {"cvt.rni.s32.f32 %r3, %r0;", bits_of(3.5f), 0, 0, 4},
        {"cvt.rzi.s32.f32 %r3, %r0;", bits_of(-2.9f), 0, 0, 0xfffffffe},
        {"cvt.rmi.s32.f32 %r3, %r0;", bits_of(-2.1f), 0, 0, 0xfffffffd},
        {"cvt.rpi.s64.f32 %l3, %r0;", bits_of(2.1f), 0, 0, 3},
        {"cvt.rzi.u32.f32 %r3, %r0;", bits_of(-5), 0, 0, 0},
        {"cvt.rzi.s32.f32 %r3, %r0;", bits_of(1e10f), 0, 0, 0x7fffffff},
        {"cvt.rzi.s32.f32 %r3, %r0;", nan, 0, 0, 0},
        {"cvt.rmi.f32.f32 %r3, %r0;", bits_of(-0.5f), 0, 0, bits_of(-1)},
        {"cvt.rni.f32.f32 %r3, %r0;", bits_of(-0.5f), 0, 0, NEGATIVE},
        {"cvt.sat.f32.f32 %r3, %r0;", nan, 0, 0, 0},
        {"cvt.sat.f32.f32 %r3, %r0;", bits_of(7), 0, 0, ONE},
        {"cvt.f64.f32 %l3, %r0;", ONE, 0, 0, std::bit_cast<uint64_t>(1.0)},
        {"cvt.rn.f32.f64 %r3, %l0;", std::bit_cast<uint64_t>(1 + 0x1p-24), 0, 0, ONE},
        {"cvt.f32.bf16 %r3, %h0;", 0xc040, 0, 0, bits_of(-3)},
        {"cvt.f32.f16 %r3, %h0;", 0x3c01, 0, 0, bits_of(0x1.004p0f)},
        {"cvt.f32.f16 %r3, %h0;", 0x8001, 0, 0, bits_of(-0x1p-24f)},
        {"cvt.f32.f16 %r3, %h0;", 0xfc00, 0, 0, INF | NEGATIVE},
        {"cvt.rn.bf16.f32 %h3, %r0;", 0x3f808000, 0, 0, 0x3f80}, /* a tie, rounded to the even number */
        {"cvt.rn.bf16.f32 %h3, %r0;", 0x3f818000, 0, 0, 0x3f82},
        {"cvt.rz.bf16.f32 %h3, %r0;", 0x3f81ffff, 0, 0, 0x3f81},
        {"cvt.rn.bf16.f32 %h3, %r0;", 0x7f7fffff, 0, 0, 0x7f80},
        {"cvt.rn.bf16.f32 %h3, %r0;", 0xff800001, 0, 0, 0x7fff},
        {"cvt.rn.f16.f32 %h3, %r0;", bits_of(65520), 0, 0, 0x7c00},
        {"cvt.rn.f16.f32 %h3, %r0;", bits_of(65519.9f), 0, 0, 0x7bff},
        {"cvt.rz.f16.f32 %h3, %r0;", bits_of(1e6f), 0, 0, 0x7bff},
        {"cvt.rn.f16.f32 %h3, %r0;", bits_of(0x1.8p-24f), 0, 0, 2},
        {"cvt.rn.f16.f32 %h3, %r0;", bits_of(-0x1p-25f), 0, 0, 0x8000},
        {"cvt.rn.f16.f32 %h3, %r0;", bits_of(0x1.004p-14f), 0, 0, 0x401},
        {"cvt.rn.bf16x2.f32 %r3, %r0, %r1;", ONE, bits_of(2), 0, 0x3f804000}, /* the first operand is the upper half */
        {"cvt.rn.f16x2.f32 %r3, %r0, %r1;", ONE, bits_of(2), 0, 0x3c004000},
        {"cvt.rna.tf32.f32 %r3, %r0;", 0x3f801000, 0, 0, 0x3f802000},
        {"cvt.rn.tf32.f32 %r3, %r0;", 0x3f801000, 0, 0, ONE},
        {"cvt.rz.tf32.f32 %r3, %r0;", 0x3f803fff, 0, 0, 0x3f802000},
    };
    check_examples(examples);
}

/* Each of the 2^16 bit patterns of f16 becomes the float that its sign, exponent and fraction define. Each pattern of
 * f16 and of bf16 converts back to the same bits, except NaNs. */
void conversions_of_all_f16_and_bf16_are_exact(void **)
{
    for (uint32_t base = 0; base < 0x10000; base += 1024) {
        for (uint32_t i = 0; i < 1024; i++)
            device_words[i] = base + i;
        launch_shape shape;
        shape.threads = 1024;
        launch_text(kernel_of("ld.global.u16 %h0, [%mine];\ncvt.f32.f16 %r0, %h0;\ncvt.rn.f16.f32 %h1, %r0;\n"
                              "cvt.f32.bf16 %r1, %h0;\ncvt.rz.bf16.f32 %h2, %r1;\nmov.b32 %r2, {%h1, %h2};\n"
                              "st.global.u32 [%mine], %r2;\nst.global.u32 [%mine + 4096], %r0;"),
                    shape);
        for (uint32_t i = 0; i < 1024; i++) {
            uint32_t half = base + i, exponent = half >> 10 & 31, fraction = half & 1023;
            bool nan16 = exponent == 31 && fraction, nan_b = (half & 0x7fff) > 0x7f80;
            double size = exponent == 31
                              ? INFINITY
                              : std::ldexp(fraction + (exponent ? 1024 : 0), (int)(exponent ? exponent : 1) - 25);
            assert_int_equal(device_words[i] & 0xffff, nan16 ? 0x7fff : half);
            assert_int_equal(device_words[i] >> 16, nan_b ? 0x7fff : half);
            assert_int_equal(device_words[1024 + i], nan16 ? NAN32 : bits_of((float)(half >> 15 ? -size : size)));
        }
    }
}
} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integer_instructions_have_the_listed_results),
        cmocka_unit_test(bit_instructions_have_the_listed_results),
        cmocka_unit_test(float_instructions_have_the_listed_results),
        cmocka_unit_test(comparisons_have_the_listed_results),
        cmocka_unit_test(conversions_have_the_listed_results),
        cmocka_unit_test(conversions_of_all_f16_and_bf16_are_exact),
    };
    return cmocka_run_group_tests_name("instructions of one lane in PTX", tests, NULL, NULL);
}
