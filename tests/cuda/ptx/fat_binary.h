/* fat_binary: reads fat binaries. In this format, nvcc stores the code of a source's kernels, once for each compute
 * capability. NVIDIA does not document the format. */
#ifndef TESTS_CUDA_PTX_FAT_BINARY_H
#define TESTS_CUDA_PTX_FAT_BINARY_H

#include <string>

namespace ptx
{
/* Returns the text of the PTX for the newest capability. The PTX may be stored uncompressed, or compressed with zstd or
 * LZ4. If there is no PTX, or it cannot be read, the process ends with a message. */
std::string newest_ptx(const void *fat_binary);
} // namespace ptx

#endif
