/* decode: turns statements into instructions. Most are functions of one lane, found in tables by their full name. Each
 * other group of instructions has a function here. It returns false if it does not know the modifiers. */
#ifndef TESTS_CUDA_PTX_DECODE_H
#define TESTS_CUDA_PTX_DECODE_H

#include "tests/cuda/ptx/lanes.h"

namespace ptx
{
using words = std::vector<std::string>;

struct decoder {
    struct kernel &kernel;
    const statement *now = nullptr;
    std::map<std::string, uint32_t> places; /* of registers, special ones included */
    std::map<std::pair<uint64_t, char>, uint32_t> constants;
    std::map<std::string, uint64_t> names; /* addresses of variables and parameters */
    std::map<std::string, space> spaces;   /* the same variables' state spaces */
    uint32_t sink = 0;                     /* the place of the operand `_`. No instruction reads it */

    [[noreturn]] void refuse(const std::string &why) const;
    /* Ends the process if the statement has fewer operands than `least`, or more than `most`. */
    void expect_operands(size_t least, size_t most) const;
    char storage_of(const operand &operand, char otherwise) const;
    /* The place of the operand in the file of registers. Refuses the statement if the operand is not stored as
     * `storage`: 'p', 'w' or 'l' (lanes.h). */
    uint32_t place(const operand &operand, char storage);
    /* These two store the place of an operand as operand n of the instruction. The second one is for an operand that
     * the instruction writes. */
    void put(instruction &i, unsigned n, const operand &operand, char storage);
    void put_destination(instruction &i, unsigned n, const operand &operand, char storage);
    reference address(const operand &operand);
    /* The elements of a list, or the operand itself. */
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
