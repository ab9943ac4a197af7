/* mutation: damaged copies of good inputs, for programs that find faults without a fuzzer. A copy depends only on the
 * good inputs, a seed and the number of the copy. Any copy can therefore be repeated alone. */
#ifndef TESTS_FUZZ_MUTATION_H
#define TESTS_FUZZ_MUTATION_H

#include <stddef.h>
#include <stdint.h>

/* A generator of random numbers (splitmix64). */
struct mutation {
    uint64_t state;
};

struct mutation mutation_begin(uint64_t seed, uint64_t number);
size_t mutation_draw(struct mutation *mutation, size_t below); /* 0 <= result < below */

struct bytes {
    uint8_t *data; /* may be NULL if size is 0 */
    size_t size;
};

/* Returns a copy of `given` after 1 to 8 changes, which begin at random offsets up to `reach`. Some changes copy a
 * piece of `other`. The block has exactly the returned size, so that the address sanitizer finds reads beyond its end.
 * If memory runs out, the process ends. The caller frees the data. */
struct bytes mutation_of(struct mutation *mutation, struct bytes given, size_t reach, struct bytes other);

/* Reads a file. Ends the process if this fails. The caller frees the data. */
struct bytes bytes_read(const char *path);

/* The settings of a run, from the environment variables SEED, FIRST and COUNT. The default of SEED is a random number.
 * FIRST is the number of the first input, by default 0. COUNT is the number of inputs, by default `count`. */
struct mutation_run {
    uint64_t seed, first, count;
};
struct mutation_run mutation_run_begin(uint64_t count);

/* Remembers the number of the current input. If the process aborts, or computes for two minutes, it prints this number
 * and the seed, and ends. Call mutation_run_begin first. */
void mutation_run_at(uint64_t number);

#endif
