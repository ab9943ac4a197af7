/* The effects of signals. Also, SIGTERM must end a daemon that has no descriptors left. */
#define _GNU_SOURCE
#include "tests/http/daemon.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct daemon *start_with(const char *const *arguments, int ignored_signal)
{
    char last_line[1024];
    struct daemon *daemon = daemon_try(
        &(struct daemon_options){.arguments = arguments, .ignored_signal = ignored_signal, .log_unread = true},
        last_line);
    assert_non_null(daemon);
    return daemon;
}

static struct daemon *start(int ignored_signal)
{
    return start_with(ARGUMENTS("--drain-delay-ms", "1"), ignored_signal);
}

static bool logs(struct daemon *daemon, const char *part)
{
    char line[4096];
    while (daemon_log_line(daemon, line, sizeof line)) {
        if (strstr(line, part))
            return true;
    }
    return false;
}

static void expect_service(const struct daemon *daemon)
{
    json_decref(daemon_post_json(daemon, "/embed", "{\"inputs\": \"still here\"}"));
}

static void sigterm_sigint_and_sigxcpu_drain_the_daemon(void **state)
{
    (void)state;
    static const int numbers[] = {SIGTERM, SIGINT, SIGXCPU};
    for (size_t i = 0; i < LENGTH(numbers); i++) {
        struct daemon *daemon = start(0);
        expect_service(daemon);
        daemon_signal(daemon, numbers[i]);
        assert_true(logs(daemon, "draining"));
        assert_true(logs(daemon, "stopped"));
        daemon_join(daemon);
    }
}

static void signals_without_an_effect_are_logged(void **state)
{
    (void)state;
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGXFSZ, SIGPIPE};
    struct daemon *daemon = start(0);
    for (size_t i = 0; i < LENGTH(numbers); i++) {
        daemon_signal(daemon, numbers[i]);
        expect_service(daemon);
    }
    assert_true(logs(daemon, "ignored a signal"));
    daemon_terminate(daemon);
    daemon_join(daemon);
}

/* SIGHUP reloads, and the daemon continues to serve. A SIGHUP that comes while the daemon drains has no effect. */
static void sighup_reloads_the_models(void **state)
{
    (void)state;
    struct daemon *daemon = start(0);
    for (int i = 0; i < 3; i++) {
        daemon_signal(daemon, SIGHUP);
        assert_true(logs(daemon, "reloading after SIGHUP"));
        expect_service(daemon);
    }
    daemon_terminate(daemon);
    assert_true(logs(daemon, "draining"));
    daemon_signal(daemon, SIGHUP);
    daemon_join(daemon);
}

/* A program that nohup starts ignores SIGHUP. The daemon must handle signals that are ignored when it starts. */
static void a_signal_ignored_at_the_start_is_handled(void **state)
{
    (void)state;
    static const int numbers[] = {SIGHUP, SIGTERM};
    static const char *const lines[] = {"reloading after SIGHUP", "signal=Terminated"};
    for (size_t i = 0; i < LENGTH(numbers); i++) {
        struct daemon *daemon = start(numbers[i]);
        daemon_signal(daemon, numbers[i]);
        assert_true(logs(daemon, lines[i]));
        if (numbers[i] != SIGTERM)
            daemon_terminate(daemon);
        daemon_join(daemon);
    }
}

/* The library is a pipe that no process writes, so loading the library never ends. */
static void a_start_that_hangs_in_a_library_can_be_ended(void **state)
{
    (void)state;
    const char *binary = getenv("LINFORMERD");
    char folder[] = "/tmp/linformerd-signals-XXXXXX", library[64];
    int status;
    assert_non_null(mkdtemp(folder));
    snprintf(library, sizeof library, "%s/libopenblas.so.0", folder);
    assert_int_equal(mkfifo(library, 0600), 0);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("LD_LIBRARY_PATH", folder, 1);
        execl(binary ? binary : "build/linformerd", "linformerd", "--port", "0", "--device", "cpu", (char *)NULL);
        _exit(127);
    }
    /* open() returns when the daemon opens the pipe. The daemon then waits for the first byte. */
    int writing = open(library, O_WRONLY);
    assert_true(writing >= 0);
    assert_int_equal(kill(process, SIGTERM), 0);
    assert_int_equal(waitpid(process, &status, 0), process);
    close(writing);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
    remove(library);
    rmdir(folder);
}

