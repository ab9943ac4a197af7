/* Gives damaged inputs to a fuzz target, without a fuzzer (mutation.h). The argument is the folder of good inputs, by
 * default the target's corpus in tests/fuzz/corpus/. Prints one TAP test. If the target finds a fault, it aborts. */
#define _GNU_SOURCE /* asprintf */
#include "tests/fuzz/mutation.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_COUNT 2000 /* number of inputs if COUNT is not set */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Reads all files of the folder. */
static struct bytes *read_corpus(const char *folder, size_t *count)
{
    struct dirent **entries = NULL;
    int found = scandir(folder, &entries, is_input, alphasort);
    struct bytes *inputs = found > 0 ? calloc((size_t)found, sizeof *inputs) : NULL;
    if (!inputs) {
        fprintf(stderr, "%s: there are no inputs\n", folder);
        exit(2);
    }
    for (int i = 0; i < found; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0)
            exit(2);
        inputs[i] = bytes_read(path);
        free(path);
        free(entries[i]);
    }
    free(entries);
    *count = (size_t)found;
    return inputs;
}

int main(int argc, char **argv)
{
    char corpus[4096];
    const char *name = strrchr(argv[0], '_');
    snprintf(corpus, sizeof corpus, "tests/fuzz/corpus/%s", name ? name + 1 : "");
    struct mutation_run run = mutation_run_begin(SHORT_COUNT);
    size_t count = 0;
    struct bytes *inputs = read_corpus(argc > 1 ? argv[1] : corpus, &count);
    for (uint64_t number = run.first; number < run.first + run.count; number++) {
        mutation_run_at(number);
        struct mutation mutation = mutation_begin(run.seed, number);
        struct bytes given = inputs[mutation_draw(&mutation, count)];
        struct bytes input = mutation_of(&mutation, given, SIZE_MAX, inputs[mutation_draw(&mutation, count)]);
        LLVMFuzzerTestOneInput(input.data, input.size);
        free(input.data);
    }
    for (size_t i = 0; i < count; i++)
        free(inputs[i].data);
    free(inputs);
    printf("ok 1 - %" PRIu64 " damaged inputs of %zu good ones\n", run.count, count);
    return 0;
}
