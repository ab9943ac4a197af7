/* Kernels with one fault each, which the emulator must report. Each kernel runs in a separate process, which must end
 * with SIGABRT. The message must contain the expected text, the name of the kernel, and a line number. The same kernels
 * without the fault must succeed. */
#include "tests/cuda/ptx/launching.h"

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

uint32_t device_words[DEVICE_WORDS];

namespace
{
struct end {
    int status; /* the status that waitpid returns */
    char said[4096];
};

end end_of(const std::string &text, const launch_shape &shape)
{
    end end = {};
    int ends[2];
    size_t length = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        signal(SIGABRT, SIG_DFL); /* removes cmocka's handler */
        launch_text(text, shape);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], end.said + length, sizeof end.said - 1 - length)) > 0;)
        length += (size_t)n;
    close(ends[0]);
    assert_int_equal(waitpid(child, &end.status, 0), child);
    return end;
}

struct fault {
    const char *sound, *faulty; /* the instructions without and with the fault */
    const char *said;           /* text that the message must contain */
    launch_shape threads;
    const char *before = "", *limits = "";
};

void check(const fault &f)
{
    end sound = end_of(kernel_of(f.sound, f.before, f.limits), f.threads);
    if (!WIFEXITED(sound.status) || WEXITSTATUS(sound.status) != 0)
        fail_msg("a sound kernel fails: %s: %s", f.sound, sound.said);
    end faulty = end_of(kernel_of(f.faulty, f.before, f.limits), f.threads);
    if (!WIFSIGNALED(faulty.status) || WTERMSIG(faulty.status) != SIGABRT)
        fail_msg("a fault is not found: %s", f.faulty);
    if (!strstr(faulty.said, f.said) || !strstr(faulty.said, "PTX emulator: test, line "))
        fail_msg("expected '%s' for %s: %s", f.said, f.faulty, faulty.said);
}

template <size_t n> void check_all(const fault (&faults)[n])
{
    for (const fault &f : faults)
        check(f);
}

const launch_shape ONE_WARP, TWO_WARPS = {64, 1, 0, 256}, ODD = {64, 1, 3, 256}, HALF_WARP = {16, 1, 0, 256};
const char SHARED[] = ".extern .shared .align 128 .b8 dynamic[];";
const char SMALL[] = ".shared .align 16 .b8 small[64];";

void faults_of_accesses_are_found(void **)
{
    const fault faults[] = {
        {"ld.global.u32 %r0, [%data + 16380];", "ld.global.u32 %r0, [%data + 16384];", "outside of device memory",
         ONE_WARP},
        {"st.global.u32 [%data], 1;", "st.global.u32 [%data + -4], 1;", "outside of device memory", ONE_WARP},
        {"mov.u64 %l0, %data;", "mov.u64 %l0, 64; ld.u32 %r0, [%l0];", "outside of device memory", ONE_WARP},
        /* only thread 9 makes the faulty access */
        {"setp.eq.s32 %p0, %thread, 9; ld.global.u32 %r0, [%data];",
         "setp.eq.s32 %p0, %thread, 9; @%p0 ld.global.u32 %r0, [%data + 16384];", "thread 9: an access outside",
         ONE_WARP},
        {"ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%data + 16];", "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%data + 8];",
         "not aligned: 16 bytes", ONE_WARP},
        {"ld.global.u16 %h0, [%data + 2];", "ld.global.u32 %r0, [%data + 2];", "not aligned: 4 bytes", ONE_WARP},
        {"mov.u32 %r0, small; st.shared.u32 [%r0 + 60], 1;", "mov.u32 %r0, small; st.shared.u32 [%r0 + 64], 1;",
         "outside of shared memory", ONE_WARP, SMALL},
        {"mov.u32 %r0, small; ld.shared.u32 %r1, [%r0];", "mov.u32 %r0, 0; ld.shared.u32 %r1, [%r0];",
         "outside of shared memory", ONE_WARP, SMALL},
        {"mov.u32 %r0, dynamic; ld.shared.u32 %r1, [%r0 + 252];",
         "mov.u32 %r0, dynamic; ld.shared.u32 %r1, [%r0 + 256];", "outside of shared memory", TWO_WARPS, SHARED},
        {".local .align 8 .b8 mine[16]; mov.u64 %l0, mine; st.local.u64 [%l0 + 8], %l0;",
         ".local .align 8 .b8 mine[16]; mov.u64 %l0, mine; st.local.u64 [%l0 + 16], %l0;",
         "outside of the thread's local memory", ONE_WARP},
        {".local .align 8 .b8 mine[16]; mov.u64 %l0, mine; cvta.local.u64 %l0, %l0; st.u64 [%l0 + 8], %l0;",
         ".local .align 8 .b8 mine[16]; mov.u64 %l0, mine; cvta.local.u64 %l0, %l0; st.u64 [%l0 + 16], %l0;",
         "outside of the thread's local memory", ONE_WARP},
        {"ld.param.u64 %l0, [test_param_0];", "ld.param.u64 %l0, [test_param_0 + 8];", "outside of the parameters",
         ONE_WARP},
        {"mov.u64 %l1, test_param_0; ld.param.u64 %l0, [%l1];",
         "mov.u64 %l1, test_param_0; ld.param.u64 %l0, [%l1 + 8];", "outside of the parameters", ONE_WARP},
        {"atom.global.add.u32 %r0, [%data + 16380], 1;", "atom.global.add.u32 %r0, [%data + 16384], 1;",
         "outside of device memory", ONE_WARP},
    };
    check_all(faults);
}

