#include "tests/unit/sparse.h"
#include "weights/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH_BYTES 8

/* Makes a safetensors file with this header, and with `data_size` bytes of data: 0, 1, 2 and so on. The block has
 * exactly the size of the file. The caller frees the block. */
static unsigned char *build_file(const char *header, size_t header_size, size_t data_size, size_t *size)
{
    *size = LENGTH_BYTES + header_size + data_size;
    unsigned char *file = malloc(*size);
    assert_non_null(file);
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        file[i] = (unsigned char)(header_size >> (8 * i));
    memcpy(file + LENGTH_BYTES, header, header_size);
    for (size_t i = 0; i < data_size; i++)
        file[LENGTH_BYTES + header_size + i] = (unsigned char)i;
    return file;
}

static void refuse_bytes(const void *bytes, size_t size, const char *expected)
{
    struct weights *weights = NULL;
    struct error error = {""};
    assert_int_equal(weights_open_memory(bytes, size, "m.safetensors", &weights, &error), -1);
    assert_null(weights);
    if (strncmp(error.message, "m.safetensors: ", 15) != 0 || !strstr(error.message, expected))
        fail_msg("'%s' is not in '%s'", expected, error.message);
}

static void refuse_header(const char *header, size_t header_size, size_t data_size, const char *expected)
{
    size_t size;
    unsigned char *file = build_file(header, header_size, data_size, &size);
    refuse_bytes(file, size, expected);
    free(file);
}

static void refuse(const char *header, size_t data_size, const char *expected)
{
    refuse_header(header, strlen(header), data_size, expected);
}

/* Opens a file with this header. The caller closes the weights, then frees *file. */
static struct weights *open_header(const char *header, size_t data_size, unsigned char **file)
{
    size_t size;
    struct weights *weights = NULL;
    struct error error = {""};
    *file = build_file(header, strlen(header), data_size, &size);
    if (weights_open_memory(*file, size, "m.safetensors", &weights, &error) != 0)
        fail_msg("%s", error.message);
    return weights;
}

#define A "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}"
#define B "\"b\":{\"dtype\":\"F16\",\"shape\":[1,3],\"data_offsets\":[2,8]}"
#define A_FILE "{" A "}"

static void reads_tensors_in_the_order_of_their_data(void **state)
{
    (void)state;
    unsigned char *file;
    struct weights *weights =
        open_header("{" B "," A ",\"__metadata__\":{\"format\":\"pt\",\"by\":\"hand\"}}   ", 8, &file);
    assert_string_equal(weights_origin(weights), "m.safetensors");
    assert_int_equal(weights_count(weights), 2);
    const struct weights_tensor *a = weights_at(weights, 0), *b = weights_at(weights, 1);
    assert_string_equal(a->name, "a");
    assert_int_equal(a->dtype, WEIGHTS_U8);
    assert_int_equal(a->rank, 1);
    assert_int_equal(a->bytes, 2);
    assert_memory_equal(a->data, "\0\1", 2);
    assert_string_equal(b->name, "b");
    assert_int_equal(b->dtype, WEIGHTS_F16);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 1);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->elements, 3);
    assert_memory_equal(b->data, "\2\3\4\5\6\7", 6);
    assert_ptr_equal(weights_find(weights, "a"), a);
    assert_ptr_equal(weights_find(weights, "b"), b);
    assert_null(weights_find(weights, "c"));
    assert_null(weights_find(weights, ""));
    assert_null(weights_find(weights, "__metadata__"));
    assert_int_equal(weights_index(weights, b), 1);
    weights_close(weights);
    free(file);
    weights_close(NULL);
}

static void a_file_without_tensors_is_accepted(void **state)
{
    (void)state;
    unsigned char *file;
    struct weights *weights = open_header("{}", 0, &file);
    assert_int_equal(weights_count(weights), 0);
    assert_null(weights_find(weights, "a"));
    weights_close(weights);
    free(file);
}

static void tensors_may_be_scalars_or_have_no_elements(void **state)
{
    (void)state;
    unsigned char *file;
    struct weights *weights = open_header("{\"s\":{\"dtype\":\"U16\",\"shape\":[],\"data_offsets\":[0,2]},"
                                          "\"end\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[2,2]},"
                                          "\"start\":{\"dtype\":\"F32\",\"shape\":[3,0,2],\"data_offsets\":[0,0]}}",
                                          2, &file);
    assert_int_equal(weights_find(weights, "s")->rank, 0);
    assert_int_equal(weights_find(weights, "s")->elements, 1);
    assert_int_equal(weights_find(weights, "start")->elements, 0);
    assert_int_equal(weights_find(weights, "end")->bytes, 0);
    weights_to_f32(weights_find(weights, "end"), NULL);
    weights_close(weights);
    free(file);
}