/* Returns the thread of the daemon with this name. */
static pid_t thread_named(pid_t process, const char *name)
{
    char path[300], comm[32] = "";
    snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    pid_t found = 0;
    for (struct dirent *entry; !found && (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/comm", (int)process, entry->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(comm, sizeof comm, file) && strncmp(comm, name, strlen(name)) == 0)
            found = (pid_t)atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    closedir(folder);
    return found;
}

/* Lets a stopped thread run until it opens a file. */
static void run_to_next_file(pid_t thread)
{
    struct __ptrace_syscall_info call = {.op = PTRACE_SYSCALL_INFO_NONE};
    while (call.op != PTRACE_SYSCALL_INFO_ENTRY || call.entry.nr != SYS_openat) {
        int status;
        assert_int_equal(ptrace(PTRACE_SYSCALL, thread, NULL, NULL), 0);
        assert_int_equal(waitpid(thread, &status, __WALL), thread);
        assert_true(WIFSTOPPED(status));
        assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof call, &call) > 0);
    }
}

/* The test stops the reloading thread when this thread opens a file. This has the same effect as a reload that takes
 * very long. */
static void the_daemon_ends_without_waiting_for_a_reload(void **state)
{
    (void)state;
    int status;
    struct daemon *daemon = start_with(ARGUMENTS("--model", "tests/reference/linformer_lm"), 0);
    pid_t thread = thread_named(daemon_process(daemon), "reloads");
    assert_true(thread > 0);
    if (ptrace(PTRACE_SEIZE, thread, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0) {
        daemon_stop(daemon);
        skip(); /* this system does not permit ptrace */
    }
    assert_int_equal(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), 0);
    assert_int_equal(waitpid(thread, &status, __WALL), thread);
    daemon_signal(daemon, SIGHUP);
    run_to_next_file(thread);
    struct answer answer = daemon_call(daemon, &(struct call){.path = "/health"});
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    daemon_terminate(daemon);
    assert_true(logs(daemon, "reload=interrupted"));
    assert_int_equal(waitpid(thread, &status, __WALL), thread); /* the process cannot end before this thread */
    daemon_join(daemon);
}

/* With each limit from 9 to 17 descriptors, the daemon either reports at its start that the limit is too low, or ends
 * after SIGTERM. */
static void few_descriptors_are_reported_or_suffice(void **state)
{
    (void)state;
    int refused = 0, started = 0;
    for (int descriptors = 9; descriptors <= 17; descriptors++) {
        char last_line[1024];
        struct daemon *daemon =
            daemon_try(&(struct daemon_options){.arguments = ARGUMENTS(NULL), .descriptors = descriptors}, last_line);
        if (!daemon) {
            refused++;
            if (!strcasestr(last_line, "descriptor") && !strcasestr(last_line, "open files"))
                fail_msg("with %d descriptors: %s", descriptors, last_line);
            continue;
        }
        started++;
        struct answer answer = daemon_get(daemon, "/health");
        assert_int_equal(answer.status, 200);
        answer_free(&answer);
        int clients[12];
        for (size_t i = 0; i < LENGTH(clients); i++) {
            clients[i] = raw_connect(daemon);
            raw_send(clients[i], "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Le");
        }
        daemon_terminate(daemon);
        daemon_join(daemon);
        for (size_t i = 0; i < LENGTH(clients); i++)
            close(clients[i]);
    }
    print_message("%d refused, %d started\n", refused, started);
    assert_true(refused > 0 && started > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sigterm_sigint_and_sigxcpu_drain_the_daemon),
        cmocka_unit_test(signals_without_an_effect_are_logged),
        cmocka_unit_test(sighup_reloads_the_models),
        cmocka_unit_test(a_signal_ignored_at_the_start_is_handled),
        cmocka_unit_test(a_start_that_hangs_in_a_library_can_be_ended),
        cmocka_unit_test(the_daemon_ends_without_waiting_for_a_reload),
        cmocka_unit_test(few_descriptors_are_reported_or_suffice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
