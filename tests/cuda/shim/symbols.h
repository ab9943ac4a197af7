/* symbols: the functions in a linked file, also those that are not public. They are in the file's table of symbols. */
#ifndef TESTS_CUDA_SHIM_SYMBOLS_H
#define TESTS_CUDA_SHIM_SYMBOLS_H

#include <cstdint>
#include <functional>

namespace shim
{
struct symbol {
    const char *name; /* of C++: mangled */
    uint64_t offset;  /* from the address where the file is loaded */
};

/* Calls `use` for each function that the file defines. A stripped file has none. */
void for_each_function(const char *path, const std::function<void(const symbol &)> &use);
} // namespace shim

#endif
