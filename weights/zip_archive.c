/* The format: APPNOTE.TXT of PKWARE, sections 4.3 and 4.5.3. An archive ends with the end record, which gives the place
 * of the directory. If a number does not fit in the end record, a second end record (zip64) has it. */
#define _GNU_SOURCE /* pread */
#include "weights/zip_archive.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOWN "%.120s" /* names come from the file */

#define LOCAL_BYTES 30
#define ENTRY_BYTES 46
#define END_BYTES 22
#define LOCATOR_BYTES 20
#define END64_BYTES 56
#define MAX_COMMENT_BYTES 65535
#define DIRECTORY_LIMIT_BYTES ((size_t)100000000) /* the same limit as for the header of a safetensors file */

#define IS_ENCRYPTED 1
#define STORED 0
#define EXTRA_ZIP64 1
#define BEYOND_32 0xffffffff

static const char local_start[] = "PK\3\4", entry_start[] = "PK\1\2", end_start[] = "PK\5\6", end64_start[] = "PK\6\6",
                  locator_start[] = "PK\6\7";

static uint64_t number(const char *bytes, int length)
{
    uint64_t value = 0;
    while (length-- > 0)
        value = value << 8 | (unsigned char)bytes[length];
    return value;
}

static bool begins(const char *bytes, const char *start)
{
    return memcmp(bytes, start, 4) == 0;
}

