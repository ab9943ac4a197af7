#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY 65534

static void refuse(const char *path, size_t limit, const char *expected)
{
    size_t length;
    struct error error = {""};
    assert_null(file_read(path, limit, &length, &error));
    if (strncmp(error.message, path, strlen(path)) != 0 || !strstr(error.message, expected))
        fail_msg("'%s' is not in '%s'", expected, error.message);
}

static void reads_all_bytes_up_to_the_limit(void **state)
{
    (void)state;
    char path[] = "/tmp/linformerd-file-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, "a\0b", 3) == 3);
    size_t length = 0;
    struct error error = {""};
    char *bytes = file_read(path, 3, &length, &error);
    assert_non_null(bytes);
    assert_int_equal(length, 3);
    assert_memory_equal(bytes, "a\0b", 4); /* three bytes, and the zero byte that file_read appends */
    free(bytes);
    refuse(path, 2, "has 3 bytes, expected at most 2");
    assert_int_equal(ftruncate(file, 0), 0);
    bytes = file_read(path, 0, &length, &error);
    assert_non_null(bytes);
    assert_int_equal(length, 0);
    free(bytes);
    close(file);
    unlink(path);
}

static void refuses_folders_pipes_and_devices(void **state)
{
    (void)state;
    char folder[] = "/tmp/linformerd-folder-XXXXXX", pipe[64];
    assert_non_null(mkdtemp(folder));
    refuse(folder, 100, "is a folder, expected a regular file");
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    refuse(pipe, 100, "cannot be opened: No such file");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    refuse(pipe, 100, "is a pipe, expected a regular file"); /* file_read must not wait for a writer of the pipe */
    refuse("/dev/null", 100, "is a device or socket");
    unlink(pipe);
    rmdir(folder);
}

static void refuses_files_without_permission(void **state)
{
    (void)state;
    char path[] = "/tmp/linformerd-file-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && fchmod(file, 0) == 0);
    bool is_root = geteuid() == 0; /* the test changes its user, because root may read all files */
    assert_true(!is_root || seteuid(NOBODY) == 0);
    refuse(path, 100, "cannot be opened: Permission denied");
    assert_true(!is_root || seteuid(0) == 0);
    close(file);
    unlink(path);
}

/* The kernel states a larger size for this file than it has bytes. The effect is the same as when a file is cut while
 * it is read. */
static void refuses_a_file_that_is_cut_while_it_is_read(void **state)
{
    (void)state;
    const char *attribute = "/sys/class/net/lo/mtu"; /* its stated size is 4096 */
    struct stat status;
    if (stat(attribute, &status) != 0 || status.st_size < 4096)
        skip();
    refuse(attribute, 8192, "became shorter while it was read: expected 4096 more bytes, found ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_bytes_up_to_the_limit),
        cmocka_unit_test(refuses_folders_pipes_and_devices),
        cmocka_unit_test(refuses_files_without_permission),
        cmocka_unit_test(refuses_a_file_that_is_cut_while_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
