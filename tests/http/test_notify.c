/* The messages to the service manager, and the watchdog. The test program acts as the service manager. */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD_MS = 20, MAX_THREADS = 16 };

static char *folder;
static char path[100];
static int manager; /* the socket of the service manager */
static struct daemon *the_daemon;

static void set_variables(void)
{
    char process[16];
    snprintf(process, sizeof process, "%d", (int)getpid());
    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_PID", process, 1);
    setenv("WATCHDOG_USEC", "80000", 1); /* the daemon sends at a quarter of this period: every 20 ms */
}

static int start(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *said;
    int status;
    folder = folder_make();
    snprintf(path, sizeof path, "%s/notify", folder);
    memcpy(address.sun_path, path, sizeof path);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address, sizeof address), 0);
    the_daemon =
        daemon_open(&(struct daemon_options){.restrict_process = set_variables, .log_unread = true}, &said, &status);
    assert_non_null(the_daemon);
    free(said);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    close(manager);
    folder_remove(folder);
    return 0;
}

/* Waits for the next message, and returns it. */
static const char *next_message(void)
{
    static char message[1024];
    ssize_t length = recv(manager, message, sizeof message - 1, 0);
    assert_true(length > 0);
    message[length] = '\0';
    return message;
}

static const char *next_besides_watchdog(void)
{
    for (;;) {
        const char *message = next_message();
        if (strcmp(message, "WATCHDOG=1") != 0)
            return message;
    }
}

static void wait_for_watchdog(void)
{
    while (strcmp(next_message(), "WATCHDOG=1") != 0)
        ;
}

static void readiness_is_reported(void **state)
{
    (void)state;
    assert_string_equal(next_besides_watchdog(), "STATUS=loading the models");
    assert_string_equal(next_besides_watchdog(), "READY=1\nSTATUS=serving");
}

static void the_watchdog_is_fed(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        wait_for_watchdog();
}

static void a_reload_is_reported(void **state)
{
    (void)state;
    struct timespec before, after;
    long long time_us = 0;
    clock_gettime(CLOCK_MONOTONIC, &before);
    daemon_signal(the_daemon, SIGHUP);
    const char *message = next_besides_watchdog();
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_int_equal(sscanf(message, "RELOADING=1\nMONOTONIC_USEC=%lld", &time_us), 1);
    assert_true(time_us >= (long long)before.tv_sec * 1000000 + before.tv_nsec / 1000);
    assert_true(time_us <= (long long)after.tv_sec * 1000000 + after.tv_nsec / 1000);
    assert_string_equal(next_besides_watchdog(), "READY=1\nSTATUS=serving");
}

/* Finds the threads with this name. */
static int find_threads(const char *name, pid_t threads[MAX_THREADS])
{
    char tasks[64], file[400], found[32];
    int count = 0;
    snprintf(tasks, sizeof tasks, "/proc/%d/task", daemon_process(the_daemon));
    DIR *directory = opendir(tasks);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) && count < MAX_THREADS;) {
        snprintf(file, sizeof file, "%s/%s/comm", tasks, entry->d_name);
        FILE *comm = fopen(file, "r");
        if (comm && fgets(found, sizeof found, comm) && strcmp(found, name) == 0)
            threads[count++] = atoi(entry->d_name);
        if (comm)
            fclose(comm);
    }
    closedir(directory);
    return count;
}

/* The test stops one event loop. The other event loops and threads continue. */
static void a_stuck_event_loop_stops_the_feeding(void **state)
{
    (void)state;
    pid_t threads[MAX_THREADS];
    char message[1024];
    int status;
    assert_true(find_threads("http\n", threads) >= 2);
    assert_int_equal(ptrace(PTRACE_SEIZE, threads[0], NULL, NULL), 0);
    assert_int_equal(ptrace(PTRACE_INTERRUPT, threads[0], NULL, NULL), 0);
    assert_int_equal(waitpid(threads[0], &status, __WALL), threads[0]);
    daemon_expect_line(the_daemon,
                       "no progress; the service manager's watchdog is not notified where=\"an event loop\"");
    while (recv(manager, message, sizeof message, MSG_DONTWAIT) > 0)
        ; /* discards the messages that were sent earlier */
    usleep(20 * PERIOD_MS * 1000);
    assert_int_equal(recv(manager, message, sizeof message, MSG_DONTWAIT), -1);
    assert_int_equal(ptrace(PTRACE_DETACH, threads[0], NULL, NULL), 0);
    daemon_expect_line(the_daemon, "progress again; the service manager's watchdog is notified");
    wait_for_watchdog();
}

static void stopping_is_reported(void **state)
{
    (void)state;
    daemon_terminate(the_daemon);
    assert_string_equal(next_besides_watchdog(), "STOPPING=1\nSTATUS=answering the last requests");
    daemon_join(the_daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readiness_is_reported), cmocka_unit_test(the_watchdog_is_fed),
        cmocka_unit_test(a_reload_is_reported),  cmocka_unit_test(a_stuck_event_loop_stops_the_feeding),
        cmocka_unit_test(stopping_is_reported),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