static void other_names_in_the_metadata_are_found(void **state)
{
    (void)state;
    unsigned char *file;
    struct weights *weights = open_header("{\"__metadata__\":{\"z\":\"a\",\"0\":\"b\",\"m\":\"a\",\"none\":\"c\","
                                          "\"format\":\"a\",\"chain\":\"z\",\"a\":\"is only a note\"}," A "," B "}",
                                          8, &file);
    assert_int_equal(weights_count(weights), 2);
    assert_ptr_equal(weights_find(weights, "z"), weights_find(weights, "a"));
    assert_ptr_equal(weights_find(weights, "m"), weights_find(weights, "a"));
    assert_ptr_equal(weights_find(weights, "0"), weights_find(weights, "b"));
    assert_null(weights_find(weights, "none"));
    assert_null(weights_find(weights, "chain"));
    assert_null(weights_find(weights, "format"));
    weights_close(weights);
    free(file);
    refuse("{\"__metadata__\":{\"b\":\"a\"}," A "," B "}", 8,
           "__metadata__: 'b' is mapped to 'a', but is itself stored in the file");
    refuse("{\"__metadata__\":{\"a\":\"a\"}," A "}", 2,
           "__metadata__: 'a' is mapped to 'a', but is itself stored in the file");
    refuse("{\"__metadata__\":{\"b\":1}}", 0, "__metadata__: the value of 'b' is not a string");
    refuse("{\"__metadata__\":[]}", 0, "__metadata__ is not an object");
    refuse("{\"__metadata__\":null}", 0, "__metadata__ is not an object");
}

