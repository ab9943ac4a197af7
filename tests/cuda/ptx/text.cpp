#include "tests/cuda/ptx/text.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ptx
{
void refuse(const std::string &where, int line, const std::string &text, const std::string &why)
{
    fprintf(stderr, "PTX emulator: %s, line %d: %s\n    %s\n", where.c_str(), line, why.c_str(), text.c_str());
    abort();
}

unsigned type_bits(const std::string &type)
{
    static const std::map<std::string, unsigned> widths = {
        {"pred", 1}, {"b8", 8},    {"u8", 8},   {"s8", 8},   {"b16", 16},   {"u16", 16},   {"s16", 16},
        {"f16", 16}, {"bf16", 16}, {"b32", 32}, {"u32", 32}, {"s32", 32},   {"f32", 32},   {"tf32", 32},
        {"b64", 64}, {"u64", 64},  {"s64", 64}, {"f64", 64}, {"b128", 128}, {"f16x2", 32}, {"bf16x2", 32},
    };
    auto found = widths.find(type);
    return found == widths.end() ? 0 : found->second;
}

std::vector<std::string> words_of(const std::string &opcode)
{
    std::vector<std::string> words;
    for (size_t from = 0; from <= opcode.size();) {
        size_t dot = opcode.find('.', from);
        words.push_back(opcode.substr(from, dot == std::string::npos ? dot : dot - from));
        from = dot == std::string::npos ? opcode.size() + 1 : dot + 1;
    }
    return words;
}

namespace
{
bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

/* A position in a text. It counts lines, and skips comments and white space. */
struct cursor {
    const std::string *text, *where;
    size_t at = 0;
    int line = 1;

    [[noreturn]] void refuse(const std::string &why) const
    {
        size_t from = text->rfind('\n', at), to = text->find('\n', at);
        from = from == std::string::npos ? 0 : from + 1;
        ptx::refuse(*where, line, text->substr(from, to == std::string::npos ? to : to - from), why);
    }
    bool starts_with(const char *what) const
    {
        return text->compare(at, strlen(what), what) == 0;
    }
    void step()
    {
        line += (*text)[at++] == '\n';
    }
    void skip_to(const char *end)
    {
        size_t found = text->find(end, at);
        for (found = found == std::string::npos ? text->size() : found; at < found;)
            step();
    }
    void skip_blank()
    {
        while (at < text->size()) {
            if (starts_with("//"))
                skip_to("\n");
            else if (starts_with("/*"))
                skip_to("*/"), at += at < text->size() ? 2 : 0;
            else if (isspace((unsigned char)(*text)[at]))
                step();
            else
                return;
        }
    }
    bool ended()
    {
        skip_blank();
        return at >= text->size();
    }
    char next()
    {
        return ended() ? 0 : (*text)[at];
    }
    bool take(char c)
    {
        if (next() != c)
            return false;
        at++;
        return true;
    }
    void expect(char c)
    {
        if (!take(c))
            refuse(std::string("expected '") + c + "'");
    }
    /* Reads a name, a directive, or an opcode with its dots. */
    std::string word()
    {
        skip_blank();
        size_t from = at;
        while (at < text->size() && (is_of_name((*text)[at]) || (*text)[at] == '.' || starts_with("::")))
            at += starts_with("::") ? 2 : 1;
        if (at == from)
            refuse("expected a name");
        return text->substr(from, at - from);
    }
    /* Reads the text up to the first character of `ends` outside of comments, brackets and braces. Stops before this
     * character. */
    std::string until(const char *ends)
    {
        std::string found;
        int depth = 0;
        for (; !ended() && (depth > 0 || !strchr(ends, (*text)[at])); step()) {
            depth += strchr("{[(", (*text)[at]) != nullptr;
            depth -= strchr("}])", (*text)[at]) != nullptr;
            if (!found.empty() && isspace((unsigned char)(*text)[at - 1]))
                found += ' ';
            found += (*text)[at];
        }
        return found;
    }
    uint64_t number()
    {
        skip_blank();
        bool negative = take('-');
        if (starts_with("0f") || starts_with("0F") || starts_with("0d") || starts_with("0D")) {
            size_t digits = tolower((*text)[at + 1]) == 'f' ? 8 : 16;
            uint64_t bits = strtoull(text->substr(at + 2, digits).c_str(), nullptr, 16);
            at += 2 + digits;
            return bits ^ (uint64_t)negative << (digits * 4 - 1);
        }
        char *end;
        const char *from = text->c_str() + at;
        bool binary = starts_with("0b") || starts_with("0B");
        uint64_t value = strtoull(from + (binary ? 2 : 0), &end, binary ? 2 : 0);
        if (end == from)
            refuse("expected a number");
        at += (size_t)(end - from);
        if (at < text->size() && (*text)[at] == 'U')
            at++;
        return negative ? -value : value;
    }
    uint64_t number_in_brackets()
    {
        expect('[');
        uint64_t value = next() == ']' ? 0 : number();
        expect(']');
        return value;
    }
};

bool space_of(const std::string &word, space *where)
{
    static const std::map<std::string, space> spaces = {{".global", SPACE_GLOBAL},
                                                        {".shared", SPACE_SHARED},
                                                        {".local", SPACE_LOCAL},
                                                        {".param", SPACE_PARAM},
                                                        {".const", SPACE_CONST}};
    auto found = spaces.find(word);
    if (found != spaces.end())
        *where = found->second;
    return found != spaces.end();
}

/* Reads an initialiser such as `{1, 2, {3}}`. Each number becomes `width` bytes. */
void read_initial(cursor &c, size_t width, std::string *bytes)
{
    if (c.take('{')) {
        do
            read_initial(c, width, bytes);
        while (c.take(','));
        c.expect('}');
        return;
    }
    uint64_t value = c.number();
    bytes->append((const char *)&value, width);
}

/* Reads what follows a state space such as `.shared`: alignment, type, name, sizes, and an initialiser. */
declared read_declared(cursor &c, space where)
{
    declared d;
    d.where = where;
    unsigned bits = 0;
    while (c.next() == '.') {
        std::string word = c.word();
        if (word == ".align")
            d.alignment = c.number();
        else if (word != ".ptr" && (bits = type_bits(word.substr(1))) == 0 && !space_of(word, &where))
            c.refuse("an unknown word of a declaration: " + word);
    }
    if (bits < 8)
        c.refuse("a variable without a type");
    d.name = c.word();
    d.bytes = bits / 8;
    d.alignment = std::max(d.alignment, d.bytes);
    while (c.next() == '[')
        d.bytes *= c.number_in_brackets();
    if (c.take('='))
        read_initial(c, bits / 8, &d.initial);
    return d;
}

std::vector<declared> read_parameters(cursor &c)
{
    std::vector<declared> parameters;
    c.expect('(');
    while (!c.take(')')) {
        space where;
        if (!space_of(c.word(), &where) || where != SPACE_PARAM)
            c.refuse("expected .param");
        parameters.push_back(read_declared(c, where));
        c.take(',');
    }
    return parameters;
}

void read_entry(cursor &c, file *file)
{
    entry e;
    e.name = c.word();
    if (c.next() == '(')
        e.parameters = read_parameters(c);
    while (c.next() != '{') {
        std::string word = c.word();
        unsigned threads = (unsigned)c.number();
        while (c.take(','))
            threads *= (unsigned)c.number();
        if (word == ".maxntid")
            e.most_threads = threads;
    }
    c.expect('{');
    e.body_line = c.line;
    size_t from = c.at;
    c.until("}");
    e.text = c.text->substr(from, c.at - from);
    c.expect('}');
    file->entries.push_back(e);
}

/* ---- Operands */
operand read_operand(cursor &c);

operand read_list(cursor &c, char end)
{
    operand list;
    list.kind = operand::LIST;
    do
        list.parts.push_back(read_operand(c));
    while (c.take(','));
    c.expect(end);
    return list;
}

operand read_address(cursor &c)
{
    operand address;
    address.kind = operand::ADDRESS;
    char first = c.next();
    if (isdigit((unsigned char)first) || first == '-') {
        address.bits = c.number();
    } else {
        address.base_is_name = first != '%';
        address.name = c.word();
        if (c.take('+') || c.next() == '-')
            address.bits = c.number();
    }
    c.expect(']');
    return address;
}

operand read_operand(cursor &c)
{
    operand o;
    if (c.take('{'))
        return read_list(c, '}');
    if (c.take('('))
        return read_list(c, ')');
    if (c.take('['))
        return read_address(c);
    o.negated = c.take('!');
    char first = c.next();
    if (isdigit((unsigned char)first) || first == '-') {
        o.bits = c.number();
        return o;
    }
    o.name = c.word();
    o.kind = first == '%' || o.name == "_" ? operand::REGISTER : operand::NAME;
    if (c.take('|')) {
        operand pair;
        pair.kind = operand::LIST;
        pair.paired = true;
        pair.parts = {o, read_operand(c)};
        return pair;
    }
    return o;
}

/* ---- Statements */
/* The registers that a block `{ … }` declares. They hide registers of the same name outside of the block. Maps each
 * name to the unique name in the kernel. */
using scope = std::map<std::string, std::string>;

struct body_reader {
    body result;
    std::vector<scope> scopes{1};

    void declare(cursor &c, const std::string &name, const std::string &type)
    {
        std::string own = name;
        while (result.registers.count(own))
            own += "'";
        if (!scopes.back().emplace(name, own).second)
            c.refuse("a register is declared twice: " + name);
        result.registers[own] = type;
    }
    /* Reads a declaration such as `.reg .b32 %r<5>, %x;`. */
    void declare_registers(cursor &c)
    {
        std::string type = c.word().substr(1);
        if (type_bits(type) == 0)
            c.refuse("an unknown type of a register");
        do {
            std::string name = c.word();
            if (!c.take('<')) {
                declare(c, name, type);
                continue;
            }
            uint64_t count = c.number();
            for (uint64_t i = 0; i < count; i++)
                declare(c, name + std::to_string(i), type);
            c.expect('>');
        } while (c.take(','));
        c.expect(';');
    }
    void rename(operand *o)
    {
        for (operand &part : o->parts)
            rename(&part);
        for (size_t i = scopes.size(); i-- > 0;) {
            auto found = scopes[i].find(o->name);
            if (found == scopes[i].end())
                continue;
            if (o->kind == operand::NAME)
                o->kind = operand::REGISTER; /* in inline assembly, names of registers may lack the % */
            if (o->kind == operand::ADDRESS)
                o->base_is_name = false;
            o->name = found->second;
            return;
        }
    }
    void read_instruction(cursor &c)
    {
        statement s;
        s.line = c.line;
        cursor line = c;
        s.text = line.until(";");
        if (c.take('@')) {
            operand guard;
            guard.kind = operand::REGISTER;
            s.guard_negated = c.take('!');
            guard.name = c.word();
            rename(&guard);
            s.guard = guard.name;
        }
        s.opcode = c.word();
        while (c.next() != ';') {
            s.operands.push_back(read_operand(c));
            rename(&s.operands.back());
            if (!c.take(',') && c.next() != ';')
                c.refuse("expected ',' or ';'");
        }
        c.expect(';');
        result.statements.push_back(s);
    }
    void read_directive(cursor &c)
    {
        std::string word = c.word();
        space where;
        if (word == ".reg")
            return declare_registers(c);
        if (word == ".pragma")
            c.until(";");
        else if (word == ".loc")
            return c.skip_to("\n");
        else if (space_of(word, &where) && where != SPACE_PARAM)
            result.variables.push_back(read_declared(c, where));
        else
            c.refuse("an unknown directive of a kernel: " + word);
        c.expect(';');
    }
    void read(cursor &c)
    {
        while (!c.ended()) {
            char first = c.next();
            if (c.take('{')) {
                scopes.emplace_back();
            } else if (c.take('}')) {
                scopes.pop_back();
                if (scopes.empty())
                    c.refuse("a brace too many");
            } else if (first == '.') {
                read_directive(c);
            } else if (first == ';') {
                c.expect(';');
            } else {
                cursor label = c;
                if (first != '@') {
                    std::string name = label.word();
                    if (label.take(':')) {
                        result.labels[name] = result.statements.size();
                        c = label;
                        continue;
                    }
                }
                read_instruction(c);
            }
        }
    }
};
} // namespace

file read_file(const std::string &text)
{
    static const std::string where = "a module";
    file file;
    cursor c{&text, &where};
    while (!c.ended()) {
        std::string word = c.word();
        space space;
        if (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common")
            continue;
        if (word == ".version" || word == ".target" || word == ".address_size" || word == ".file") {
            c.skip_to("\n");
        } else if (word == ".section") {
            c.until("}");
            c.expect('}');
        } else if (word == ".entry") {
            read_entry(c, &file);
        } else if (space_of(word, &space)) {
            file.variables.push_back(read_declared(c, space));
            c.expect(';');
        } else {
            c.refuse("an unknown directive of a module: " + word);
        }
    }
    return file;
}

body read_body(const entry &entry)
{
    body_reader reader;
    cursor c{&entry.text, &entry.name};
    c.line = entry.body_line;
    reader.read(c);
    return reader.result;
}
} // namespace ptx
