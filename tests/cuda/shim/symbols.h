/* symbols: lists the functions of a linked file, including functions that are not exported. The list comes from the
 * file's symbol table. */
#ifndef TESTS_CUDA_SHIM_SYMBOLS_H
#define TESTS_CUDA_SHIM_SYMBOLS_H

#include <cstdint>
#include <functional>

namespace shim
{
struct symbol {
    const char *name; /* mangled if it is a function of C++ */
    uint64_t offset;  /* relative to the address where the file is loaded */
};

/* Calls `use` for each function that the file defines. A stripped file has no symbol table. */
void for_each_function(const char *path, const std::function<void(const symbol &)> &use);
} // namespace shim

#endif
