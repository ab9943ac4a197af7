/* Tests of the thread that writes the log. Each test redirects stderr into a pipe or a file. Each line contains its
 * number, so that missing lines can be counted. */
#include "server/common/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS INT64_C(1000000000)
#define LONG_NS (600 * SECOND_NS) /* time limit of a flush that ends earlier, when all lines are written */

static int stderr_copy;

static void stderr_to(int descriptor)
{
    fflush(stderr);
    stderr_copy = dup(STDERR_FILENO);
    assert_true(dup2(descriptor, STDERR_FILENO) >= 0);
}

static void stderr_back(void)
{
    assert_true(dup2(stderr_copy, STDERR_FILENO) >= 0);
    close(stderr_copy);
}

static size_t lost_line(int64_t lost, char line[LOG_LINE_BYTES])
{
    return (size_t)snprintf(line, LOG_LINE_BYTES, "LOST %lld\n", (long long)lost);
}

static void put(int64_t number, int width)
{
    char line[LOG_LINE_BYTES];
    int length = snprintf(line, sizeof line, "%0*lld\n", width, (long long)number);
    log_writer_put(line, (size_t)length);
}

/* Reads the lines up to number `last`. Returns the sum of the numbers in the LOST lines. The other lines must be
 * complete and in order. A LOST line must stand at the place of the lines that it counts. */
static int64_t read_up_to(int descriptor, int width, int64_t last)
{
    FILE *file = fdopen(descriptor, "r");
    char line[LOG_LINE_BYTES + 2];
    int64_t next = 0, lost = 0;
    while (next <= last) {
        long long told;
        assert_non_null(fgets(line, sizeof line, file));
        if (sscanf(line, "LOST %lld", &told) == 1) {
            lost += told;
            next += told;
            continue;
        }
        assert_int_equal(strlen(line), width + 1);
        assert_int_equal(strtoll(line, NULL, 10), next);
        next++;
    }
    fclose(file);
    return lost;
}

static void test_without_a_reader_nothing_waits(void **context)
{
    (void)context;
    enum { LINES = 1000, WIDTH = 1000 };
    int ends[2];
    int64_t before = log_writer_lost();
    assert_int_equal(pipe(ends), 0);
    stderr_to(ends[1]);
    for (int64_t i = 0; i < LINES; i++)
        put(i, WIDTH);
    int64_t lost = log_writer_lost() - before;
    log_writer_flush(SECOND_NS / 100); /* the flush must end after this time, although nobody reads the pipe */
    assert_true(lost > LINES / 2);     /* the pipe and the ring hold fewer than half of the lines */
    assert_true((LINES - lost) * WIDTH > LOG_RING_BYTES / 2);
    int reading = dup(ends[0]);
    put(LINES, WIDTH); /* this line is lost, or follows a LOST line */
    int64_t told = read_up_to(reading, WIDTH, LINES);
    assert_int_equal(told, log_writer_lost() - before);
    log_writer_flush(LONG_NS);
    stderr_back();
    close(ends[0]);
    close(ends[1]);
}

static void test_lines_that_cannot_be_written_are_counted(void **context)
{
    (void)context;
    int ends[2];
    int64_t before = log_writer_lost();
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    stderr_to(ends[1]);
    for (int64_t i = 0; i < 3; i++) {
        put(i, 10);
        log_writer_flush(LONG_NS);
    }
    assert_int_equal(log_writer_lost() - before, 3);
    stderr_back();
    close(ends[1]);
    assert_int_equal(pipe(ends), 0);
    stderr_to(ends[1]);
    put(3, 10);
    assert_int_equal(read_up_to(ends[0], 10, 3), 3);
    log_writer_flush(LONG_NS);
    stderr_back();
    close(ends[1]);
    assert_int_equal(log_writer_lost() - before, 3);
}

/* A limit of the file's size imitates a full disk. If only a part of a line is written, the next text still begins on a
 * new line. */
static void test_a_torn_line_spoils_no_other(void **context)
{
    (void)context;
    char name[] = "/tmp/linformerd-log-XXXXXX", text[256] = "";
    int file = mkstemp(name);
    struct rlimit limit;
    assert_true(file >= 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit small = limit;
    small.rlim_cur = 25;
    stderr_to(file);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    put(0, 19);
    put(1, 19);
    log_writer_flush(LONG_NS);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    put(2, 19);
    log_writer_flush(LONG_NS);
    stderr_back();
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    assert_true(length > 0);
    assert_string_equal(text, "0000000000000000000\n00000\nLOST 1\n0000000000000000002\n");
    close(file);
    remove(name);
}

#define WRITERS 4
#define LINES_EACH 2000

static void *put_many(void *argument)
{
    for (int i = 0; i < LINES_EACH; i++)
        put(*(const int *)argument * LINES_EACH + i, 100);
    return NULL;
}

/* Several threads write at the same time. Lines are complete, the lines of each thread are in order, and missing lines
 * are counted. */
static void test_lines_of_many_writers_are_whole_and_in_order(void **context)
{
    (void)context;
    static const int numbers[WRITERS] = {0, 1, 2, 3};
    pthread_t threads[WRITERS];
    int64_t next[WRITERS] = {0}, found = 0, told = 0, before = log_writer_lost();
    int ends[2];
    char line[256];
    assert_int_equal(pipe(ends), 0);
    stderr_to(ends[1]);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, (void *)&numbers[i]), 0);
    FILE *file = fdopen(ends[0], "r");
    while (found + told < WRITERS * LINES_EACH) {
        long long lost;
        assert_non_null(fgets(line, sizeof line, file));
        if (sscanf(line, "LOST %lld", &lost) == 1) {
            told += lost;
            continue;
        }
        assert_int_equal(strlen(line), 101);
        int64_t number = strtoll(line, NULL, 10), writer = number / LINES_EACH;
        assert_true(writer < WRITERS && number % LINES_EACH >= next[writer]);
        next[writer] = number % LINES_EACH + 1;
        found++;
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    log_writer_flush(LONG_NS);
    stderr_back();
    fclose(file);
    close(ends[1]);
    assert_int_equal(told, log_writer_lost() - before);
}

static void test_callers_write_lines_before_the_thread_starts(void **context)
{
    (void)context;
    char line[64] = "";
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    stderr_to(ends[1]);
    put(7, 4);
    stderr_back();
    assert_int_equal(read(ends[0], line, sizeof line - 1), 5); /* put has already written the line itself */
    assert_string_equal(line, "0007\n");
    close(ends[0]);
    close(ends[1]);
    struct error error;
    assert_int_equal(log_writer_start(lost_line, &error), 0);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callers_write_lines_before_the_thread_starts),
        cmocka_unit_test(test_without_a_reader_nothing_waits),
        cmocka_unit_test(test_lines_that_cannot_be_written_are_counted),
        cmocka_unit_test(test_a_torn_line_spoils_no_other),
        cmocka_unit_test(test_lines_of_many_writers_are_whole_and_in_order),
    };
    return cmocka_run_group_tests_name("log_writer", tests, NULL, NULL);
}
