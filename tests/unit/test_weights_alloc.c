#include "tests/unit/alloc_fail.h"
#include "weights/weights.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file_bytes[] = "\x4e\0\0\0\0\0\0\0"
                                 "{\"__metadata__\":{\"b\":\"a\"},"
                                 "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
                                 "xy";

static int open_and_close_memory(struct error *error)
{
    struct weights *weights;
    if (weights_open_memory(file_bytes, sizeof file_bytes - 1, "memory", &weights, error) != 0)
        return -1;
    weights_close(weights);
    return 0;
}

static char path[] = "/tmp/linformerd-weights-XXXXXX";

static int open_and_close_file(struct error *error)
{
    struct weights *weights;
    if (weights_open(path, &weights, error) != 0)
        return -1;
    int status = weights_read(weights, error);
    weights_close(weights);
    return status;
}

static char index_path[] = "/tmp/linformerd-weights-XXXXXX.index.json";

static int open_and_close_index(struct error *error)
{
    struct weights *weights;
    if (weights_open(index_path, &weights, error) != 0)
        return -1;
    int status = weights_read(weights, error);
    weights_close(weights);
    return status;
}

static int open_and_close_torch(struct error *error)
{
    struct weights *weights;
    if (weights_open("tests/fuzz/corpus/pickle/views.pt", &weights, error) != 0)
        return -1;
    int status = weights_read(weights, error);
    weights_close(weights);
    return status;
}

static void opening_torch_survives_each_failure(void **state)
{
    (void)state;
    assert_true(alloc_fail_each(open_and_close_torch) > 20);
}

static void opening_memory_survives_each_failure(void **state)
{
    (void)state;
    assert_true(alloc_fail_each(open_and_close_memory) > 4);
}

static void opening_files_survives_each_failure(void **state)
{
    (void)state;
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, file_bytes, sizeof file_bytes - 1) == (ssize_t)sizeof file_bytes - 1);
    close(file);
    assert_true(alloc_fail_each(open_and_close_file) > 5);
    int index = mkstemps(index_path, (int)strlen(".index.json"));
    assert_true(index >= 0 && dprintf(index, "{\"metadata\": {\"c\": \"a\"}, \"weight_map\": {\"a\": \"%s\"}}",
                                      strrchr(path, '/') + 1) > 0);
    close(index);
    assert_true(alloc_fail_each(open_and_close_index) > 9);
    unlink(index_path);
    unlink(path);
}

int main(void)
{
    json_set_alloc_funcs(malloc, free);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_memory_survives_each_failure),
        cmocka_unit_test(opening_files_survives_each_failure),
        cmocka_unit_test(opening_torch_survives_each_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
