#include "tests/cuda/ptx/decode.h"

#include <cstdio>
#include <cstring>
#include <mutex>

namespace ptx
{
namespace
{
constexpr uint32_t LINE = 64; /* bytes of a cache line. Declared registers except predicates begin at a multiple */

uint32_t bytes_of(char storage)
{
    return storage == 'p' ? 4 : storage == 'w' ? 4 * LANES : 8 * LANES;
}

char storage_of_type(const std::string &type)
{
    unsigned bits = type_bits(type);
    return bits == 1 ? 'p' : bits <= 32 ? 'w' : 'l';
}

uint32_t reserve(kernel &kernel, char storage)
{
    uint32_t at = (uint32_t)kernel.file.size();
    kernel.file.resize(at + bytes_of(storage), (char)0xff);
    return at;
}

size_t rounded_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

/* Returns whether `name` is a supported special register. All of them have 32 bits. %ctaid is filled in when a block
 * begins, the others when a launch begins. */
bool is_special(const std::string &name)
{
    static const char *const known[] = {"%tid.x",       "%tid.y",           "%tid.z",
                                        "%ntid.x",      "%ntid.y",          "%ntid.z",
                                        "%ctaid.x",     "%ctaid.y",         "%ctaid.z",
                                        "%nctaid.x",    "%nctaid.y",        "%nctaid.z",
                                        "%laneid",      "%warpid",          "%lanemask_eq",
                                        "%lanemask_le", "%lanemask_lt",     "%lanemask_ge",
                                        "%lanemask_gt", "%total_smem_size", "%dynamic_smem_size"};
    for (const char *one : known)
        if (name == one)
            return true;
    return false;
}

form_table all_forms()
{
    form_table table;
    add_integer_forms(table);
    add_float_forms(table);
    add_comparison_forms(table);
    add_conversion_forms(table);
    return table;
}

using family = bool (*)(decoder &, const statement &, const words &, instruction &);

const std::map<std::string, family> families = {{"ld", decode_memory},       {"ldu", decode_memory},
                                                {"st", decode_memory},       {"atom", decode_memory},
                                                {"red", decode_memory},      {"cvta", decode_memory},
                                                {"membar", decode_memory},   {"fence", decode_memory},
                                                {"prefetch", decode_memory}, {"mov", decode_move},
                                                {"shfl", decode_exchange},   {"vote", decode_exchange},
                                                {"bar", decode_exchange},    {"barrier", decode_exchange},
                                                {"redux", decode_exchange},  {"activemask", decode_exchange},
                                                {"cp", decode_copy},         {"mma", decode_tensor},
                                                {"ldmatrix", decode_tensor}, {"stmatrix", decode_tensor},
                                                {"bra", decode_control},     {"ret", decode_control},
                                                {"exit", decode_control},    {"trap", decode_control}};
} // namespace

void decoder::refuse(const std::string &why) const
{
    ptx::refuse(kernel.source.name, now->line, now->text, why);
}

void decoder::expect_operands(size_t least, size_t most) const
{
    if (now->operands.size() < least || now->operands.size() > most)
        refuse("another number of operands than expected");
}

char decoder::storage_of(const operand &operand, char otherwise) const
{
    auto found = kernel.body.registers.find(operand.name);
    return operand.kind == operand::REGISTER && found != kernel.body.registers.end() ? storage_of_type(found->second)
                                                                                     : otherwise;
}

uint32_t decoder::place(const operand &operand, char storage)
{
    if (operand.kind == operand::REGISTER && kernel.body.registers.count(operand.name)) {
        if (storage_of(operand, storage) != storage)
            refuse("the register " + operand.name + " has another size than the instruction needs");
        return places.at(operand.name);
    }
    if (operand.kind == operand::REGISTER) {
        auto known = places.find(operand.name);
        if (storage != 'w' || !is_special(operand.name))
            refuse("the register " + operand.name + " is not declared, or not known");
        if (known != places.end())
            return known->second;
        uint32_t at = reserve(kernel, storage);
        kernel.specials.push_back({operand.name.substr(1), at});
        return places[operand.name] = at;
    }
    uint64_t bits = operand.kind == operand::NAME ? 0 : number(operand);
    if (operand.kind == operand::NAME) {
        if (!names.count(operand.name))
            refuse("the name " + operand.name + " is not known");
        bits = names.at(operand.name);
    }
    if (storage == 'p')
        bits = bits ? ~0u : 0;
    auto known = constants.find({bits, storage});
    if (known != constants.end())
        return known->second;
    uint32_t at = reserve(kernel, storage), size = storage == 'l' ? 8 : 4;
    for (uint32_t place = at; place < at + bytes_of(storage); place += size)
        memcpy(&kernel.file[place], &bits, size);
    return constants[{bits, storage}] = at;
}

void decoder::put(instruction &i, unsigned n, const operand &operand, char storage)
{
    if (n >= MAX_OPERANDS || (operand.negated && storage != 'p'))
        refuse("too many operands, or a number that is negated");
    i.at[n] = place(operand, storage);
    i.flips |= (uint32_t)operand.negated << n;
}

void decoder::put_destination(instruction &i, unsigned n, const operand &operand, char storage)
{
    if (operand.kind == operand::REGISTER && operand.name == "_")
        i.at[n] = sink;
    else if (operand.kind == operand::REGISTER && kernel.body.registers.count(operand.name) && !operand.negated)
        put(i, n, operand, storage);
    else
        refuse("the destination is not a register");
}

reference decoder::address(const operand &operand)
{
    if (operand.kind != operand::ADDRESS)
        refuse("expected an address in brackets");
    struct operand base = operand;
    base.kind = operand.name.empty() ? operand::NUMBER : operand.base_is_name ? operand::NAME : operand::REGISTER;
    if (base.kind == operand::NUMBER)
        return {place(base, 'l'), true, 0};
    char storage = storage_of(base, 'l');
    return {place(base, storage), storage == 'l', (int64_t)operand.bits};
}

std::vector<operand> decoder::parts_of(const operand &operand) const
{
    if (operand.kind == operand::LIST)
        return operand.parts;
    return {operand};
}

uint64_t decoder::number(const operand &operand) const
{
    if (operand.kind != operand::NUMBER)
        refuse("expected a number");
    return operand.bits;
}

uint32_t decoder::label(const operand &operand) const
{
    auto found = kernel.body.labels.find(operand.name);
    if (operand.kind != operand::NAME || found == kernel.body.labels.end())
        refuse("expected a label of this kernel");
    return (uint32_t)found->second;
}

namespace
{
/* Assigns addresses to the variables and parameters of a kernel. The kernel's shared variables come before the dynamic
 * shared memory of the launch. */
void place_variables(decoder &d)
{
    kernel &kernel = d.kernel;
    for (size_t i = 0; i < kernel.source.parameters.size(); i++)
        d.names[kernel.source.parameters[i].name] = kernel.parameter_offsets[i];
    for (const auto &[name, variable] : kernel.owner->variables)
        d.names[name] = (uint64_t)variable.first;
    size_t shared = 0;
    std::vector<declared> all = kernel.owner->source.variables;
    all.insert(all.end(), kernel.body.variables.begin(), kernel.body.variables.end());
    for (const declared &one : all) {
        if (one.where == SPACE_LOCAL) {
            kernel.local_bytes = rounded_up(kernel.local_bytes, one.alignment);
            d.names[one.name] = kernel.local_bytes;
            kernel.local_bytes += one.bytes;
        } else if (one.where == SPACE_SHARED && one.bytes > 0) {
            shared = rounded_up(shared, one.alignment);
            d.names[one.name] = SHARED_BEGIN + shared;
            shared += one.bytes;
        }
    }
    kernel.static_shared_bytes = shared;
    for (const declared &one : all)
        if (one.where == SPACE_SHARED && one.bytes == 0)
            d.names[one.name] = SHARED_BEGIN + rounded_up(shared, 128);
}

/* Copies the lower half of a register of 64 bits from operand 3 to operand 1, and runs the conversion. */
void narrow(warp &warp, const instruction &i)
{
    const uint64_t *from = warp.lanes<uint64_t>(i.at[3]);
    uint32_t *to = warp.lanes<uint32_t>(i.at[1]);
    for (unsigned lane = 0; lane < LANES; lane++)
        to[lane] = (uint32_t)from[lane];
    i.after(warp, i);
}

/* Decodes a cvt whose source register has 64 bits, but whose source type has at most 32 bits. The conversion ignores
 * the register's upper half. */
bool decode_narrowed(decoder &d, const form &form, const statement &s, instruction &i)
{
    if (s.opcode.substr(0, 4) != "cvt." || s.operands.size() != 2 || form.operands[1] != 'w' ||
        d.storage_of(s.operands[1], 'w') != 'l')
        return false;
    d.put_destination(i, 0, s.operands[0], form.operands[0]);
    d.put(i, 3, s.operands[1], 'l');
    i.at[1] = reserve(d.kernel, 'w');
    i.after = form.run;
    i.run = narrow;
    return true;
}

/* Decodes an instruction whose result in a lane depends only on this lane. */
bool decode_form(decoder &d, const statement &s, instruction &i)
{
    static const form_table forms = all_forms();
    auto found = forms.find(s.opcode);
    if (found == forms.end())
        return false;
    const char *storage = found->second.operands;
    if (decode_narrowed(d, found->second, s, i))
        return true;
    d.expect_operands(strlen(storage), strlen(storage));
    d.put_destination(i, 0, s.operands[0], storage[0]);
    for (unsigned n = 1; storage[n]; n++)
        d.put(i, n, s.operands[n], storage[n]);
    i.run = found->second.run;
    return true;
}

instruction decode_statement(decoder &d, const statement &s)
{
    instruction i;
    i.source = d.now = &s;
    if (!s.guard.empty()) {
        operand guard;
        guard.kind = operand::REGISTER;
        guard.name = s.guard;
        i.guarded = true;
        i.guard_flip = s.guard_negated ? ~0u : 0;
        i.guard_at = d.place(guard, 'p');
    }
    words words = words_of(s.opcode);
    auto family = families.find(words[0]);
    bool known = family == families.end() ? decode_form(d, s, i) : family->second(d, s, words, i) && i.run;
    if (!known)
        d.refuse("an instruction that the emulator does not know");
    return i;
}

/* `mov.b64 {a, b}, c` unpacks a register, `mov.b64 c, {a, b}` packs one. The first element has the lowest bits. */
template <typename W> void unpack(warp &warp, const instruction &i)
{
    unsigned bits = (unsigned)sizeof(W) * 8 / i.parts;
    W values[LANES];
    memcpy(values, warp.lanes<W>(i.at[4]), sizeof values);
    for (unsigned part = 0; part < i.parts; part++) {
        uint32_t results[LANES];
        for (unsigned lane = 0; lane < LANES; lane++)
            results[lane] = (uint32_t)(values[lane] >> part * bits) & (bits == 32 ? ~0u : (1u << bits) - 1);
        put_lanes(warp, i.at[part], results);
    }
}

template <typename W> void pack(warp &warp, const instruction &i)
{
    unsigned bits = (unsigned)sizeof(W) * 8 / i.parts;
    W results[LANES] = {};
    for (unsigned part = 0; part < i.parts; part++) {
        const uint32_t *values = warp.lanes<uint32_t>(i.at[part]);
        for (unsigned lane = 0; lane < LANES; lane++)
            results[lane] |= (W)(values[lane] & (bits == 32 ? ~0u : (1u << bits) - 1)) << part * bits;
    }
    put_lanes(warp, i.at[4], results);
}

/* Each reading of a clock advances it by 1000. */
void read_clock(warp &warp, const instruction &i)
{
    static uint64_t clock;
    uint64_t results[LANES];
    clock += 1000;
    for (unsigned lane = 0; lane < LANES; lane++)
        results[lane] = clock;
    put_lanes(warp, i.at[0], results);
}
} // namespace

bool decode_move(decoder &d, const statement &s, const words &words, instruction &i)
{
    d.expect_operands(2, 2);
    bool unpacks = s.operands[0].kind == operand::LIST, packs = s.operands[1].kind == operand::LIST;
    const std::string &from = s.operands[1].name;
    if (from == "%clock64" || from == "%globaltimer") {
        d.put_destination(i, 0, s.operands[0], 'l');
        i.run = read_clock;
        return true;
    }
    if (!unpacks && !packs)
        return decode_form(d, s, i);
    const std::vector<operand> &parts = s.operands[unpacks ? 0 : 1].parts;
    unsigned bits = words.size() == 2 ? type_bits(words[1]) : 0;
    i.parts = (uint32_t)parts.size();
    if ((bits != 32 && bits != 64) || (i.parts != 2 && i.parts != 4) || (bits / i.parts < 16) || unpacks == packs)
        return false;
    char whole = bits == 64 ? 'l' : 'w';
    for (unsigned part = 0; part < i.parts; part++)
        unpacks ? d.put_destination(i, part, parts[part], 'w') : d.put(i, part, parts[part], 'w');
    unpacks ? d.put(i, 4, s.operands[1], whole) : d.put_destination(i, 4, s.operands[0], whole);
    if (unpacks)
        i.run = whole == 'l' ? unpack<uint64_t> : unpack<uint32_t>;
    else
        i.run = whole == 'l' ? pack<uint64_t> : pack<uint32_t>;
    return true;
}

void decode(const kernel *constant)
{
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> lock(one_at_a_time);
    kernel &kernel = *(struct kernel *)constant;
    if (kernel.decoded)
        return;
    kernel.body = read_body(kernel.source);
    decoder d{kernel};
    /* Predicates come first, because they are smaller than a cache line. */
    for (char storage : {'p', 'w', 'l'}) {
        for (const auto &[name, type] : kernel.body.registers)
            if (storage_of_type(type) == storage)
                d.places[name] = reserve(kernel, storage);
        kernel.file.resize(rounded_up(kernel.file.size(), LINE));
    }
    d.sink = reserve(kernel, 'l');
    kernel.register_bytes = kernel.file.size();
    place_variables(d);
    for (const statement &s : kernel.body.statements)
        kernel.code.push_back(decode_statement(d, s));
    static const statement end = {0, "the end of the kernel", "", false, "ret", {}};
    kernel.code.push_back(decode_statement(d, end));
    kernel.decoded = true;
}
} // namespace ptx
