/* launching: builds and launches kernels for the tests of the emulator. Each kernel is PTX in a string. */
#ifndef TESTS_CUDA_PTX_LAUNCHING_H
#define TESTS_CUDA_PTX_LAUNCHING_H

#include "tests/cuda/ptx/emulator.h"

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
#include <cmocka.h>
}

/* The device memory of the tests: DEVICE_WORDS words of 32 bits. A kernel must not access any other memory of the
 * host. */
#define DEVICE_WORDS 4096

extern uint32_t device_words[DEVICE_WORDS];

static inline bool is_in_device(const void *address, size_t bytes)
{
    uintptr_t first = (uintptr_t)device_words, at = (uintptr_t)address;
    return at >= first && bytes <= sizeof device_words && at - first <= sizeof device_words - bytes;
}

/* Returns the text of a module whose kernel `test` executes `body`. Register %data contains the address of device
 * memory, %thread and %thread64 the thread's number, and %mine the address of the thread's word in device memory. */
static inline std::string kernel_of(const std::string &body, const std::string &before = "",
                                    const std::string &limits = "")
{
    return ".version 9.0\n.target sm_90\n.address_size 64\n" + before +
           "\n.visible .entry test(.param .u64 test_param_0)\n" + limits +
           "{\n.reg .pred %p<16>;\n.reg .b16 %h<16>;\n.reg .b32 %r<64>, %thread;\n.reg .b64 %l<64>, %data, %thread64, "
           "%mine;\n"
           "ld.param.u64 %data, [test_param_0];\ncvta.to.global.u64 %data, %data;\nmov.u32 %thread, %tid.x;\n"
           "cvt.u64.u32 %thread64, %thread;\nshl.b64 %mine, %thread64, 2;\nadd.s64 %mine, %data, %mine;\n" +
           body + "\nret;\n}\n";
}

struct launch_shape {
    unsigned threads = 32, blocks = 1, seed = 0;
    size_t dynamic_bytes = 0;
};

/* Runs the kernel `test` of the text. Its argument is device_words. */
static inline void launch_text(const std::string &text, const launch_shape &shape = {})
{
    ptx::module *module = ptx::parse(text.c_str(), text.size());
    const ptx::kernel *kernel = ptx::find(module, "test");
    void *data = device_words, *arguments[] = {&data};
    ptx::grid grid = {{shape.blocks, 1, 1}, {shape.threads, 1, 1}, shape.dynamic_bytes, shape.seed};
    assert_non_null(kernel);
    ptx::run(kernel, grid, arguments, is_in_device);
}

#endif
