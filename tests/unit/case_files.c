#include "tests/unit/case_files.h"

#include "config/config.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MAX_BYTES (1 << 26) /* maximum number of bytes of a file, and of an unpacked archive */
#define BLOCK 512 /* bytes of a header in a tar archive. The bytes of a file are padded to a multiple of this size */

struct case_files {
    const char *path;
    char **names; /* (count): the names of the cases, sorted */
    size_t count;
    char *archive; /* the unpacked archive, NULL if the cases are folders */
    size_t length;
};

/* ---- Archives: each file is a header of 512 bytes and its contents, padded to a multiple of 512 bytes ---- */

static char *unpack(const char *path, size_t *length)
{
    gzFile file = gzopen(path, "rb");
    char *bytes = malloc(MAX_BYTES);
    int count = file && bytes ? gzread(file, bytes, MAX_BYTES) : -1;
    if (file)
        gzclose(file);
    if (count < BLOCK || count == MAX_BYTES) {
        fprintf(stderr, "%s: cannot be unpacked, or has more than %d bytes\n", path, MAX_BYTES);
        free(bytes);
        return NULL;
    }
    *length = (size_t)count;
    return bytes;
}

/* Returns the contents of the file whose header is at the offset *place, and sets *place to the offset of the next
 * header. Returns NULL at the end of the archive. */
static const char *next_file(const struct case_files *files, size_t *place, const char **name, size_t *length)
{
    if (*place + BLOCK > files->length || files->archive[*place] == '\0')
        return NULL;
    const char *header = files->archive + *place;
    size_t size = strtoul(header + 124, NULL, 8);
    if (size > files->length - *place - BLOCK)
        return NULL;
    *name = header;
    *length = size;
    *place += BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
    return header + BLOCK;
}

static char *copy_of(const char *bytes, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy) {
        memcpy(copy, bytes, length);
        copy[length] = '\0';
    }
    return copy;
}

static char *read_from_archive(const struct case_files *files, const char *path, size_t *length)
{
    const char *name, *bytes;
    size_t place = 0;
    while ((bytes = next_file(files, &place, &name, length)))
        if (strncmp(name, path, 100) == 0)
            return copy_of(bytes, *length);
    fprintf(stderr, "%s has no file %s\n", files->path, path);
    return NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the folders of the archive that contain a config.json. */
static void list_archive(struct case_files *files)
{
    const char *name;
    size_t place = 0, length;
    while (next_file(files, &place, &name, &length)) {
        const char *slash = memchr(name, '/', 100);
        if (!slash || strcmp(slash, "/config.json") != 0)
            continue;
        files->names = realloc(files->names, (files->count + 1) * sizeof *files->names);
        files->names[files->count++] = copy_of(name, (size_t)(slash - name));
    }
    qsort(files->names, files->count, sizeof *files->names, compare_names);
}

/* ---- Folders ---- */

static int is_case(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !strchr(entry->d_name, '.');
}

static void list_folder(struct case_files *files)
{
    struct dirent **entries;
    int count = scandir(files->path, &entries, is_case, alphasort);
    files->names = count > 0 ? calloc((size_t)count, sizeof *files->names) : NULL;
    for (int i = 0; i < count; i++) {
        files->names[files->count++] = strdup(entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

/* ---- Both ---- */

struct case_files *case_files_open(const char *path)
{
    struct case_files *files = calloc(1, sizeof *files);
    const char *end = strstr(path, ".tar.gz");
    files->path = path;
    if (!end) {
        list_folder(files);
        return files;
    }
    files->archive = unpack(path, &files->length);
    if (!files->archive) {
        free(files);
        return NULL;
    }
    list_archive(files);
    return files;
}

void case_files_close(struct case_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->names[i]);
    free(files->names);
    free(files->archive);
    free(files);
}

size_t case_files_count(const struct case_files *files)
{
    return files->count;
}

const char *case_files_name(const struct case_files *files, size_t index)
{
    return files->names[index];
}

char *case_files_read(const struct case_files *files, const char *name, const char *file, size_t *length)
{
    char path[512];
    struct error error;
    if (files->archive) {
        snprintf(path, sizeof path, "%s/%s", name, file);
        return read_from_archive(files, path, length);
    }
    snprintf(path, sizeof path, "%s/%s/%s", files->path, name, file);
    char *bytes = file_read(path, MAX_BYTES, length, &error);
    if (!bytes)
        fprintf(stderr, "%s\n", error.message);
    return bytes;
}
