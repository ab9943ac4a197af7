/* alloc_fail: an allocator that fails on command, for the programs test_*_alloc.c. The linker's --wrap directs the
 * project's calls of malloc, free and others to the functions below. For jansson's calls, the program passes malloc and
 * free to json_set_alloc_funcs(). Only one source file of a program may include this header. */
#ifndef TESTS_UNIT_ALLOC_FAIL_H
#define TESTS_UNIT_ALLOC_FAIL_H

#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Limit for the number of allocations of an operation. An operation that reaches the limit counts as endless. */
#define ALLOC_FAIL_MAX 100000

static struct {
    long countdown; /* number of calls up to the one that fails, which is included. 0: no call fails */
    long live;      /* number of blocks that are allocated and not freed */
    bool failed;
    bool for_good; /* true: after the first failure, every call fails */
    long refused;  /* number of failed calls after the first failed call */
} alloc_fail;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);
void __wrap_free(void *block);

static bool alloc_fail_now(void)
{
    if (alloc_fail.for_good && alloc_fail.failed) {
        alloc_fail.refused++;
        return true;
    }
    if (alloc_fail.countdown == 0 || --alloc_fail.countdown > 0)
        return false;
    alloc_fail.failed = true;
    return true;
}

static void *alloc_fail_count(void *block)
{
    alloc_fail.live += block != NULL;
    return block;
}

void *__wrap_malloc(size_t size)
{
    return alloc_fail_now() ? NULL : alloc_fail_count(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return alloc_fail_now() ? NULL : alloc_fail_count(__real_calloc(count, size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return alloc_fail_now() ? NULL : alloc_fail_count(__real_aligned_alloc(alignment, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (alloc_fail_now())
        return NULL;
    void *moved = __real_realloc(block, size);
    return block ? moved : alloc_fail_count(moved);
}

char *__wrap_strndup(const char *text, size_t length)
{
    length = strnlen(text, length);
    char *copy = __wrap_malloc(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

char *__wrap_strdup(const char *text)
{
    return __wrap_strndup(text, strlen(text));
}

void __wrap_free(void *block)
{
    alloc_fail.live -= block != NULL;
    __real_free(block);
}

/* Repeats the operation. The first allocation fails in the first run, the second allocation in the second run, and so
 * on. The last run is the one in which no allocation fails. The operation must report each failure with a message, and
 * leave no memory allocated. Prints and returns the number of allocations of the operation. */
static inline long alloc_fail_each(int (*operation)(struct error *error))
{
    for (long n = 1; n < ALLOC_FAIL_MAX; n++) {
        struct error error = {""};
        long live = alloc_fail.live;
        alloc_fail.failed = false;
        alloc_fail.countdown = n;
        int result = operation(&error);
        alloc_fail.countdown = 0;
        assert_int_equal(alloc_fail.live, live);
        if (!alloc_fail.failed) {
            assert_int_equal(result, 0);
            print_message("# each of %ld allocations has failed\n", n - 1);
            return n - 1;
        }
        assert_int_equal(result, -1);
        assert_true(error.message[0] != '\0');
    }
    fail_msg("the operation does not end");
    return -1;
}

#endif