static void refuses_an_impossible_length(void **state)
{
    (void)state;
    refuse_bytes("", 0, "is empty, expected a safetensors file");
    refuse_bytes("\2\0\0\0\0\0\0", 7,
                 "has 7 bytes, but a safetensors file begins with 8 bytes, the length of its header");
    refuse_bytes("\2\0\0\0\0\0\0\0{", 9, "is cut off: the header has 2 bytes, but only 1 follow");
    refuse_bytes("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "its header would have 18446744073709551615 bytes");
    refuse_bytes("\1\xe1\xf5\5\0\0\0\0{}", 10, "its header would have 100000001 bytes, expected at most 100000000");
    refuse_bytes("\0\xe1\xf5\5\0\0\0\0{}", 10, "is cut off: the header has 100000000 bytes");
    refuse_bytes("\0\0\0\0\0\0\0\0", 8, "expected { at byte 8");
}

static void files_of_other_formats_are_refused_by_name(void **state)
{
    (void)state;
    refuse_bytes("PK\3\4\0\0\10\10\0", 9,
                 "is a zip archive, as written by torch.save, not a safetensors file: name it model.pt, or save the "
                 "state_dict with safetensors.torch.save_file, or the model with weights/export.py");
    refuse_bytes(
        "\x80\2\x8a\nl\xfc\x9c\x46\xf9", 9,
        "is a pickle, as written by torch.save before PyTorch 1.6, not a safetensors file: save the state_dict");
    refuse_bytes("\x80\2}q\0.\0\0\0", 9, "is a pickle, as written by torch.save before PyTorch 1.6, not a");
    refuse_bytes("\x80\4\x95\3\0\0\0\0\0\0\0}\x94.", 14, "is a pickle, not a safetensors file: save the state_dict");
    refuse_bytes("\x89HDF\r\n\x1a\n", 8,
                 "is an HDF5 file, as written by Keras, not a safetensors file: load the weights into the class and "
                 "save the model with weights/export.py");
    refuse_bytes("GGUF\3\0\0\0\1", 9, "is a GGUF file, not a safetensors file: load the weights");
    refuse_bytes(
        "version https://git-lfs.github.com/spec/v1\n", 43,
        "is a text that looks like a Git LFS pointer, not a safetensors file: fetch the file with \"git lfs pull\"");
}

/* A header of 640 bytes: the first two bytes of this length are \x80 \2, with which a pickle begins. */
static void a_length_may_begin_like_another_format(void **state)
{
    (void)state;
    char header[641];
    unsigned char *file;
    memset(header, ' ', sizeof header);
    memcpy(header, A_FILE, strlen(A_FILE));
    header[640] = '\0';
    struct weights *weights = open_header(header, 2, &file);
    assert_memory_equal(file, "\x80\2", 2);
    weights_close(weights);
    free(file);
}

static void refuses_a_header_that_is_no_object(void **state)
{
    (void)state;
    refuse("[]", 0, "expected { at byte 8");
    refuse(" {}", 0, "expected { at byte 8");
    refuse("{\"a\":", 0, "the header is not valid JSON: ");
    refuse("{}x", 0, "the header is not valid JSON: ");
    refuse("{\"a\xff\":1}", 0, "the header is not valid JSON: ");
    refuse("{\"a\\u0000\":1}", 0, "the header is not valid JSON: ");
    refuse_header("{\"a\"\0:1}", 8, 0, "the header is not valid JSON: ");
    refuse("{" A "," A "}", 2, "duplicate");
    refuse("{\"__metadata__\":{\"b\":\"1\",\"b\":\"2\"}}", 0, "duplicate");
    refuse("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "duplicate");
    char deep[8000];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    refuse_header(deep, sizeof deep, 0, "depth");
}

/* A header with one entry, for the tensor "a". */
#define ENTRY(dtype, shape, offsets) "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void refuses_a_malformed_entry(void **state)
{
    (void)state;
    refuse("{\"a\":1}", 0, "tensor 'a': expected an object with dtype, shape and data_offsets");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, "tensor 'a': the key data_offsets is missing");
    refuse("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}", 0, "tensor 'a': the key shape is missing");
    refuse("{\"a\":{}}", 0, "tensor 'a': the key dtype is missing");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"Dtype\":1}}", 0,
           "tensor 'a': unknown key Dtype");
    refuse(ENTRY("\"F8_E4M3\"", "[1]", "[0,1]"), 1,
           "tensor 'a': unknown dtype F8_E4M3; expected F64, F32, F16 or BF16");
    refuse(ENTRY("\"f32\"", "[1]", "[0,4]"), 4, "tensor 'a': unknown dtype f32");
    refuse(ENTRY("\"\"", "[1]", "[0,4]"), 4, "tensor 'a': unknown dtype ;");
    refuse(ENTRY("3", "[1]", "[0,1]"), 1, "tensor 'a': dtype is not a string");
}

