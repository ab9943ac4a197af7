#include "tests/fuzz/mutation.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <unistd.h>

#define MAX_CHANGES 8
#define MAX_MOVED 64 /* maximum number of bytes that one change copies or removes. Case 8 may remove more */
#define HANG_S 120   /* seconds of processor time after which an input counts as endless */
#define MAX_ADDED_BYTES (MAX_CHANGES * MAX_MOVED)

/* ---- Random numbers ---- */

static uint64_t next(struct mutation *mutation)
{
    uint64_t z = mutation->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

struct mutation mutation_begin(uint64_t seed, uint64_t number)
{
    struct mutation mutation = {seed};
    mutation.state = next(&mutation) ^ number;
    mutation.state = next(&mutation);
    return mutation;
}

size_t mutation_draw(struct mutation *mutation, size_t below)
{
    return (size_t)(next(mutation) % below);
}

/* ---- Changes ---- */

/* Texts that may cause errors in readers of JSON, numbers and shapes. */
static const char *const words[] = {
    "[",
    "]",
    "{",
    "}",
    "\"",
    ",",
    ":",
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "-0",
    "1e999",
    "1e-999",
    "0.5",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "\\u0000",
    "\\ud800",
    "\\",
    "\xff",
    "\xc3",
    "\xf0\x9f\x98\x80",
    "[[[[[[[[",
    "{\"a\":",
    " ",
    "\n",
    "//",
    "NaN",
    "Infinity",
    "\"\"",
    "[]",
    "{}",
    "1.0",
    "I64",
    "F16",
    "BF16",
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Replaces `removed` bytes at the offset `at` by `size` bytes of `put`. The block must have room for the result. */
static void replace(struct bytes *bytes, size_t at, size_t removed, const void *put, size_t size)
{
    uint8_t copy[MAX_MOVED];
    memcpy(copy, put, size); /* `put` may point into the block that changes */
    memmove(bytes->data + at + size, bytes->data + at + removed, bytes->size - at - removed);
    memcpy(bytes->data + at, copy, size);
    bytes->size += size - removed;
}

static void insert_word(struct mutation *mutation, struct bytes *bytes, size_t at, size_t removed)
{
    const char *word = words[mutation_draw(mutation, sizeof words / sizeof *words)];
    replace(bytes, at, removed, word, strlen(word));
}

/* Number of consecutive digits, beginning at the offset `at`. */
static size_t digits(const struct bytes *bytes, size_t at)
{
    size_t count = 0;
    while (at + count < bytes->size && bytes->data[at + count] >= '0' && bytes->data[at + count] <= '9')
        count++;
    return count;
}

/* Replaces `removed` bytes at the offset `at` by a random piece of `from`. */
static void copy_piece(struct mutation *mutation, struct bytes *bytes, size_t at, size_t removed, struct bytes from)
{
    if (from.size == 0)
        return;
    size_t begin = mutation_draw(mutation, from.size);
    size_t length = 1 + mutation_draw(mutation, least(MAX_MOVED, from.size - begin));
    replace(bytes, at, removed, from.data + begin, length);
}

/* Returns the offset of the first digit at or behind `at`, or `at` if the next MAX_MOVED bytes contain no digit. */
static size_t find_digit(const struct bytes *bytes, size_t at)
{
    for (size_t i = at; i < bytes->size && i < at + MAX_MOVED; i++)
        if (digits(bytes, i) > 0)
            return i;
    return at;
}

static void change(struct mutation *mutation, struct bytes *bytes, size_t reach, struct bytes other)
{
    size_t at = mutation_draw(mutation, least(reach, bytes->size) + 1), left = bytes->size - at;
    size_t some = left == 0 ? 0 : 1 + mutation_draw(mutation, least(left, MAX_MOVED));
    switch (mutation_draw(mutation, 9)) {
    case 0:
        if (left > 0)
            bytes->data[at] ^= (uint8_t)(1U << mutation_draw(mutation, 8));
        return;
    case 1:
        if (left > 0)
            bytes->data[at] = (uint8_t)mutation_draw(mutation, 256);
        return;
    case 2:
        replace(bytes, at, some, "", 0);
        return;
    case 3: /* repeats the next bytes */
        replace(bytes, at, 0, bytes->data + at, some);
        return;
    case 4:
        insert_word(mutation, bytes, at, 0);
        return;
    case 5: /* replaces a number */
        at = find_digit(bytes, at);
        insert_word(mutation, bytes, at, least(digits(bytes, at), MAX_MOVED));
        return;
    case 6:
        copy_piece(mutation, bytes, at, 0, other);
        return;
    case 7:
        copy_piece(mutation, bytes, at, some, other);
        return;
    case 8: /* with the probability 1/4, removes all bytes from the offset on */
        if (mutation_draw(mutation, 4) == 0)
            bytes->size = at;
        return;
    }
}

static uint8_t *allocate(size_t size)
{
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (data)
        return data;
    fprintf(stderr, "out of memory\n");
    exit(2);
}

struct bytes mutation_of(struct mutation *mutation, struct bytes given, size_t reach, struct bytes other)
{
    struct bytes bytes = {allocate(given.size + MAX_ADDED_BYTES), given.size};
    if (given.size > 0)
        memcpy(bytes.data, given.data, given.size);
    for (size_t changes = 1 + mutation_draw(mutation, MAX_CHANGES); changes > 0; changes--)
        change(mutation, &bytes, reach, other);
    struct bytes exact = {malloc(bytes.size), bytes.size}; /* no byte is readable if the size is 0 */
    if (exact.data && bytes.size > 0)
        memcpy(exact.data, bytes.data, bytes.size);
    free(bytes.data);
    if (exact.data || bytes.size == 0)
        return exact;
    fprintf(stderr, "out of memory\n");
    exit(2);
}

/* ---- Files ---- */

struct bytes bytes_read(const char *path)
{
    struct bytes bytes = {NULL, 0};
    FILE *file = fopen(path, "rb");
    long length = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        length = ftell(file);
    if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        bytes = (struct bytes){allocate((size_t)length), (size_t)length};
        if (fread(bytes.data, 1, bytes.size, file) == bytes.size) {
            fclose(file);
            return bytes;
        }
    }
    perror(path);
    exit(2);
}

/* ---- Runs ---- */

static struct mutation_run current;
static volatile uint64_t current_number;

/* A function of the sanitizers. It is NULL in a build without them. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* Prints the number of the current input. Signal handlers should not call snprintf, but here the process ends
 * anyway. */
static void print_number(void)
{
    char text[120];
    int length = snprintf(text, sizeof text,
                          "\n# input %" PRIu64 ": repeat it with SEED=%" PRIu64 " FIRST=%" PRIu64 " COUNT=1\n",
                          current_number, current.seed, current_number);
    if (write(STDOUT_FILENO, text, (size_t)length) < 0)
        _exit(2);
}

static void handle_signal(int number)
{
    print_number();
    signal(number, SIG_DFL);
    raise(number);
}

static uint64_t from_environment(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : fallback;
}

struct mutation_run mutation_run_begin(uint64_t count)
{
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint32_t)getpid();
    current = (struct mutation_run){from_environment("SEED", seed), from_environment("FIRST", 0),
                                    from_environment("COUNT", count)};
    printf("# seed %" PRIu64 ", %" PRIu64 " inputs from number %" PRIu64 " on\n1..1\n", current.seed, current.count,
           current.first);
    fflush(stdout);
    signal(SIGABRT, handle_signal);
    signal(SIGVTALRM, handle_signal);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(print_number);
    return current;
}

void mutation_run_at(uint64_t number)
{
    const struct itimerval limit = {.it_value.tv_sec = HANG_S};
    current_number = number;
    setitimer(ITIMER_VIRTUAL, &limit, NULL);
    if (number > current.first && (number - current.first) % 100000 == 0) {
        printf("# %" PRIu64 " inputs\n", number - current.first);
        fflush(stdout);
    }
}
