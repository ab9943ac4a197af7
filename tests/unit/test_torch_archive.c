/* Tests of the reader of torch.save's files, which PyTorch wrote (tests/torch/make.py). The expected values are those
 * that the script passes to torch.save. If a file is refused, the message gives the reason. A damaged archive does no
 * harm, whichever byte is wrong. */
#define _GNU_SOURCE /* memmem */
#include "weights/torch_archive.h"
#include "weights/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CORPUS "tests/fuzz/corpus/pickle/"

static struct weights *open_case(const char *name)
{
    char path[256];
    struct weights *weights = NULL;
    struct error error = {""};
    snprintf(path, sizeof path, CORPUS "%s.pt", name);
    if (weights_open(path, &weights, &error) != 0 || weights_read(weights, &error) != 0)
        fail_msg("%s", error.message);
    return weights;
}

static void expect_values(const struct weights *weights, const char *name, int rank, const int64_t *shape,
                          const float *expected, size_t count)
{
    const struct weights_tensor *tensor = weights_find(weights, name);
    float values[32] = {0};
    if (!tensor)
        fail_msg("no tensor %s", name);
    assert_int_equal(tensor->rank, rank);
    assert_memory_equal(tensor->shape, shape, (size_t)rank * sizeof *shape);
    assert_int_equal(tensor->elements, count);
    weights_to_f32(tensor, values);
    assert_memory_equal(values, expected, count * sizeof *expected);
}

static void each_number_format_is_read(void **state)
{
    (void)state;
    static const char *const names[] = {"float64", "float32", "float16", "bfloat16", "int64",
                                        "int32",   "int16",   "int8",    "uint8",    "bool"};
    static const char *const dtypes[] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"};
    static const float values[] = {0, 1, 2, 3}, truths[] = {0, 1, 1, 1};
    struct weights *weights = open_case("dtypes");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        expect_values(weights, names[i], 1, (const int64_t[]){4}, i == 9 ? truths : values, 4);
        assert_string_equal(weights_dtype_name(weights_find(weights, names[i])->dtype), dtypes[i]);
    }
    weights_close(weights);
}

/* All tensors are views of one row with the numbers 0 to 15. */
static void views_of_one_storage_have_their_own_values(void **state)
{
    (void)state;
    struct weights *weights = open_case("views");
    float row[16], transposed[16];
    for (int i = 0; i < 16; i++) {
        row[i] = (float)i;
        transposed[i] = (float)(i % 4 * 4 + i / 4);
    }
    assert_int_equal(weights_count(weights), 6); /* "whole" and "again" are the same tensor */
    expect_values(weights, "whole", 1, (const int64_t[]){16}, row, 16);
    assert_ptr_equal(weights_find(weights, "whole"), weights_find(weights, "again"));
    expect_values(weights, "transposed", 2, (const int64_t[]){4, 4}, transposed, 16);
    expect_values(weights, "slice", 1, (const int64_t[]){3}, (const float[]){2, 5, 8}, 3);
    expect_values(weights, "scalar", 0, NULL, (const float[]){3}, 1);
    expect_values(weights, "expanded", 2, (const int64_t[]){3, 1}, (const float[]){0, 0, 0}, 3);
    expect_values(weights, "empty", 1, (const int64_t[]){0}, NULL, 0);
    weights_close(weights);
}

static void all_forms_of_a_state_dict_have_the_same_tensors(void **state)
{
    (void)state;
    static const char *const names[] = {"state_dict",     "parameters", "model", "protocol4",
                                        "state_dict_key", "protocol5",  "zip64"};
    struct weights *expected = open_case("state_dict");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct weights *weights = open_case(names[i]);
        assert_int_equal(weights_count(weights), 2);
        const struct weights_tensor *weight = weights_find(weights, "weight"), *bias = weights_find(weights, "bias");
        assert_true(weight && weight->rank == 2 && weight->shape[0] == 2 && weight->shape[1] == 3);
        assert_true(bias && bias->rank == 1 && bias->shape[0] == 2);
        if (strcmp(names[i], "zip64") == 0 || strcmp(names[i], "protocol4") == 0)
            assert_memory_equal(weight->data, weights_find(expected, "weight")->data, weight->bytes);
        weights_close(weights);
    }
    weights_close(expected);
    struct weights *weights = open_case("model_state_dict");
    assert_non_null(weights_find(weights, "num_batches_tracked"));
    weights_close(weights);
}

