/* sparse: writes large safetensors files that occupy almost no space on the disk, and counts the bytes that the process
 * reads. */
#ifndef TESTS_UNIT_SPARSE_H
#define TESTS_UNIT_SPARSE_H

#include <stdint.h>

#define SPARSE_BYTES ((int64_t)20 << 30) /* bytes of data in a large file */

/* Writes a file: the length of the header, the header, and `data_bytes` zeros that the file system does not store. */
void sparse_write(const char *path, const char *header, int64_t data_bytes);

/* Number of bytes that this process has read from files so far. */
int64_t sparse_bytes_read(void);

#endif