int zip_source_read(const struct zip_source *source, size_t offset, void *bytes, size_t length, struct error *error)
{
    if (source->bytes) {
        memcpy(bytes, source->bytes + offset, length);
        return 0;
    }
    for (size_t done = 0; done < length;) {
        ssize_t count = pread(source->file, (char *)bytes + done, length - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error_set(error, "cannot be read: %s", strerror(errno));
        if (count == 0)
            return error_set(error, "became shorter while it was read: expected %zu more bytes, found %zu", length,
                             done);
        done += (size_t)count;
    }
    return 0;
}

/* ---- The end of the archive ---- */

/* Where the directory is. */
struct place {
    uint64_t offset, size, count;
};

/* Finds the end record in the last `length` bytes of the archive. The record ends with a comment, which ends where the
 * archive ends. */
static const char *find_end(const char *tail, size_t length)
{
    for (size_t at = length < END_BYTES ? 0 : length - END_BYTES + 1; at-- > 0;)
        if (begins(tail + at, end_start) && number(tail + at + 20, 2) == length - at - END_BYTES)
            return tail + at;
    return NULL;
}

/* Reads the end record of zip64, to which the locator before the end record points. Returns 0 and leaves `place` if
 * there is no locator. */
static int read_end64(const struct zip_source *source, const char *tail, const char *end, struct place *place,
                      struct error *error)
{
    const char *locator = end - LOCATOR_BYTES;
    char record[END64_BYTES];
    if (end - tail < LOCATOR_BYTES || !begins(locator, locator_start))
        return 0;
    uint64_t offset = number(locator + 8, 8);
    if (offset > source->size || source->size - offset < sizeof record)
        return error_set(error,
                         "is a damaged zip archive: its end record should be at byte %llu, but the file has %zu bytes",
                         (unsigned long long)offset, source->size);
    if (zip_source_read(source, (size_t)offset, record, sizeof record, error) != 0)
        return -1;
    if (!begins(record, end64_start))
        return error_set(error, "is a damaged zip archive: its end record is not at byte %llu, where it should be",
                         (unsigned long long)offset);
    *place = (struct place){
        .offset = number(record + 48, 8), .size = number(record + 40, 8), .count = number(record + 32, 8)};
    return 0;
}

static int find_directory(const struct zip_source *source, struct place *place, struct error *error)
{
    size_t most = END_BYTES + LOCATOR_BYTES + MAX_COMMENT_BYTES, length = source->size < most ? source->size : most;
    char *tail = malloc(length + 1);
    if (!tail)
        return error_set(error, "out of memory");
    int status = zip_source_read(source, source->size - length, tail, length, error);
    const char *end = status == 0 ? find_end(tail, length) : NULL;
    if (status == 0 && !end)
        status = error_set(error, "is a damaged zip archive: its end record is missing, or more bytes follow it");
    if (end) {
        *place =
            (struct place){.offset = number(end + 16, 4), .size = number(end + 12, 4), .count = number(end + 10, 2)};
        status = read_end64(source, tail, end, place, error);
    }
    free(tail);
    if (status != 0)
        return -1;
    if (place->offset > source->size || place->size > source->size - place->offset)
        return error_set(
            error,
            "is a damaged zip archive: its directory should be in bytes %llu to %llu, but the file has %zu bytes",
            (unsigned long long)place->offset, (unsigned long long)(place->offset + place->size), source->size);
    if (place->size > DIRECTORY_LIMIT_BYTES || place->count > place->size / ENTRY_BYTES)
        return error_set(error, "is a damaged zip archive: its directory cannot have %llu bytes and %llu entries",
                         (unsigned long long)place->size, (unsigned long long)place->count);
    return 0;
}

/* ---- The directory ---- */

/* Replaces those numbers of an entry that are too large for their fields by the numbers in its extra fields. Extra
 * fields have the order size, compressed size, offset. */
static int read_extra(const char *extra, size_t length, uint64_t *const numbers[3], struct error *error)
{
    for (size_t at = 0; at + 4 <= length;) {
        size_t size = number(extra + at + 2, 2), next = at + 4;
        const char *field = extra + next;
        if (size > length - next)
            break;
        for (int i = 0; i < 3 && number(extra + at, 2) == EXTRA_ZIP64; i++) {
            if (*numbers[i] != BEYOND_32)
                continue;
            if ((size_t)(field - extra) + 8 > next + size)
                return error_set(error, "its extra fields are too short");
            *numbers[i] = number(field, 8);
            field += 8;
        }
        at = next + size;
    }
    return 0;
}

/* Sets the place of an entry's data. The header before the data contains another copy of the name, and other extra
 * fields. */
static int place_data(const struct zip_source *source, struct zip_entry *entry, uint64_t begin, uint64_t size,
                      uint64_t directory, struct error *error)
{
    char header[LOCAL_BYTES];
    if (begin > directory || directory - begin < sizeof header)
        return error_set(error, "it begins at byte %llu, and does not end before the directory",
                         (unsigned long long)begin);
    if (zip_source_read(source, (size_t)begin, header, sizeof header, error) != 0)
        return -1;
    uint64_t offset = begin + sizeof header + number(header + 26, 2) + number(header + 28, 2);
    if (!begins(header, local_start))
        return error_set(error, "its header is missing at byte %llu, where the directory places it",
                         (unsigned long long)begin);
    if (offset > directory || size > directory - offset)
        return error_set(error, "its %llu bytes from byte %llu on extend beyond the data", (unsigned long long)size,
                         (unsigned long long)offset);
    entry->begin = (size_t)begin;
    entry->offset = (size_t)offset;
    entry->size = (size_t)size;
    return 0;
}

/* Reads one entry. `bytes` are the rest of the directory. They begin with the entry, its name and its extra fields. */
static int read_entry(const struct zip_source *source, const char *bytes, uint64_t directory, struct zip_entry *entry,
                      struct error *error)
{
    size_t name_length = number(bytes + 28, 2), extra_length = number(bytes + 30, 2);
    uint64_t compressed = number(bytes + 20, 4), size = number(bytes + 24, 4), begin = number(bytes + 42, 4);
    uint64_t *const numbers[] = {&size, &compressed, &begin};
    if (strlen(entry->name) != name_length)
        return error_set(error, "its name contains a zero byte");
    if (number(bytes + 8, 2) & IS_ENCRYPTED)
        return error_set(error, "it is encrypted");
    if (read_extra(bytes + ENTRY_BYTES + name_length, extra_length, numbers, error) != 0)
        return -1;
    entry->is_compressed = number(bytes + 10, 2) != STORED;
    if (!entry->is_compressed && compressed != size)
        return error_set(error, "it is not compressed, but its sizes differ: %llu and %llu",
                         (unsigned long long)compressed, (unsigned long long)size);
    return place_data(source, entry, begin, compressed, directory, error);
}

/* Reads all entries. `names` has room for all names, each followed by a NUL. */
static int read_entries(const struct zip_source *source, const char *directory, const struct place *place,
                        struct zip_archive *archive, struct error *error)
{
    char *name = archive->names;
    for (size_t at = 0; archive->n_entries < place->count;) {
        size_t left = (size_t)place->size - at;
        const char *bytes = directory + at;
        if (left < ENTRY_BYTES || !begins(bytes, entry_start))
            return error_set(error, "is a damaged zip archive: entry %zu of its directory is missing",
                             archive->n_entries);
        size_t length = number(bytes + 28, 2);
        size_t whole = ENTRY_BYTES + length + number(bytes + 30, 2) + number(bytes + 32, 2);
        if (whole > left)
            return error_set(error, "is a damaged zip archive: entry %zu of its directory is cut off",
                             archive->n_entries);
        struct zip_entry *entry = &archive->entries[archive->n_entries++];
        memcpy(name, bytes + ENTRY_BYTES, length);
        name[length] = '\0';
        entry->name = name;
        name += length + 1;
        if (read_entry(source, bytes, place->offset, entry, error) != 0)
            return error_prefix(error, "entry '" SHOWN "' of the zip archive", entry->name);
        at += whole;
    }
    return 0;
}

static int compare_begins(const void *left, const void *right)
{
    const struct zip_entry *a = left, *b = right;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static int compare_names(const void *left, const void *right)
{
    const struct zip_entry *a = left, *b = right;
    return strcmp(a->name, b->name);
}

/* Refuses entries that share bytes or names. Leaves the entries sorted by name. */
static int check_entries(struct zip_archive *archive, struct error *error)
{
    struct zip_entry *entries = archive->entries;
    qsort(entries, archive->n_entries, sizeof *entries, compare_begins);
    for (size_t i = 1; i < archive->n_entries; i++)
        if (entries[i].begin < entries[i - 1].offset + entries[i - 1].size)
            return error_set(error, "entry '" SHOWN "' of the zip archive overlaps '" SHOWN "'", entries[i].name,
                             entries[i - 1].name);
    qsort(entries, archive->n_entries, sizeof *entries, compare_names);
    for (size_t i = 1; i < archive->n_entries; i++)
        if (strcmp(entries[i].name, entries[i - 1].name) == 0)
            return error_set(error, "entry '" SHOWN "' is in the zip archive twice", entries[i].name);
    return 0;
}

int zip_archive_open(const struct zip_source *source, struct zip_archive *archive, struct error *error)
{
    struct place place = {0};
    *archive = (struct zip_archive){0};
    if (find_directory(source, &place, error) != 0)
        return -1;
    char *directory = malloc((size_t)place.size + 1);
    archive->names = malloc((size_t)(place.size + place.count) + 1);
    archive->entries = calloc((size_t)place.count + 1, sizeof *archive->entries);
    int status = -1;
    if (!directory || !archive->names || !archive->entries)
        error_set(error, "out of memory for a directory of %llu bytes", (unsigned long long)place.size);
    else if (zip_source_read(source, (size_t)place.offset, directory, (size_t)place.size, error) == 0 &&
             read_entries(source, directory, &place, archive, error) == 0)
        status = check_entries(archive, error);
    free(directory);
    if (status != 0)
        zip_archive_free(archive);
    return status;
}

void zip_archive_free(struct zip_archive *archive)
{
    free(archive->entries);
    free(archive->names);
    *archive = (struct zip_archive){0};
}

const struct zip_entry *zip_archive_find(const struct zip_archive *archive, const char *name)
{
    struct zip_entry key = {.name = name};
    return bsearch(&key, archive->entries, archive->n_entries, sizeof *archive->entries, compare_names);
}
