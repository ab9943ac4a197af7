/* text: the statements of a PTX file, as they are written. This file knows nothing of instructions. The syntax is that
 * of PTX ISA, chapter "Syntax". Only what nvcc emits for kernels is read. Functions (.func) and directives of textures
 * are errors. */
#ifndef TESTS_CUDA_PTX_TEXT_H
#define TESTS_CUDA_PTX_TEXT_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ptx
{
enum space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM, SPACE_CONST };

/* A variable or a parameter: `.shared .align 8 .b8 name[24]`. */
struct declared {
    space where;
    std::string name;
    size_t alignment = 1, bytes = 0; /* bytes is 0 for dynamic shared memory, `extern .shared … name[]` */
    std::string initial;             /* the bytes that an initialiser gives. Shorter than `bytes`: zeros follow */
};

struct operand {
    enum kind { REGISTER, NUMBER, NAME, ADDRESS, LIST } kind = NUMBER;
    bool negated = false; /* `!%p1` */
    /* Of a register (without %), of a name, or of an address's base (empty if there is none) */
    std::string name;
    uint64_t bits = 0;          /* of a number: an integer's sign is extended. Of an address: the number added */
    bool base_is_name = false;  /* an address's base is a variable or a parameter, not a register */
    std::vector<operand> parts; /* of `{a, b}`, and of `a|b`, which is a list with `paired` */
    bool paired = false;
};

struct statement {
    int line = 0; /* in the module's text, from 1 */
    std::string text;
    std::string guard; /* the predicate of `@%p1`, or empty */
    bool guard_negated = false;
    std::string opcode; /* with its modifiers: `ld.global.v2.u32` */
    std::vector<operand> operands;
};

/* The instructions of a kernel. Registers of inner scopes have been renamed where the same name has two declarations.
 */
struct body {
    std::vector<statement> statements;
    std::map<std::string, std::string> registers; /* the type of each, without the dot: "b32" */
    std::map<std::string, size_t> labels;         /* the number of the statement that follows */
    std::vector<declared> variables;              /* .shared and .local */
};

/* An entry. Its parameters have been read, but not its body. */
struct entry {
    std::string name;
    std::vector<declared> parameters;
    unsigned most_threads = 0; /* 0: .maxntid is missing */
    int body_line = 0;
    std::string text; /* between the braces */
};

struct file {
    std::vector<entry> entries;
    std::vector<declared> variables; /* of the module */
};

file read_file(const std::string &text);
body read_body(const entry &entry);

/* The width of a type such as "f32" in bits. It is 1 for pred, and 0 if there is no such type. */
unsigned type_bits(const std::string &type);

/* The words of an opcode between its dots. */
std::vector<std::string> words_of(const std::string &opcode);

/* Ends the process. */
[[noreturn]] void refuse(const std::string &where, int line, const std::string &text, const std::string &why);
} // namespace ptx

#endif
