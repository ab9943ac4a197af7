#include "tests/unit/sparse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH_BYTES 8

void sparse_write(const char *path, const char *header, int64_t data_bytes)
{
    size_t length = strlen(header);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < LENGTH_BYTES; i++)
        assert_int_not_equal(fputc((int)(length >> (8 * i) & 0xff), file), EOF);
    assert_int_equal(fwrite(header, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(path, (off_t)(LENGTH_BYTES + (int64_t)length + data_bytes)), 0);
}

int64_t sparse_bytes_read(void)
{
    long long count = 0;
    FILE *file = fopen("/proc/self/io", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "rchar: %lld", &count), 1);
    fclose(file);
    return count;
}
