/* decode: converts the statements of a kernel (text.h) into instructions that the emulator executes (machine.h). Most
 * instructions compute each lane alone. Tables contain the functions of these instructions, with the full name of the
 * instruction as the key. The functions decode_… below decode the other groups of instructions. They return false if a
 * modifier is unknown. */
#ifndef TESTS_CUDA_PTX_DECODE_H
#define TESTS_CUDA_PTX_DECODE_H

#include "tests/cuda/ptx/lanes.h"

namespace ptx
{
using words = std::vector<std::string>;

struct decoder {
    struct kernel &kernel;
    const statement *now = nullptr;
    std::map<std::string, uint32_t> places; /* offset of each register in the register file, by name. Includes special
                                               registers */
    std::map<std::pair<uint64_t, char>, uint32_t> constants;
    std::map<std::string, uint64_t> names; /* address of each variable and parameter, by name */
    uint32_t sink = 0;                     /* offset of the register for operand `_`. No instruction reads it */

    [[noreturn]] void refuse(const std::string &why) const;
    /* Ends the process if the statement has fewer operands than `least`, or more than `most`. */
    void expect_operands(size_t least, size_t most) const;
    char storage_of(const operand &operand, char otherwise) const;
    /* Returns the offset of the operand in the register file. Ends the process if the operand is not stored as
     * `storage`: 'p', 'w' or 'l' (each_lane in lanes.h). */
    uint32_t place(const operand &operand, char storage);
    /* Both functions store the offset of an operand as operand n of the instruction. put_destination is for an operand
     * that the instruction writes. */
    void put(instruction &i, unsigned n, const operand &operand, char storage);
    void put_destination(instruction &i, unsigned n, const operand &operand, char storage);
    reference address(const operand &operand);
    /* Returns the elements of a list, or the operand itself if it is not a list. */
    std::vector<operand> parts_of(const operand &operand) const;
    uint64_t number(const operand &operand) const;
    uint32_t label(const operand &operand) const;
};

bool decode_memory(decoder &decoder, const statement &s, const words &words, instruction &i);
bool decode_move(decoder &decoder, const statement &s, const words &words, instruction &i);
bool decode_exchange(decoder &decoder, const statement &s, const words &words, instruction &i);
bool decode_copy(decoder &decoder, const statement &s, const words &words, instruction &i);
bool decode_tensor(decoder &decoder, const statement &s, const words &words, instruction &i);
bool decode_control(decoder &decoder, const statement &s, const words &words, instruction &i);

static inline bool has(const words &words, const std::string &word)
{
    for (const std::string &one : words)
        if (one == word)
            return true;
    return false;
}
} // namespace ptx

#endif
