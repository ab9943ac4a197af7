/* failing_alloc: a library that lets one allocation of a running program fail. Another process chooses n, and the n-th
 * allocation from this moment fails. The program loads the library with LD_PRELOAD. Both processes map the file that
 * the environment variable FAILING_ALLOC names. */
#define _GNU_SOURCE /* dladdr, dl_iterate_phdr */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SCOPE_BYTES 256

/* The content of the shared file. allocations.py uses the same offsets. */
struct control {
    _Atomic int64_t countdown; /* number of allocations up to the one that fails, 0: none fails */
    _Atomic int64_t failures;  /* number of allocations that have failed */
    _Atomic int64_t live;      /* number of blocks that are allocated and not freed */
    _Atomic uintptr_t place;   /* offset of the caller of the last failed allocation in its object file */
    char object[SCOPE_BYTES];  /* path of this object file: the program or a library */
    char scope[SCOPE_BYTES];   /* names of libraries, each followed by a space. Their allocations may also fail */
};

static struct control unused;
static struct control *control = &unused;
static uintptr_t own_begin, own_end; /* address range of the program */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

/* Notes the program's address range. dl_iterate_phdr calls this function for the program first. */
static int note_program(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    own_begin = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr, end = begin + header->p_memsz;
        if (header->p_type == PT_LOAD) {
            own_begin = begin < own_begin ? begin : own_begin;
            own_end = end > own_end ? end : own_end;
        }
    }
    return 1;
}

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("FAILING_ALLOC");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *mapped = fd >= 0 ? mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (mapped == MAP_FAILED)
        abort();
    close(fd);
    dl_iterate_phdr(note_program, NULL);
    control = mapped;
}

/* Returns true if the allocations of the object file at this address may fail. */
static bool may_fail(const void *caller)
{
    Dl_info info;
    if ((uintptr_t)caller >= own_begin && (uintptr_t)caller < own_end)
        return true;
    if (control->scope[0] == '\0' || dladdr(caller, &info) == 0 || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/'), *name = slash ? slash + 1 : info.dli_fname;
    const char *word = control->scope;
    for (const char *end; (end = strchr(word, ' ')) != NULL; word = end + 1)
        if (strncmp(name, word, (size_t)(end - word)) == 0)
            return true;
    return false;
}

static bool fails(const void *caller)
{
    Dl_info info;
    if (atomic_load(&control->countdown) <= 0 || !may_fail(caller) || atomic_fetch_sub(&control->countdown, 1) != 1)
        return false;
    if (dladdr(caller, &info) != 0 && info.dli_fname) {
        strncpy(control->object, info.dli_fname, SCOPE_BYTES - 1);
        atomic_store(&control->place, (uintptr_t)caller - (uintptr_t)info.dli_fbase);
    }
    atomic_fetch_add(&control->failures, 1);
    errno = ENOMEM;
    return true;
}

static void *counted(void *block)
{
    if (block)
        atomic_fetch_add(&control->live, 1);
    return block;
}

/* ---- Functions that replace those of the C library */

void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : counted(__libc_calloc(count, size));
}

void *memalign(size_t alignment, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    void *made = fails(__builtin_return_address(0)) ? NULL : counted(__libc_memalign(alignment, size));
    if (made)
        *block = made;
    return made ? 0 : ENOMEM;
}

static void *resize(void *block, size_t size)
{
    void *moved = __libc_realloc(block, size);
    if (!block)
        return counted(moved);
    if (size == 0 && !moved) /* realloc has freed the block */
        atomic_fetch_sub(&control->live, 1);
    return moved;
}

void *realloc(void *block, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : resize(block, size);
}

void *reallocarray(void *block, size_t count, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return fails(__builtin_return_address(0)) ? NULL : resize(block, all);
}

static char *copy(const char *text, size_t length)
{
    char *copied = counted(__libc_malloc(length + 1));
    if (!copied)
        return NULL;
    memcpy(copied, text, length);
    copied[length] = '\0';
    return copied;
}

char *strdup(const char *text)
{
    return fails(__builtin_return_address(0)) ? NULL : copy(text, strlen(text));
}

char *strndup(const char *text, size_t length)
{
    return fails(__builtin_return_address(0)) ? NULL : copy(text, strnlen(text, length));
}

void free(void *block)
{
    if (block)
        atomic_fetch_sub(&control->live, 1);
    __libc_free(block);
}
