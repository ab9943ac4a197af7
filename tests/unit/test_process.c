/* Compares the kernel's data about this process with what the test has done. */
#include "server/common/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MEMORY ((size_t)64 << 20)

/* Counts the open descriptors by trying each number below 1000. */
static int64_t count_descriptors(void)
{
    int64_t count = 0;
    for (int number = 0; number < 1000; number++)
        count += fcntl(number, F_GETFD) >= 0;
    return count;
}

static void test_open_descriptors_are_counted(void **state)
{
    (void)state;
    int opened[20];
    struct rlimit limit;
    int64_t before = process_state_now().open_fds;
    assert_int_equal(before, count_descriptors());
    for (size_t i = 0; i < 20; i++)
        assert_true((opened[i] = open("/dev/null", O_RDONLY)) >= 0);
    assert_int_equal(process_state_now().open_fds, before + 20);
    for (size_t i = 0; i < 20; i++)
        close(opened[i]);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_cur > 99 ? 99 : limit.rlim_cur;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(process_state_now().max_fds, (int64_t)limit.rlim_cur);
}

static void test_mapped_and_resident_memory_are_counted(void **state)
{
    (void)state;
    struct process_state before = process_state_now();
    char *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    int64_t grown = process_state_now().virtual_bytes - before.virtual_bytes;
    assert_true(grown >= (int64_t)MEMORY && grown < 2 * (int64_t)MEMORY);
    memset(memory, 1, MEMORY);
    grown = process_state_now().resident_bytes - before.resident_bytes;
    assert_true(grown > (int64_t)MEMORY * 9 / 10 && grown < 2 * (int64_t)MEMORY);
    munmap(memory, MEMORY);
}

static void *wait_for_unlock(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

static void test_a_new_thread_is_counted(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    int64_t before = process_state_now().threads;
    pthread_mutex_lock(&lock);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_unlock, &lock), 0);
    assert_int_equal(process_state_now().threads, before + 1);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void test_start_time_and_processor_time_are_reported(void **state)
{
    (void)state;
    double started_s = process_started_s(), now_s = (double)time(NULL);
    /* The comparison allows two seconds, because the kernel rounds the time of its own start to a second. */
    assert_true(started_s > now_s - 3600 && started_s < now_s + 2);
    double before_s = process_state_now().cpu_s;
    clock_t until = clock() + CLOCKS_PER_SEC / 20;
    while (clock() < until)
        ;
    double used_s = process_state_now().cpu_s - before_s;
    assert_true(used_s >= 0.04 && used_s < 60);
}

/* The kernel's file contains the name of the process in brackets, before the numbers. Brackets and numbers in the name
 * must not confuse the reader. */
static void test_a_process_name_with_brackets_is_skipped(void **state)
{
    (void)state;
    assert_int_equal(prctl(PR_SET_NAME, ") R 1 (2)"), 0);
    struct process_state process = process_state_now();
    assert_true(process.threads >= 1 && process.threads < 100);
    assert_true(process.resident_bytes > 0 && process.resident_bytes < process.virtual_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mapped_and_resident_memory_are_counted),
        cmocka_unit_test(test_a_new_thread_is_counted),
        cmocka_unit_test(test_start_time_and_processor_time_are_reported),
        cmocka_unit_test(test_a_process_name_with_brackets_is_skipped),
        cmocka_unit_test(test_open_descriptors_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
