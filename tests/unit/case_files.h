/* case_files: reference cases on disk. A case is a folder of the same files each: config.json, model.safetensors,
 * calls.safetensors. The cases are the folders of a folder, or those of an archive (.tar.gz). The archive suits many
 * small cases. */
#ifndef TESTS_UNIT_CASE_FILES_H
#define TESTS_UNIT_CASE_FILES_H

#include <stddef.h>

struct case_files;

/* NULL: a message on stderr says why. Paths of an archive are CASE/FILE. case_files_close is owed. */
struct case_files *case_files_open(const char *path);
void case_files_close(struct case_files *files);

size_t case_files_count(const struct case_files *files);
const char *case_files_name(const struct case_files *files, size_t index); /* sorted by name */

/* The bytes of a file, followed by a zero. NULL: a message on stderr says why. The caller frees them. */
char *case_files_read(const struct case_files *files, const char *name, const char *file, size_t *length);

#endif
