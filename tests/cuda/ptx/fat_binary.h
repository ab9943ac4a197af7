/* fat_binary: the format in which nvcc stores the code of a source's kernels, once for each compute capability. NVIDIA
 * does not document it. */
#ifndef TESTS_CUDA_PTX_FAT_BINARY_H
#define TESTS_CUDA_PTX_FAT_BINARY_H

#include <string>

namespace ptx
{
/* The text of the PTX for the newest capability. It may be stored as it is, or compressed with zstd or LZ4. If there is
 * no PTX, or it cannot be read, the process ends with a message. */
std::string newest_ptx(const void *fat_binary);
} // namespace ptx

#endif
