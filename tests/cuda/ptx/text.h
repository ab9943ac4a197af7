/* text: parses a PTX file into statements. It does not interpret the instructions. The syntax is that of PTX ISA,
 * chapter "Syntax". Only the syntax that nvcc uses for kernels is supported. Functions (.func) and directives of
 * textures are errors. */
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
    std::string initial;             /* bytes that an initialiser gives. If there are fewer than `bytes`, zeros
                                        follow */
};

struct operand {
    enum kind { REGISTER, NUMBER, NAME, ADDRESS, LIST } kind = NUMBER;
    bool negated = false; /* a negated predicate: `!%p1` */
    /* Name of a register (with its %), of a variable or label, or of an address's base. Empty for an address without a
     * base. */
    std::string name;
    uint64_t bits = 0;          /* value of a number, with an integer's sign extended. Number that an address adds to
                                   its base */
    bool base_is_name = false;  /* the base of an address is a variable or a parameter, not a register */
    std::vector<operand> parts; /* elements of the lists `{a, b}` and `a|b`. The latter has `paired` */
    bool paired = false;
};

struct statement {
    int line = 0; /* line in the module's text, counted from 1 */
    std::string text;
    std::string guard; /* name of the predicate of `@%p1`, or empty */
    bool guard_negated = false;
    std::string opcode; /* instruction with its modifiers: `ld.global.v2.u32` */
    std::vector<operand> operands;
};

/* The statements of a kernel. If a register has the name of an earlier register in another scope, it has been
 * renamed. */
struct body {
    std::vector<statement> statements;
    std::map<std::string, std::string> registers; /* type of each register, without the dot: "b32" */
    std::map<std::string, size_t> labels;         /* index of the statement that follows each label */
    std::vector<declared> variables;              /* variables in state spaces .shared and .local */
};

/* A kernel of the file. Its parameters have been parsed, but not its body. */
struct entry {
    std::string name;
    std::vector<declared> parameters;
    unsigned most_threads = 0; /* maximum number of threads of a block. 0 if .maxntid is missing */
    int body_line = 0;
    std::string text; /* text of the body, between the braces */
};

struct file {
    std::vector<entry> entries;
    std::vector<declared> variables; /* variables that the module declares */
};

file read_file(const std::string &text);
body read_body(const entry &entry);

/* The width of a type such as "f32" in bits. It is 1 for pred, and 0 if there is no such type. */
unsigned type_bits(const std::string &type);

/* Splits an opcode at its dots. */
std::vector<std::string> words_of(const std::string &opcode);

/* Ends the process with a message that consists of the arguments. */
[[noreturn]] void refuse(const std::string &where, int line, const std::string &text, const std::string &why);
} // namespace ptx

#endif
