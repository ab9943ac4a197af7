/* Reads the symbol table of a linked file in ELF format. */
#include "symbols.h"
#include "runtime.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_symbols(const char *file, const std::function<void(const shim::symbol &)> &use)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(file + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(file + sections[i].sh_offset);
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        for (size_t j = 0; j < sections[i].sh_size / sizeof *symbols; j++)
            if (ELF64_ST_TYPE(symbols[j].st_info) == STT_FUNC && symbols[j].st_shndx != SHN_UNDEF)
                use({names + symbols[j].st_name, symbols[j].st_value});
    }
}

void shim::for_each_function(const char *path, const std::function<void(const symbol &)> &use)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0)
        die("a library cannot be read for its symbols");
    void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (data == MAP_FAILED)
        die("a library cannot be read for its symbols");
    read_symbols((const char *)data, use);
    munmap(data, (size_t)status.st_size);
}
