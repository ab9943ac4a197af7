/* Tests of the memory limits of control groups, which are read from folders that imitate the kernel's files. */
#include "server/common/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

static void put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/test_memory.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void without_control_groups_the_machine_is_the_limit(void **state)
{
    (void)state;
    assert_true(memory_bytes(root) > 100 << 20);
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "max\n");
    assert_true(memory_bytes(root) > 100 << 20);
}

static void the_smallest_limit_of_the_outer_groups_counts(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/outer/inner\n");
    put("/sys/fs/cgroup/outer/inner/memory.max", "5000000\n");
    assert_int_equal(memory_bytes(root), 5000000);
    put("/sys/fs/cgroup/outer/memory.max", "4000000\n");
    assert_int_equal(memory_bytes(root), 4000000);
    put("/proc/self/cgroup", "0::/elsewhere/not/mounted\n");
    put("/sys/fs/cgroup/memory.max", "6000000\n");
    assert_int_equal(memory_bytes(root), 6000000);
}

static void limits_of_control_groups_version_1_count(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "3:cpu:/a\n2:memory:/docker/id\n1:name=systemd:/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(memory_bytes(root) > 100 << 20);
    put("/sys/fs/cgroup/memory/docker/id/memory.limit_in_bytes", "536870912\n");
    assert_int_equal(memory_bytes(root), 536870912);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_control_groups_the_machine_is_the_limit, make_root, remove_root),
        cmocka_unit_test_setup_teardown(the_smallest_limit_of_the_outer_groups_counts, make_root, remove_root),
        cmocka_unit_test_setup_teardown(limits_of_control_groups_version_1_count, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
