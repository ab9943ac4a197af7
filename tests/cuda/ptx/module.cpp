/* The functions of emulator.h that read modules and describe their kernels. */
#include "tests/cuda/ptx/machine.h"

#include <algorithm>
#include <cstring>

namespace ptx
{
namespace
{
variable_of_module make_variable(const declared &declared)
{
    variable_of_module variable;
    variable.memory.resize(declared.bytes + declared.alignment);
    size_t past = (size_t)variable.memory.data() % declared.alignment;
    variable.first = variable.memory.data() + (past ? declared.alignment - past : 0);
    variable.bytes = declared.bytes;
    memcpy(variable.first, declared.initial.data(), std::min(declared.initial.size(), declared.bytes));
    return variable;
}

std::unique_ptr<kernel> make_kernel(module *module, const entry &entry)
{
    auto made = std::make_unique<kernel>();
    made->source = entry;
    made->owner = module;
    for (const declared &parameter : entry.parameters) {
        made->parameter_bytes =
            (made->parameter_bytes + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
        made->parameter_offsets.push_back(made->parameter_bytes);
        made->parameter_bytes += parameter.bytes;
    }
    return made;
}
} // namespace

module *parse(const char *text, size_t bytes)
{
    static auto *all = new std::vector<module *>; /* so that leak checkers find a pointer to each module */
    module *made = new module;
    all->push_back(made);
    if (bytes > 0 && text[bytes - 1] == 0)
        bytes--;
    made->source = read_file(std::string(text, bytes));
    for (const declared &variable : made->source.variables)
        if (variable.where == SPACE_GLOBAL || variable.where == SPACE_CONST)
            made->variables.emplace(variable.name, make_variable(variable));
    for (const entry &entry : made->source.entries)
        made->kernels.push_back(make_kernel(made, entry));
    made->source.entries.clear(); /* each kernel owns a copy of its entry */
    return made;
}

std::vector<std::string> entries(const module *module)
{
    std::vector<std::string> names;
    for (const auto &kernel : module->kernels)
        names.push_back(kernel->source.name);
    return names;
}

const kernel *find(const module *module, const char *entry)
{
    for (const auto &kernel : module->kernels)
        if (kernel->source.name == entry)
            return kernel.get();
    return nullptr;
}

size_t static_shared_bytes(const kernel *kernel)
{
    decode(kernel);
    return kernel->static_shared_bytes;
}

unsigned most_threads(const kernel *kernel)
{
    return kernel->source.most_threads ? kernel->source.most_threads : 1024;
}

std::vector<size_t> parameter_bytes(const kernel *kernel)
{
    std::vector<size_t> sizes;
    for (const declared &parameter : kernel->source.parameters)
        sizes.push_back(parameter.bytes);
    return sizes;
}

void *variable(module *module, const char *name, size_t *bytes)
{
    auto found = module->variables.find(name);
    if (found == module->variables.end())
        return nullptr;
    *bytes = found->second.bytes;
    return found->second.first;
}
} // namespace ptx
