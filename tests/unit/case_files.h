/* case_files: reference cases on disk. A case is a folder with config.json, model.safetensors, and calls.safetensors or
 * runs.json. The cases are in a folder, or in an archive (.tar.gz). An archive suits many small cases. */
#ifndef TESTS_UNIT_CASE_FILES_H
#define TESTS_UNIT_CASE_FILES_H

#include <stddef.h>

struct case_files;

/* Opens the cases. The paths in an archive are CASE/FILE. If an archive cannot be read, returns NULL and writes a
 * message to stderr. If a folder cannot be read, there are 0 cases. The caller must call case_files_close. */
struct case_files *case_files_open(const char *path);
void case_files_close(struct case_files *files);

size_t case_files_count(const struct case_files *files);
const char *case_files_name(const struct case_files *files, size_t index); /* index in the order of the names */

/* Returns the bytes of a case's file, followed by a zero byte. On failure, returns NULL and writes a message to stderr.
 * The caller frees the bytes. */
char *case_files_read(const struct case_files *files, const char *name, const char *file, size_t *length);

#endif
