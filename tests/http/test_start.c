/* Starts with --check and --explain, and starts on systems with too little memory, threads or permissions. The daemon
 * must report what is lacking before it serves the first request. It must not fail later for this reason. */
#define _GNU_SOURCE /* setresuid */
#include "tests/http/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SET_MDWE /* the kernel has it since Linux 6.3 */
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

/* OpenMP's runtime is not instrumented for the thread sanitizer. So tests/run.sh gives the daemon one thread if it has
 * this sanitizer. */
static bool has_one_thread(void)
{
    return strcmp(daemon_sanitizer(), "thread") == 0;
}

/* ---- What is asked for ---- */

static struct daemon *start_restricted(const char *const *arguments, void (*restrict_process)(void), char **said,
                                       int *status)
{
    struct daemon_options options = {.arguments = arguments, .restrict_process = restrict_process};
    return daemon_open(&options, said, status);
}

/* Runs the daemon to its end, and expects an exit status. Returns what the daemon wrote, which the test frees. */
static char *run_to_end(const char *const *arguments, void (*restrict_process)(void), int expected)
{
    char *said;
    int status;
    assert_null(start_restricted(arguments, restrict_process, &said, &status));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected)
        fail_msg("expected exit status %d, found wait status %x: %s", expected, (unsigned)status, said);
    return said;
}

static void expect_said(char *said, const char *part) /* frees `said` */
{
    if (!strstr(said, part))
        fail_msg("\"%s\" is not in: %s", part, said);
    free(said);
}

static void check_runs_a_batch_of_each_model(void **state)
{
    (void)state;
    expect_said(run_to_end(ARGUMENTS("--check"), NULL, 0), "check passed: each model has run a batch models=2");
    expect_said(run_to_end(ARGUMENTS("--check", "--log-level", "error", "--max-batch-tokens", "512", "--model",
                                     "tests/reference/linear_attention_image", "--model",
                                     "tests/reference/linear_multihead_attention_default", "--model",
                                     "tests/reference/linformer_pytorch_enc_dec", "--model",
                                     "tests/reference/linear_attention_encoder_decoder"),
                           NULL, 0),
                "models=4");
}

static void check_reports_faults_and_fails(void **state)
{
    (void)state;
    expect_said(run_to_end(ARGUMENTS("--check", "--model", "tests/http"), NULL, 1), "check failed");
    expect_said(run_to_end(ARGUMENTS("--check", "--products", "onednn", "--kernels", "baseline"), NULL, 1),
                "oneDNN needs the AVX-512 kernels");
}

/* systemd restarts the daemon after each failure, except after the exit status of a wrong setting. */
static void a_wrong_setting_ends_with_exit_status_2(void **state)
{
    (void)state;
    expect_said(run_to_end(ARGUMENTS("--max-batch-token", "8"), NULL, 2), "unknown flag");
    expect_said(run_to_end(ARGUMENTS("--max-batch-tokens", "none"), NULL, 2), "found 'none'");
    expect_said(run_to_end(ARGUMENTS("--config", "tests/http"), NULL, 2), "tests/http");
    expect_said(run_to_end(ARGUMENTS("--model", "tests/http"), NULL, 1), "cannot start");
    char line[256];
    bool excepted = false;
    FILE *unit = fopen("docker/systemd/linformerd.service", "r");
    assert_non_null(unit);
    while (fgets(line, sizeof line, unit))
        excepted = excepted || strcmp(line, "RestartPreventExitStatus=2\n") == 0;
    fclose(unit);
    assert_true(excepted);
}

/* Returns the whole standard output of the daemon. */
static char *output_of(const char *arguments)
{
    const char *binary = getenv("LINFORMERD");
    char command[512], *text = calloc(1, 1 << 16);
    snprintf(command, sizeof command, "LINFORMERD_DEVICE=cpu %s %s", binary ? binary : "build/linformerd", arguments);
    FILE *pipe = popen(command, "r");
    assert_true(pipe && text);
    size_t length = fread(text, 1, (1 << 16) - 1, pipe);
    text[length] = '\0';
    assert_int_equal(pclose(pipe), 0);
    return text;
}

static void explain_alone_shows_the_built_in_model(void **state)
{
    (void)state;
    char *text = output_of("--explain"), *folder = output_of("--explain weights/builtin");
    assert_non_null(strstr(text, "\narena_bytes "));
    assert_string_equal(text, folder);
    free(folder);
    free(text);
    text = output_of("--explain --model tests/reference/linformer_lm");
    folder = output_of("--explain tests/reference/linformer_lm");
    assert_string_equal(text, folder);
    free(folder);
    free(text);
}

/* ---- Too few threads ---- */

static rlim_t most_processes;

/* The limit counts all processes of a user, and does not apply to root. So this function switches to a user without
 * other processes. */
static void limit_processes(void)
{
    struct rlimit limit = {most_processes, most_processes};
    uid_t user = (uid_t)(1000000 + getpid());
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* the leak checker would start a process */
    if (setrlimit(RLIMIT_NPROC, &limit) != 0 || setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0)
        _exit(125);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
}

/* Sends many rows, so that all threads compute. */
static void expect_served(const struct daemon *daemon)
{
    enum { IDS = 900 };
    char body[64 + 4 * IDS] = "{\"inputs\": [";
    for (int i = 0; i < IDS; i++)
        sprintf(body + strlen(body), "%s%d", i ? "," : "", 3 + i % 200);
    strcat(body, "]}");
    json_decref(daemon_post_json(daemon, "/embed", body));
}