#define MMA                                                                                                        \
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, " \
    "{%r0, %r1, %r2, %r3};"

void faults_of_warp_instructions_are_found(void **)
{
    const fault faults[] = {
        {MMA, "setp.lt.s32 %p0, %thread, 16; @%p0 " MMA, "a whole warp must execute this", ONE_WARP},
        {MMA, "setp.lt.s32 %p0, %thread, 16; @!%p0 ret; " MMA, "a whole warp must execute this", ONE_WARP},
        {"bra next; next: " MMA, "setp.lt.s32 %p0, %thread, 16; @%p0 bra next; " MMA " bra end; next: " MMA " end:",
         "wait here for others", ONE_WARP},
        {"mov.u32 %r0, 0;", MMA, "a whole warp must execute this", HALF_WARP},
        {"mov.u32 %r4, dynamic; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r4];",
         "mov.u32 %r4, dynamic; setp.ne.s32 %p0, %thread, 5; @%p0 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, "
         "[%r4];",
         "a whole warp must execute this", TWO_WARPS, SHARED},
        {"mov.u32 %r4, dynamic; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r4];",
         "mov.u32 %r4, dynamic; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r4 + 8];", "not aligned: 16 bytes",
         TWO_WARPS, SHARED},
        {"shfl.sync.bfly.b32 %r0, %thread, 1, 31, -1;",
         "setp.lt.s32 %p0, %thread, 16; @%p0 shfl.sync.bfly.b32 %r0, %thread, 1, 31, -1;",
         "lanes of the warp that have ended", ONE_WARP},
        {"setp.lt.s32 %p0, %thread, 16; @%p0 shfl.sync.bfly.b32 %r0, %thread, 1, 31, 0xffff;",
         "shfl.sync.bfly.b32 %r0, %thread, 1, 31, 0xffff;", "not among those that it names", ONE_WARP},
        {"vote.sync.any.pred %p0, 0, -1;", "setp.eq.s32 %p0, %thread, 3; @!%p0 vote.sync.any.pred %p0, 0, -1;",
         "lanes of the warp that have ended", ONE_WARP},
        {"bar.warp.sync -1;", "setp.eq.s32 %p0, %thread, 3; @!%p0 bar.warp.sync -1;",
         "lanes of the warp that have ended", ONE_WARP},
        {"bar.sync 0;", "setp.lt.s32 %p0, %thread, 32; @%p0 bra other; bar.sync 0; bra end; other: bar.sync 0; end:",
         "different barriers", TWO_WARPS},
        {"bar.sync 0;", "setp.lt.s32 %p0, %thread, 16; @%p0 bra other; bar.sync 0; bra end; other: bar.sync 0; end:",
         "wait here for others", TWO_WARPS},
    };
    check_all(faults);
}

/* Instructions for races. Each thread writes its own word of shared memory, and reads the word of a thread of the other
 * warp. START begins asynchronous copies to shared memory. */
#define WRITE_OWN "mov.u32 %r0, dynamic; shl.b32 %r1, %thread, 2; add.s32 %r1, %r0, %r1; st.shared.u32 [%r1], %thread; "
#define READ_OTHER "xor.b32 %r2, %thread, 32; shl.b32 %r2, %r2, 2; add.s32 %r2, %r0, %r2; ld.shared.u32 %r3, [%r2]; "
#define START                                                                                       \
    "mov.u32 %r0, dynamic; shl.b32 %r1, %thread, 4; and.b32 %r1, %r1, 112; add.s32 %r0, %r0, %r1; " \
    "setp.lt.s32 %p0, %thread, 8; @%p0 cp.async.cg.shared.global [%r0], [%data], 16; cp.async.commit_group; "

