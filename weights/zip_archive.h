/* The directory of a zip archive, as torch.save writes one. Archives and entries over 4 GiB (zip64) are read. The data
 * of compressed entries cannot be read. Private to weights/. */
#ifndef WEIGHTS_ZIP_ARCHIVE_H
#define WEIGHTS_ZIP_ARCHIVE_H

#include "config/config.h"

#include <stddef.h>

/* The bytes of an archive: in memory, or in an open file. */
struct zip_source {
    const char *bytes; /* (size). NULL if the archive is a file */
    int file;
    size_t size;
};

/* Copies `length` bytes at `offset`, which lie within the source. Fails if the file has become shorter. */
int zip_source_read(const struct zip_source *source, size_t offset, void *bytes, size_t length, struct error *error);

struct zip_entry {
    const char *name; /* NUL-terminated */
    size_t begin;     /* offset of the header before the data */
    size_t offset;    /* offset of the data */
    size_t size;      /* bytes of the data in the archive */
    bool is_compressed;
};

struct zip_archive {
    struct zip_entry *entries; /* (n_entries), sorted by name. No name occurs twice */
    size_t n_entries;
    char *names; /* owns the names */
};

/* Reads the directory. Checks that each entry lies within the archive, overlaps no other, and is not encrypted. The
 * data are not read. Errors do not name the file. After success, the caller must call zip_archive_free. */
int zip_archive_open(const struct zip_source *source, struct zip_archive *archive, struct error *error);
void zip_archive_free(struct zip_archive *archive);

/* NULL if no entry has the name. */
const struct zip_entry *zip_archive_find(const struct zip_archive *archive, const char *name);

#endif