static void missing_threads_are_reported_before_ready(void **state)
{
    (void)state;
    int served = 0, refused = 0;
    if (has_one_thread() || geteuid() != 0)
        skip();
    for (most_processes = 2; most_processes <= 24; most_processes++) {
        char *said;
        int status = 0;
        struct daemon *daemon =
            start_restricted(ARGUMENTS("--threads", "4", "--log-level", "error"), limit_processes, &said, &status);

        if (daemon) {
            expect_served(daemon);
            daemon_stop(daemon);
            served++;
        } else {
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || strstr(said, "libgomp") ||
                !strstr(said, "cannot start") || !strstr(said, "ulimit -u"))
                if (!*daemon_sanitizer()) /* Sanitizers start their own threads, which fail in other ways. */
                    fail_msg("%lld processes, wait status %x: %s", (long long)most_processes, (unsigned)status, said);
            refused++;
        }
        free(said);
    }
    print_message("%d limits served, %d refused\n", served, refused);
    assert_true(served > 0 && refused > 0);
}

static void missing_threads_fail_a_check(void **state)
{
    (void)state;
    if (has_one_thread() || geteuid() != 0)
        skip();
    most_processes = 30;
    expect_said(run_to_end(ARGUMENTS("--check", "--threads", "40"), limit_processes, 1),
                "40 compute threads (--threads) cannot be started");
    most_processes = 60;
    expect_said(run_to_end(ARGUMENTS("--check", "--threads", "40"), limit_processes, 0), "models=2");
}

/* ---- Too little address space ---- */

static rlim_t most_bytes;

static void limit_address_space(void)
{
    struct rlimit limit = {most_bytes, most_bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        _exit(125);
}

static void too_little_address_space_is_reported(void **state)
{
    (void)state;
    if (*daemon_sanitizer())
        skip(); /* sanitizers map more memory than this limit */
    most_bytes = (rlim_t)300 << 20;
    char *said = run_to_end(ARGUMENTS("--check", "--threads", "2"), limit_address_space, 1);
    assert_non_null(strstr(said, "RLIMIT_AS (ulimit -v) limits the whole process to 300 MiB"));
    expect_said(said, "OpenBLAS needs ");
    most_bytes = (rlim_t)2 << 30;
    expect_said(run_to_end(ARGUMENTS("--check", "--threads", "2"), limit_address_space, 0), "models=2");
}

/* With any limit, the daemon must end without a signal. */
static void a_check_with_any_address_space_ends_without_a_signal(void **state)
{
    (void)state;
    if (*daemon_sanitizer())
        skip();
    for (most_bytes = (rlim_t)100 << 20; most_bytes <= (rlim_t)1100 << 20; most_bytes += (rlim_t)10 << 20) {
        char *said;
        int status;

        assert_null(start_restricted(ARGUMENTS("--check", "--threads", "4"), limit_address_space, &said, &status));
        if (!WIFEXITED(status) || WEXITSTATUS(status) > 1 || strstr(said, "libgomp"))
            fail_msg("%lld bytes, wait status %x: %s", (long long)most_bytes, (unsigned)status, said);
        free(said);
    }
}

/* ---- No memory that is written and executed ---- */

static void refuse_generated_code(void)
{
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* if oneDNN fails, it does not free its memory */
    if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
        _exit(125);
}

static void a_kernel_that_forbids_generated_code_is_supported(void **state)
{
    (void)state;
    char *said = run_to_end(ARGUMENTS("--check"), NULL, 0);
    bool onednn = strstr(said, "oneDNN ") && !strstr(said, "without oneDNN");
    int status;
    free(said);
    pid_t child = fork();
    if (child == 0) {
        refuse_generated_code();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) != 0 || !onednn)
        skip(); /* the kernel lacks this rule, or the daemon does not use oneDNN */
    struct daemon *daemon = start_restricted(NULL, refuse_generated_code, &said, &status);
    assert_non_null(daemon);
    expect_said(said, "products run without oneDNN");
    struct answer info = daemon_get(daemon, "/info");
    const char *notice = json_string_value(json_object_get(info.json, "notice"));
    const char *kernels = json_string_value(json_object_get(info.json, "kernels"));
    assert_true(notice && strstr(notice, "oneDNN cannot generate code"));
    assert_true(kernels && !strstr(kernels, "oneDNN"));
    answer_free(&info);
    expect_served(daemon);
    daemon_stop(daemon);
    expect_said(run_to_end(ARGUMENTS("--check", "--products", "onednn"), refuse_generated_code, 1),
                "oneDNN cannot generate code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_runs_a_batch_of_each_model),
        cmocka_unit_test(check_reports_faults_and_fails),
        cmocka_unit_test(a_wrong_setting_ends_with_exit_status_2),
        cmocka_unit_test(explain_alone_shows_the_built_in_model),
        cmocka_unit_test(missing_threads_are_reported_before_ready),
        cmocka_unit_test(missing_threads_fail_a_check),
        cmocka_unit_test(too_little_address_space_is_reported),
        cmocka_unit_test(a_check_with_any_address_space_ends_without_a_signal),
        cmocka_unit_test(a_kernel_that_forbids_generated_code_is_supported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