static void refused_files_name_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *name, *expected;
    } cases[] = {
        {"system", "the file uses posix.system, which is not supported in a file of weights; save the weights alone: "
                   "torch.save(model.state_dict(), \"model.pt\")"},
        {"eval4", "the file uses builtins.eval, which is not supported"},
        {"whole_module", "the file uses torch.nn.modules.linear.Linear, which is not supported"},
        {"complex", "the file uses torch.ComplexFloatStorage"},
        {"sparse", "the file uses torch._utils._rebuild_sparse_tensor"},
        {"uint16", "the file uses torch._utils._rebuild_tensor_v3"},
        {"old_format",
         "is a pickle without a zip archive, as written by torch.save before PyTorch 1.6; load it in Python"},
        {"big_endian", "has the byte order \"big\", expected \"little\""},
        {"bomb", "tensor 'a': the tensors together have more than 4 times the bytes of the file"},
        {"compressed", "byteorder' of the zip archive is compressed; torch.save does not compress"},
        {"cut", "is a damaged zip archive: its end record is missing, or more bytes follow it"},
        {"script", "is a TorchScript archive; save the weights alone"},
        {"short_storage", "tensor 'weight': its storage 'data/0' has 23 bytes; expected 6 elements of F32"},
        {"two", "has several state_dicts, under \"model\" and \"ema\""},
        {"repeated", "has one dictionary under several keys; save the weights alone"},
        {"other_key", "has its tensors under \"weights\", expected \"state_dict\", \"model\" or \"model_state_dict\""},
        {"integers", "has an integer under \"a\", expected a tensor"},
        {"number_key", "has a tensor under 1, expected a name"},
        {"list", "contains a list, expected a dictionary"},
        {"tensor", "contains a tensor, expected a dictionary"},
        {"empty", "contains no tensor"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        struct weights *weights = NULL;
        struct error error = {""};
        snprintf(path, sizeof path, CORPUS "%s.pt", cases[i].name);
        assert_int_equal(weights_open(path, &weights, &error), -1);
        if (!strstr(error.message, cases[i].expected) || strncmp(error.message, path, strlen(path)) != 0)
            fail_msg("'%s' is not in '%s'", cases[i].expected, error.message);
    }
}

/* ---- Damaged archives ---- */

static char *read_case(const char *name, size_t *size)
{
    char path[256];
    struct error error = {""};
    snprintf(path, sizeof path, CORPUS "%s.pt", name);
    char *bytes = file_read(path, 1 << 20, size, &error);
    if (!bytes)
        fail_msg("%s", error.message);
    return bytes;
}

static int open_bytes(const char *bytes, size_t size, struct error *error)
{
    struct zip_source source = {.bytes = bytes, .file = -1, .size = size};
    struct torch_archive *archive;
    int status = torch_archive_open(&source, &archive, error);
    if (status == 0)
        torch_archive_close(archive);
    return status;
}

static void an_archive_that_is_cut_anywhere_is_refused(void **state)
{
    (void)state;
    size_t size;
    char *bytes = read_case("state_dict", &size);
    for (size_t length = 0; length < size; length++) {
        /* A separate block without surplus bytes, so that the address sanitizer finds reads beyond its end. */
        char *copy = malloc(length ? length : 1);
        struct error error = {""};
        memcpy(copy, bytes, length);
        if (open_bytes(copy, length, &error) == 0)
            fail_msg("%zu of %zu bytes were accepted", length, size);
        assert_true(error.message[0] != '\0');
        free(copy);
    }
    free(bytes);
}

/* Returns row `index` of the archive's directory. */
static char *directory_row(char *bytes, size_t size, int index)
{
    size_t at = 0;
    for (int found = -1; at + 4 <= size; at++)
        if (memcmp(bytes + at, "PK\1\2", 4) == 0 && ++found == index)
            return bytes + at;
    fail_msg("no row %d", index);
    return NULL;
}

