/* Fuzz target: any bytes, read as a file of torch.save. If the input does not begin as a zip archive, it becomes the
 * pickle of an archive with the storages "0" to "3" of 64 bytes. A fuzzer therefore need not guess the directory of an
 * archive. An accepted file must be usable: each tensor can be read and converted, and is found by its names. */
#include "weights/torch_archive.h"
#include "weights/weights.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CONVERTED 65536 /* maximum number of elements of a tensor that is converted */
#define STORAGES 4
#define STORAGE_BYTES 64
#define ENTRIES (1 + STORAGES)
#define NAME_BYTES 10 /* length of a/data.pkl, the longest name of an entry */
#define LOCAL_BYTES 30
#define ENTRY_BYTES 46
#define END_BYTES 22

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void use_tensor(const struct weights_tensor *tensor)
{
    require((size_t)tensor->elements * weights_dtype_size(tensor->dtype) == tensor->bytes);
    if (tensor->elements > MAX_CONVERTED)
        return;
    float *values = malloc((size_t)tensor->elements * sizeof *values + 1);
    require(values != NULL);
    weights_to_f32(tensor, values);
    free(values);
}

static void open_archive(const uint8_t *data, size_t size)
{
    struct zip_source source = {.bytes = (const char *)data, .file = -1, .size = size};
    struct torch_archive *archive;
    struct error error = {""};
    if (torch_archive_open(&source, &archive, &error) != 0) {
        require(error.message[0] != '\0');
        return;
    }
    const struct tensor_table *table = torch_archive_table(archive);
    require(torch_archive_read(archive, &source, &error) == 0);
    for (size_t i = 0; i < table->n_tensors; i++)
        use_tensor(&table->tensors[i]);
    for (size_t i = 0; i < table->n_names; i++)
        require(tensor_table_find(table, table->names[i].name) == &table->tensors[table->names[i].tensor]);
    torch_archive_close(archive);
}

static void put(uint8_t *bytes, uint64_t value, int length)
{
    for (int i = 0; i < length; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

/* Writes the entry number `index` at the offset `at`. Writes its row of the directory to `row`. Returns the offset
 * behind the entry's data. */
static size_t put_entry(uint8_t *file, size_t at, int index, const uint8_t *data, size_t size, uint8_t *row)
{
    char name[NAME_BYTES + 1] = "a/data.pkl";
    size_t length = NAME_BYTES;
    if (index > 0) {
        memcpy(name, "a/data/0", 9);
        name[7] = (char)('0' + index - 1);
        length = 8;
    }
    memcpy(file + at, "PK\3\4", 4);
    put(file + at + 26, length, 2);
    memcpy(file + at + LOCAL_BYTES, name, length);
    if (data)
        memcpy(file + at + LOCAL_BYTES + length, data, size);
    memset(row, 0, ENTRY_BYTES + NAME_BYTES);
    memcpy(row, "PK\1\2", 4);
    put(row + 20, size, 4);
    put(row + 24, size, 4);
    put(row + 28, length, 2);
    put(row + 32, NAME_BYTES - length, 2); /* length of the comment, which fills the rest of the row */
    put(row + 42, at, 4);
    memcpy(row + ENTRY_BYTES, name, length);
    return at + LOCAL_BYTES + length + size;
}

/* Puts the bytes as a pickle into an archive, and reads the archive. */
static void open_pickle(const uint8_t *data, size_t size)
{
    size_t row = ENTRY_BYTES + NAME_BYTES, most = size + ENTRIES * (LOCAL_BYTES + row + STORAGE_BYTES) + END_BYTES;
    uint8_t *file = calloc(1, most), rows[ENTRIES * (ENTRY_BYTES + NAME_BYTES)];
    require(file);
    size_t at = put_entry(file, 0, 0, data, size, rows);
    for (int i = 1; i < ENTRIES; i++)
        at = put_entry(file, at, i, NULL, STORAGE_BYTES, rows + (size_t)i * row);
    memcpy(file + at, rows, sizeof rows);
    uint8_t *end = file + at + sizeof rows;
    memcpy(end, "PK\5\6", 4);
    put(end + 8, ENTRIES, 2);
    put(end + 10, ENTRIES, 2);
    put(end + 12, sizeof rows, 4);
    put(end + 16, at, 4);
    open_archive(file, (size_t)(end - file) + END_BYTES);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 4 && memcmp(data, "PK", 2) == 0)
        open_archive(data, size);
    else
        open_pickle(data, size);
    return 0;
}
