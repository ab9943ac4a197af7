/* A file that does not fit the class is refused before its data is read. */
#include "engine/engine.h"
#include "tests/unit/sparse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE_ROWS 655360 /* number of rows of 8192 floats that have SPARSE_BYTES bytes */
#define MAX_READ (1 << 20)

struct tensor {
    const char *name, *dtype;
    int64_t rows, columns; /* rows is 0 for a vector of `columns` elements */
};

#define COMMON                                                                           \
    {"proj_k", "F32", 6, 3}, {"to_k.weight", "F32", 8, 8}, {"to_out.bias", "F32", 0, 8}, \
        {"to_out.weight", "F32", 8, 8},                                                  \
    {                                                                                    \
        "to_q.weight", "F32", 8, 8                                                       \
    }

#define MAX_TENSORS 8

static const struct {
    const char *what, *expected; /* name of the test, expected part of the message (NULL if the file fits) */
    struct tensor tensors[MAX_TENSORS];
} files[] = {
    {"a wrong shape",
     "tensor \"to_v.weight\": expected shape [8, 8], found [655360, 8192]",
     {COMMON, {"proj_v", "F32", 6, 3}, {"to_v.weight", "F32", LARGE_ROWS, 8192}}},
    {"a missing name",
     "tensor \"proj_v\" [6, 3] is missing",
     {COMMON, {"to_v.weight", "F32", 8, 8}, {"other", "F32", LARGE_ROWS, 8192}}},
    {"a surplus name",
     "tensor \"other\" [655360, 8192] has no counterpart",
     {COMMON, {"proj_v", "F32", 6, 3}, {"to_v.weight", "F32", 8, 8}, {"other", "F32", LARGE_ROWS, 8192}}},
    {"a wrong dtype",
     "tensor \"to_v.weight\": expected dtype F32, F16, BF16 or F64, found I64",
     {COMMON, {"proj_v", "F32", 6, 3}, {"to_v.weight", "I64", 8, 8}, {"ignored", "F32", LARGE_ROWS, 8192}}},
    {"a file that fits", NULL, {COMMON, {"proj_v", "F32", 6, 3}, {"to_v.weight", "F32", 8, 8}}},
};
#define N_FILES (sizeof files / sizeof *files)

static char folder[] = "/tmp/linformerd-fit-XXXXXX", file_path[64], index_path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(file_path, sizeof file_path, "%s/one.safetensors", folder);
    snprintf(index_path, sizeof index_path, "%s/m.index.json", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file_path);
    unlink(index_path);
    return rmdir(folder);
}

/* Writes a file with these tensors, whose elements are zeros. Returns the number of bytes of the data. */
static int64_t write_file(const struct tensor *tensors)
{
    char header[2048] = "{";
    int64_t offset = 0;
    for (int i = 0; i < MAX_TENSORS && tensors[i].name; i++) {
        const struct tensor *tensor = &tensors[i];
        int64_t bytes = (tensor->rows ? tensor->rows : 1) * tensor->columns * (tensor->dtype[0] == 'I' ? 8 : 4);
        char rows[32] = "";
        if (tensor->rows)
            snprintf(rows, sizeof rows, "%lld, ", (long long)tensor->rows);
        size_t used = strlen(header);
        snprintf(header + used, sizeof header - used,
                 "%s\"%s\": {\"dtype\": \"%s\", \"shape\": [%s%lld], \"data_offsets\": [%lld, %lld]}", i ? ", " : "",
                 tensor->name, tensor->dtype, rows, (long long)tensor->columns, (long long)offset,
                 (long long)(offset + bytes));
        offset += bytes;
    }
    strcat(header, "}");
    sparse_write(file_path, header, offset);
    return offset;
}

static void write_index(const struct tensor *tensors)
{
    FILE *file = fopen(index_path, "w");
    assert_non_null(file);
    for (int i = 0; i < MAX_TENSORS && tensors[i].name; i++)
        fprintf(file, "%s\"%s\": \"one.safetensors\"", i ? ", " : "{\"weight_map\": {", tensors[i].name);
    fputs("}}", file);
    assert_int_equal(fclose(file), 0);
}

static void load(struct engine *engine, const char *path, const char *expected, int64_t data_bytes)
{
    static const char text[] = "{\"architecture\": \"linformer.LinformerSelfAttention\", \"ignore\": [\"ignored\"], "
                               "\"kwargs\": {\"dim\": 8, \"seq_len\": 6, \"k\": 3, \"heads\": 2}}";
    struct model_config config;
    struct weights *weights;
    struct model *model = NULL;
    struct error error = {""};
    assert_int_equal(model_config_parse(text, sizeof text - 1, "config.json", &config, &error), 0);
    int64_t before = sparse_bytes_read();
    if (weights_open(path, &weights, &error) != 0)
        fail_msg("%s", error.message);
    assert_in_range(sparse_bytes_read() - before, 0, MAX_READ);
    int status = engine_load(engine, &config, weights, NULL, NULL, &model, &error);
    int64_t read = sparse_bytes_read() - before;
    if (expected) {
        assert_int_equal(status, -1);
        if (!strstr(error.message, expected) || !strstr(error.message, path))
            fail_msg("'%s' is not in '%s'", expected, error.message);
        assert_in_range(read, 0, MAX_READ);
    } else {
        if (status != 0)
            fail_msg("%s", error.message);
        assert_true(read >= data_bytes);
    }
    model_close(model);
    weights_close(weights);
    model_config_free(&config);
}

static void a_file_that_does_not_fit_is_not_read(void **state)
{
    (void)state;
    struct engine *engine;
    struct error error;
    struct engine_options options = {.device = {DEVICE_CPU}, .max_batch_tokens = 32, .max_batch_requests = 4};
    if (engine_open(&options, &engine, &error) != 0)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < N_FILES; i++) {
        print_message("%s\n", files[i].what);
        int64_t data_bytes = write_file(files[i].tensors);
        write_index(files[i].tensors);
        assert_true(!files[i].expected || data_bytes >= SPARSE_BYTES);
        load(engine, file_path, files[i].expected, data_bytes);
        load(engine, index_path, files[i].expected, data_bytes);
    }
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_does_not_fit_is_not_read),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