static void hostile_directories_are_refused(void **state)
{
    (void)state;
    static const struct {
        int row, at, length;
        uint64_t value;
        const char *expected;
    } cases[] = {
        {1, 42, 4, 0, "overlaps"},
        {0, 42, 4, 100000000, "it begins at byte 100000000, and does not end before the directory"},
        {0, 42, 4, 7, "its header is missing at byte 7, where the directory places it"},
        {4, 24, 4, 100000000, "it is not compressed, but its sizes differ"},
        {4, 8, 2, 1, "it is encrypted"},
        {4, 28, 2, 60000, "of its directory is cut off"},
        {2, 0, 4, 0, "entry 2 of its directory is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size;
        struct error error = {""};
        char *bytes = read_case("state_dict", &size), *row = directory_row(bytes, size, cases[i].row);
        for (int b = 0; b < cases[i].length; b++)
            row[cases[i].at + b] = (char)(cases[i].value >> (8 * b));
        assert_int_equal(open_bytes(bytes, size, &error), -1);
        if (!strstr(error.message, cases[i].expected))
            fail_msg("case %zu: '%s' is not in '%s'", i, cases[i].expected, error.message);
        free(bytes);
    }
}

/* Both sizes of an entry are set to 4 GiB - 2, so the entry would end behind the data. */
static void an_entry_beyond_the_file_is_refused(void **state)
{
    (void)state;
    size_t size;
    struct error error = {""};
    char *bytes = read_case("state_dict", &size), *row = directory_row(bytes, size, 4);
    memcpy(row + 20, "\xfe\xff\xff\xff\xfe\xff\xff\xff", 8);
    assert_int_equal(open_bytes(bytes, size, &error), -1);
    assert_non_null(strstr(error.message, "extend beyond the data"));
    free(bytes);
}

/* The tensor "weight" is (2, 3). The pickle contains its shape, its strides (3, 1) and its offset 0 as numbers of one
 * byte, which the test changes. */
static void a_tensor_beyond_its_storage_is_refused(void **state)
{
    (void)state;
    static const char shape[] = "K\2K\3\x86", strides[] = "K\3K\1\x86";
    static const struct {
        const char *bytes;
        int at;
        char value;
        const char *expected;
    } cases[] = {
        {shape, 1, 9, "its elements extend beyond its storage of 6 elements: shape [9, 3], strides [3, 1], offset 0"},
        {shape, -1, 1, "its elements extend beyond its storage of 6 elements: shape [2, 3], strides [3, 1], offset 1"},
        {shape, -1, 7, "it begins at element 7 of its storage, which has 6 elements"},
        {strides, 1, 4, "its elements extend beyond its storage of 6 elements: shape [2, 3], strides [4, 1], offset 0"},
        {strides, 0, 'N', ""},
        {shape, -2, 'h', "the file calls torch._utils._rebuild_tensor_v2: argument 2 is "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size;
        struct error error = {""};
        char *bytes = read_case("state_dict", &size), *found = memmem(bytes, size, cases[i].bytes, 5);
        assert_non_null(found);
        found[cases[i].at] = cases[i].value;
        assert_int_equal(open_bytes(bytes, size, &error), -1);
        if (!strstr(error.message, cases[i].expected))
            fail_msg("'%s' is not in '%s'", cases[i].expected, error.message);
        free(bytes);
    }
}

/* An archive with one wrong byte must be refused, or it can be read. */
static void a_wrong_byte_at_any_place_is_harmless(void **state)
{
    (void)state;
    size_t size;
    char *bytes = read_case("views", &size);
    int refused = 0;
    for (size_t i = 0; i < size; i++) {
        char kept = bytes[i];
        struct zip_source source = {.bytes = bytes, .file = -1, .size = size};
        struct torch_archive *archive;
        struct error error = {""};
        bytes[i] = (char)(kept ^ 0x55);
        if (torch_archive_open(&source, &archive, &error) == 0) {
            assert_int_equal(torch_archive_read(archive, &source, &error), 0);
            torch_archive_close(archive);
        } else {
            refused++;
        }
        bytes[i] = kept;
    }
    assert_in_range(refused, 300, size);
    free(bytes);
}

static void a_file_that_is_cut_before_its_data_is_read_is_an_error(void **state)
{
    (void)state;
    char path[] = "/tmp/linformerd-torch-XXXXXX.pt";
    size_t size;
    struct weights *weights = NULL;
    struct error error = {""};
    char *bytes = read_case("state_dict", &size);
    int file = mkstemps(path, 3);
    assert_true(file >= 0 && write(file, bytes, size) == (ssize_t)size);
    assert_int_equal(weights_open(path, &weights, &error), 0);
    assert_int_equal(ftruncate(file, 100), 0);
    assert_int_equal(weights_read(weights, &error), -1);
    assert_non_null(strstr(error.message, "became shorter while it was read"));
    weights_close(weights);
    close(file);
    unlink(path);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_format_is_read),
        cmocka_unit_test(views_of_one_storage_have_their_own_values),
        cmocka_unit_test(all_forms_of_a_state_dict_have_the_same_tensors),
        cmocka_unit_test(refused_files_name_the_reason),
        cmocka_unit_test(an_archive_that_is_cut_anywhere_is_refused),
        cmocka_unit_test(hostile_directories_are_refused),
        cmocka_unit_test(an_entry_beyond_the_file_is_refused),
        cmocka_unit_test(a_tensor_beyond_its_storage_is_refused),
        cmocka_unit_test(a_wrong_byte_at_any_place_is_harmless),
        cmocka_unit_test(a_file_that_is_cut_before_its_data_is_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