void races_are_found(void **)
{
    const fault faults[] = {
        {WRITE_OWN "bar.sync 0; " READ_OTHER, WRITE_OWN READ_OTHER, "a race", TWO_WARPS, SHARED},
        {WRITE_OWN "bar.sync 0; " READ_OTHER, WRITE_OWN READ_OTHER, "a race", ODD, SHARED},
        {WRITE_OWN "bar.sync 0; " READ_OTHER "bar.sync 0; st.shared.u32 [%r1], 1;",
         WRITE_OWN "bar.sync 0; " READ_OTHER "st.shared.u32 [%r1], 1;", "a race", TWO_WARPS, SHARED},
        {"mov.u32 %r0, dynamic; atom.shared.add.u32 %r1, [%r0], 1;",
         "mov.u32 %r0, dynamic; atom.shared.add.u32 %r1, [%r0], 1; ld.shared.u32 %r2, [%r0];", "a race", TWO_WARPS,
         SHARED},
        {START "cp.async.wait_group 0; bar.sync 0; mov.u32 %r0, dynamic; ld.shared.u32 %r2, [%r0];",
         START "cp.async.wait_group 0; mov.u32 %r0, dynamic; ld.shared.u32 %r2, [%r0];", "a race", TWO_WARPS, SHARED},
    };
    check_all(faults);
}

void faults_of_copies_are_found(void **)
{
    const fault faults[] = {
        {START "cp.async.wait_group 0;", START, "has not waited for its asynchronous copies", TWO_WARPS, SHARED},
        {START "cp.async.wait_all;", START "cp.async.wait_group 1;", "has not waited for its asynchronous copies",
         TWO_WARPS, SHARED},
        {"mov.u32 %r0, small; cp.async.ca.shared.global [%r0], [%data], 8, 8; cp.async.wait_all;",
         "mov.u32 %r0, small; cp.async.ca.shared.global [%r0], [%data], 8, 16; cp.async.wait_all;",
         "more bytes than its destination", ONE_WARP, SMALL},
        {"mov.u32 %r0, dynamic; cp.async.cg.shared.global [%r0], [%data + 16384], 16, 0; cp.async.wait_all;",
         "mov.u32 %r0, dynamic; cp.async.cg.shared.global [%r0], [%data + 16384], 16; cp.async.wait_all;",
         "outside of device memory", HALF_WARP, SHARED},
        {"mov.u32 %r0, dynamic; cp.async.cg.shared.global [%r0], [%data + 16], 16; cp.async.wait_all;",
         "mov.u32 %r0, dynamic; cp.async.cg.shared.global [%r0], [%data + 8], 16; cp.async.wait_all;",
         "not aligned: 16 bytes", HALF_WARP, SHARED},
        {"mov.u32 %r0, dynamic; cp.async.cg.shared.global [%r0 + 240], [%data], 16; cp.async.wait_all;",
         "mov.u32 %r0, dynamic; cp.async.cg.shared.global [%r0 + 256], [%data], 16; cp.async.wait_all;",
         "outside of shared memory", HALF_WARP, SHARED},
    };
    check_all(faults);
}

void wrong_ptx_texts_are_refused(void **)
{
    const launch_shape many = {65, 1, 0, 0};
    const fault faults[] = {
        {"mov.u32 %r0, 1;", "frobnicate.u32 %r0, 1;", "does not know", ONE_WARP},
        {"add.f32 %r0, %r1, %r2;", "add.f99 %r0, %r1, %r2;", "does not know", ONE_WARP},
        {"add.s32 %r0, %r1, 1;", "add.s32 %r0, %r1;", "another number of operands", ONE_WARP},
        {"add.s32 %r0, %r1, 1;", "add.s32 %r0, %l1, 1;", "another size", ONE_WARP},
        {"add.s32 %r0, %r1, 1;", "add.s32 %r0, %r99, 1;", "not declared", ONE_WARP},
        {"add.s32 %r0, %r1, 1;", "add.s32 7, %r1, 1;", "not a register", ONE_WARP},
        {"bra end; end:", "bra nowhere; end:", "expected a label", ONE_WARP},
        {"mov.u32 %r0, 1;", "trap;", "gives up", ONE_WARP},
    };
    check_all(faults);
    end sound = end_of(kernel_of("", "", ".maxntid 65, 1, 1\n"), many);
    assert_true(WIFEXITED(sound.status));
    end faulty = end_of(kernel_of("", "", ".maxntid 64, 1, 1\n"), many);
    assert_true(WIFSIGNALED(faulty.status));
    assert_non_null(strstr(faulty.said, "65 threads of a block, and the kernel allows 64"));
}
} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_of_accesses_are_found),
        cmocka_unit_test(faults_of_warp_instructions_are_found),
        cmocka_unit_test(races_are_found),
        cmocka_unit_test(faults_of_copies_are_found),
        cmocka_unit_test(wrong_ptx_texts_are_refused),
    };
    return cmocka_run_group_tests_name("faults in PTX", tests, NULL, NULL);
}