static void refuses_an_impossible_shape(void **state)
{
    (void)state;
    refuse(ENTRY("\"U8\"", "3", "[0,1]"), 1, "tensor 'a': shape is not a list");
    refuse(ENTRY("\"U8\"", "[-1]", "[0,1]"), 1, "tensor 'a': dimension 0 of shape is negative: -1");
    refuse(ENTRY("\"U8\"", "[1,1.0]", "[0,1]"), 1, "tensor 'a': dimension 1 of shape is not an integer");
    refuse(ENTRY("\"U8\"", "[\"1\"]", "[0,1]"), 1, "tensor 'a': dimension 0 of shape is not an integer");
    refuse(ENTRY("\"U8\"", "[true]", "[0,1]"), 1, "tensor 'a': dimension 0 of shape is not an integer");
    refuse(ENTRY("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1,
           "tensor 'a': shape has 9 dimensions, expected at most 8");
    refuse(ENTRY("\"U8\"", "[4611686018427387904,4]", "[0,0]"), 0,
           "tensor 'a': shape [4611686018427387904, 4] has too many elements to count");
    refuse(ENTRY("\"U8\"", "[4611686018427387904,4,0]", "[0,0]"), 0, "has too many elements to count");
    refuse(ENTRY("\"F64\"", "[2305843009213693952]", "[0,0]"), 0,
           "tensor 'a': data_offsets [0, 0] span 0 bytes, which does not match F64 of shape [2305843009213693952]");
    refuse(ENTRY("\"U8\"", "[9223372036854775808]", "[0,0]"), 0, "the header is not valid JSON: too big integer");
}

static void refuses_impossible_offsets(void **state)
{
    (void)state;
    const char *form = "tensor 'a': data_offsets is not a list of two integers";
    refuse(ENTRY("\"U8\"", "[1]", "1"), 1, form);
    refuse(ENTRY("\"U8\"", "[1]", "[0]"), 1, form);
    refuse(ENTRY("\"U8\"", "[1]", "[0,1,2]"), 1, form);
    refuse(ENTRY("\"U8\"", "[1]", "[0,1.0]"), 1, form);
    refuse(ENTRY("\"U8\"", "[1]", "[null,1]"), 1, form);
    refuse(ENTRY("\"U8\"", "[1]", "[1,0]"), 1, "tensor 'a': data_offsets [1, 0] must not decrease or be negative");
    refuse(ENTRY("\"U8\"", "[1]", "[-1,0]"), 1, "tensor 'a': data_offsets [-1, 0] must not decrease or be negative");
    refuse(ENTRY("\"U8\"", "[1]", "[-9223372036854775808,9223372036854775807]"), 1, "must not decrease or be negative");
    refuse(ENTRY("\"U8\"", "[2]", "[0,2]"), 1, "data_offsets [0, 2] end beyond the file, which has 1 bytes of data");
    refuse(ENTRY("\"U8\"", "[1]", "[9223372036854775806,9223372036854775807]"), 1, "end beyond the file");
    refuse(ENTRY("\"F32\"", "[2]", "[0,4]"), 4,
           "data_offsets [0, 4] span 4 bytes, which does not match F32 of shape [2]");
    refuse(ENTRY("\"F32\"", "[0]", "[0,4]"), 4, "which does not match F32 of shape [0]");
    refuse(ENTRY("\"F32\"", "[]", "[0,0]"), 0, "which does not match F32 of shape []");
}

static void refuses_holes_and_overlaps(void **state)
{
    (void)state;
#define AT(name, begin, end, count) \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" count "],\"data_offsets\":[" begin "," end "]}"
    refuse("{" AT("a", "0", "2", "2") "," AT("b", "1", "3", "2") "}", 3,
           "tensor 'b' overlaps 'a': it begins at byte 1 of the data, expected 2");
    refuse("{" AT("a", "0", "2", "2") "," AT("b", "0", "2", "2") "}", 2, "tensor 'b' overlaps 'a'");
    refuse("{" AT("a", "0", "2", "2") "," AT("b", "1", "1", "0") "}", 2, "tensor 'b' overlaps 'a'");
    refuse("{" AT("a", "0", "1", "1") "," AT("b", "2", "3", "1") "}", 3,
           "bytes 1 to 2 of the data, before tensor 'b', belong to no tensor");
    refuse("{" AT("a", "1", "2", "1") "}", 2, "bytes 0 to 1 of the data, before tensor 'a', belong to no tensor");
    refuse("{" AT("a", "0", "1", "1") "}", 3, "the data has 3 bytes, but its tensors end after 1");
    refuse("{}", 1, "the data has 1 bytes, but its tensors end after 0");
}

/* If a name is longer than a message, the message must still contain the reason. Line breaks in a name must not forge a
 * line of the log. */
static void shows_hostile_names_harmlessly(void **state)
{
    (void)state;
    char header[3000];
    memset(header, 'n', sizeof header);
    memcpy(header, "{\"", 2);
    memcpy(header + sizeof header - 5, "\":1}", 4);
    refuse_header(header, sizeof header - 1, 0, "nnn': expected an object with dtype, shape and data_offsets");
    refuse("{\"a\\nb\\u001b[2J\":1}", 0, "tensor 'a?b?[2J': expected an object");
}

/* A file that is cut at any position must be refused, and nothing beyond its end may be read. */
static void refuses_every_truncated_file(void **state)
{
    (void)state;
    size_t size;
    const char *header = "{" A "," B ",\"__metadata__\":{\"c\":\"a\"}}";
    unsigned char *file = build_file(header, strlen(header), 8, &size);
    for (size_t length = 0; length < size; length++) {
        unsigned char *cut = malloc(length ? length : 1);
        assert_non_null(cut);
        memcpy(cut, file, length);
        refuse_bytes(cut, length, "");
        free(cut);
    }
    free(file);
}

static void finds_each_of_many_names(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    char *header = malloc(COUNT * 80 + 3);
    assert_non_null(header);
    size_t length = 0;
    for (int i = 0; i < COUNT; i++)
        length += (size_t)sprintf(header + length,
                                  "%c\"layers.%d.w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                                  i ? ',' : '{', i, COUNT - 1 - i, COUNT - i);
    strcpy(header + length, "}");
    unsigned char *file;
    struct weights *weights = open_header(header, COUNT, &file);
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%d.w", i);
        const struct weights_tensor *tensor = weights_find(weights, name);
        assert_non_null(tensor);
        assert_string_equal(tensor->name, name);
        assert_int_equal(weights_index(weights, tensor), COUNT - 1 - i);
    }
    weights_close(weights);
    free(file);
    free(header);
}

static void a_large_file_with_a_wrong_header_is_not_read(void **state)
{
    (void)state;
    static const struct {
        const char *header, *expected;
    } cases[] = {
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}", "its tensors end after 8"},
        {"{\"a\": {\"dtype\": \"F31\", \"shape\": [2], \"data_offsets\": [0, 8]}}", "unknown dtype F31"},
        {"no JSON", "the header is not a JSON object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/linformerd-test-XXXXXX";
        int file = mkstemp(path);
        assert_true(file >= 0);
        close(file);
        sparse_write(path, cases[i].header, SPARSE_BYTES);
        struct weights *weights = NULL;
        struct error error = {""};
        int64_t before = sparse_bytes_read();
        assert_int_equal(weights_open(path, &weights, &error), -1);
        assert_in_range(sparse_bytes_read() - before, 0, 1 << 20);
        if (!strstr(error.message, cases[i].expected) || !strstr(error.message, path))
            fail_msg("'%s' is not in '%s'", cases[i].expected, error.message);
        unlink(path);
    }
}

static void opens_files_and_reads_their_data_once(void **state)
{
    (void)state;
    char path[] = "/tmp/linformerd-weights-XXXXXX";
    size_t size;
    const char *header = "{" A "}";
    unsigned char *bytes = build_file(header, strlen(header), 2, &size);
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, bytes, size) == (ssize_t)size);
    struct weights *weights = NULL;
    struct error error = {""};
    assert_int_equal(weights_open(path, &weights, &error), 0);
    assert_string_equal(weights_origin(weights), path);
    assert_null(weights_find(weights, "a")->data);
    assert_int_equal(weights_read(weights, &error), 0);
    assert_int_equal(ftruncate(file, 0), 0); /* the data has been read, so the file is not needed any more */
    assert_int_equal(weights_read(weights, &error), 0);
    assert_memory_equal(weights_find(weights, "a")->data, "\0\1", 2);
    weights_close(weights);

    char expected[160];
    assert_int_equal(weights_open(path, &weights, &error), -1);
    snprintf(expected, sizeof expected, "%s: is empty, expected a safetensors file", path);
    assert_string_equal(error.message, expected);
    close(file);
    unlink(path);
    assert_int_equal(weights_open(path, &weights, &error), -1);
    snprintf(expected, sizeof expected, "%s: cannot be opened: No such file or directory", path);
    assert_string_equal(error.message, expected);
    assert_int_equal(weights_open("/tmp", &weights, &error), -1);
    assert_string_equal(error.message, "/tmp: is a folder, expected a regular file");
    free(bytes);
}

