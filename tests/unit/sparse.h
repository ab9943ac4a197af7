/* sparse: large safetensors files that take no space on the disk, and the number of bytes that are read. */
#ifndef TESTS_UNIT_SPARSE_H
#define TESTS_UNIT_SPARSE_H

#include <stdint.h>

#define SPARSE_BYTES ((int64_t)20 << 30) /* of the data of a large file */

/* Writes the header with its length in front, and `data_bytes` zeros that the file system does not store. */
void sparse_write(const char *path, const char *header, int64_t data_bytes);

/* Bytes that this process has read from files so far. */
int64_t sparse_bytes_read(void);

#endif