/* ---- Several files ---- */

#define BC_FILE                                                       \
    "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}," \
    "\"c\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]},"  \
    "\"__metadata__\":{\"d\":\"c\"}}"
#define INDEX(map) "{\"metadata\": {\"total_size\": 6}, \"weight_map\": " map "}"

static char folder[] = "/tmp/linformerd-weights-XXXXXX";

static void write_in_folder(const char *name, const void *bytes, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    size_t size;
    if (!mkdtemp(folder))
        return -1;
    unsigned char *file = build_file(A_FILE, strlen(A_FILE), 2, &size);
    write_in_folder("one.safetensors", file, size);
    write_in_folder("copy.safetensors", file, size);
    free(file);
    file = build_file(BC_FILE, strlen(BC_FILE), 4, &size);
    write_in_folder("two.safetensors", file, size);
    free(file);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"one.safetensors", "copy.safetensors", "two.safetensors", "m.index.json"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

static int open_index(const char *index, struct weights **weights, struct error *error)
{
    char path[128];
    write_in_folder("m.index.json", index, strlen(index));
    snprintf(path, sizeof path, "%s/m.index.json", folder);
    return weights_open(path, weights, error);
}

static void an_index_joins_its_files(void **state)
{
    (void)state;
    struct weights *weights;
    struct error error;
    if (open_index(INDEX("{\"c\": \"two.safetensors\", \"a\": \"one.safetensors\", \"b\": \"two.safetensors\"}"),
                   &weights, &error) != 0)
        fail_msg("%s", error.message);
    assert_int_equal(weights_count(weights), 3);
    for (size_t i = 0; i < 3; i++) {
        const struct weights_tensor *tensor = weights_at(weights, i);
        assert_int_equal(weights_index(weights, tensor), i);
        assert_ptr_equal(weights_find(weights, tensor->name), tensor);
    }
    const struct weights_tensor *c = weights_find(weights, "c");
    assert_int_equal(c->bytes, 3);
    assert_ptr_equal(weights_find(weights, "d"), c);
    assert_null(weights_find(weights, "e"));
    assert_null(c->data);
    assert_int_equal(weights_read(weights, &error), 0);
    assert_memory_equal(c->data, "\1\2\3", 3);
    assert_memory_equal(weights_find(weights, "a")->data, "\0\1", 2);
    assert_non_null(strstr(weights_origin(weights), "m.index.json"));
    weights_close(weights);
}

/* If a tensor has several names, huggingface_hub writes the tensor once. The metadata of the index then contains the
 * other names. */
static void other_names_of_a_tensor_in_an_index_are_found(void **state)
{
    (void)state;
    struct weights *weights;
    struct error error;
    if (open_index(
            "{\"metadata\": {\"total_size\": 6, \"tied\": \"a\", \"format\": \"pt\", \"note\": \"none of them\"}, "
            "\"weight_map\": {\"a\": \"one.safetensors\", \"c\": \"two.safetensors\"}}",
            &weights, &error) != 0)
        fail_msg("%s", error.message);
    assert_ptr_equal(weights_find(weights, "tied"), weights_find(weights, "a"));
    assert_non_null(weights_find(weights, "a"));
    assert_null(weights_find(weights, "note"));
    weights_close(weights);
}

static void cut(const char *name, off_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(truncate(path, size), 0);
}

/* Replaces the file by a new file with the same name, as an editor or a download would. */
static void replace(const char *name, const void *bytes, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
    write_in_folder(name, bytes, size);
}

static void a_file_that_is_cut_before_its_data_is_read_is_an_error(void **state)
{
    (void)state;
    struct weights *weights;
    struct error error = {""};
    char path[128], expected[256];
    size_t size;
    unsigned char *file = build_file(BC_FILE, strlen(BC_FILE), 4, &size);
    snprintf(path, sizeof path, "%s/two.safetensors", folder);
    assert_int_equal(weights_open(path, &weights, &error), 0);
    cut("two.safetensors", (off_t)size - 1);
    assert_int_equal(weights_read(weights, &error), -1);
    snprintf(expected, sizeof expected, "%s: became shorter while it was read: expected 4 more bytes, found 3", path);
    assert_string_equal(error.message, expected);
    weights_close(weights);

    write_in_folder("two.safetensors", file, size);
    assert_int_equal(open_index(INDEX("{\"c\": \"two.safetensors\", \"a\": \"one.safetensors\"}"), &weights, &error),
                     0);
    cut("two.safetensors", 0);
    assert_int_equal(weights_read(weights, &error), -1);
    snprintf(expected, sizeof expected,
             "%s/m.index.json: two.safetensors: became shorter while it was read: expected 4 more bytes, found 0",
             folder);
    assert_string_equal(error.message, expected);
    weights_close(weights);
    write_in_folder("two.safetensors", file, size);
    free(file);
}

static void a_replaced_file_changes_no_data(void **state)
{
    (void)state;
    struct weights *weights;
    struct error error = {""};
    char path[128];
    size_t size;
    unsigned char *file = build_file(BC_FILE, strlen(BC_FILE), 4, &size);
    snprintf(path, sizeof path, "%s/two.safetensors", folder);
    assert_int_equal(weights_open(path, &weights, &error), 0);
    replace("two.safetensors", "other", 5);
    assert_int_equal(weights_read(weights, &error), 0);
    assert_memory_equal(weights_find(weights, "c")->data, "\1\2\3", 3);
    weights_close(weights);
    write_in_folder("two.safetensors", file, size);
    free(file);
}

static void refuse_index(const char *index, const char *expected)
{
    struct weights *weights = NULL;
    struct error error;
    assert_int_equal(open_index(index, &weights, &error), -1);
    assert_null(weights);
    if (strncmp(error.message, folder, strlen(folder)) != 0 || !strstr(error.message, expected))
        fail_msg("'%s' is not in '%s'", expected, error.message);
}

static void refuses_a_wrong_index(void **state)
{
    (void)state;
    refuse_index("", "is not valid JSON");
    refuse_index("[]", "expected \"weight_map\", an object");
    refuse_index("{}", "expected \"weight_map\", an object");
    refuse_index(INDEX("{}"), "expected \"weight_map\", an object");
    refuse_index(INDEX("{\"a\": 1}"), "weight_map: the value of 'a' must be the name of a file in the same folder");
    refuse_index(INDEX("{\"a\": \"\"}"), "the value of 'a' must be the name of a file");
    refuse_index(INDEX("{\"a\": \"../one.safetensors\"}"), "the value of 'a' must be the name of a file");
    refuse_index(INDEX("{\"a\": \"/etc/passwd\"}"), "the value of 'a' must be the name of a file");
    refuse_index(INDEX("{\"a\": \"none.safetensors\"}"), "m.index.json: none.safetensors: cannot be opened");
    refuse_index(INDEX("{\"a\": \"m.index.json\"}"), "m.index.json: m.index.json: ");
    refuse_index(INDEX("{\"a\": \"two.safetensors\"}"), "weight_map: tensor 'a' is not in two.safetensors");
    refuse_index(INDEX("{\"a\": \"one.safetensors\", \"b\": \"one.safetensors\"}"), "'b' is not in one.safetensors");
    refuse_index("{\"metadata\": [], \"weight_map\": {\"a\": \"one.safetensors\"}}", "metadata is not an object");
    refuse_index("{\"metadata\": {\"c\": \"a\"}, \"weight_map\": {\"a\": \"one.safetensors\", \"c\": "
                 "\"two.safetensors\"}}",
                 "metadata: 'c' is mapped to 'a', but is itself stored in a file");
}

static void refuses_an_index_of_too_many_files(void **state)
{
    (void)state;
    enum { FILES = 1001 };
    char *index = malloc(FILES * 32 + 64);
    size_t length = (size_t)sprintf(index, "{\"weight_map\": {\"a\": \"0\"");
    for (int i = 1; i < FILES; i++)
        length += (size_t)sprintf(index + length, ", \"%d\": \"%d\"", i, i);
    strcpy(index + length, "}}");
    refuse_index(index, "weight_map: names 1001 files, expected at most 1000");
    free(index);
}

static void refuses_a_tensor_in_two_files(void **state)
{
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    size_t size;
    unsigned char *file = build_file(header, strlen(header), 2, &size);
    write_in_folder("copy.safetensors", file, size);
    free(file);
    refuse_index(INDEX("{\"x\": \"copy.safetensors\", \"a\": \"one.safetensors\"}"),
                 "tensor 'a' is both in copy.safetensors and in one.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tensors_in_the_order_of_their_data),
        cmocka_unit_test(a_file_without_tensors_is_accepted),
        cmocka_unit_test(tensors_may_be_scalars_or_have_no_elements),
        cmocka_unit_test(other_names_in_the_metadata_are_found),
        cmocka_unit_test(refuses_an_impossible_length),
        cmocka_unit_test(files_of_other_formats_are_refused_by_name),
        cmocka_unit_test(a_length_may_begin_like_another_format),
        cmocka_unit_test(refuses_a_header_that_is_no_object),
        cmocka_unit_test(refuses_a_malformed_entry),
        cmocka_unit_test(refuses_an_impossible_shape),
        cmocka_unit_test(refuses_impossible_offsets),
        cmocka_unit_test(refuses_holes_and_overlaps),
        cmocka_unit_test(shows_hostile_names_harmlessly),
        cmocka_unit_test(refuses_every_truncated_file),
        cmocka_unit_test(finds_each_of_many_names),
        cmocka_unit_test(a_large_file_with_a_wrong_header_is_not_read),
        cmocka_unit_test(opens_files_and_reads_their_data_once),
        cmocka_unit_test(an_index_joins_its_files),
        cmocka_unit_test(other_names_of_a_tensor_in_an_index_are_found),
        cmocka_unit_test(a_file_that_is_cut_before_its_data_is_read_is_an_error),
        cmocka_unit_test(a_replaced_file_changes_no_data),
        cmocka_unit_test(refuses_a_wrong_index),
        cmocka_unit_test(refuses_an_index_of_too_many_files),
        cmocka_unit_test(refuses_a_tensor_in_two_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
