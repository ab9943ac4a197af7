/* Loads damaged copies of model folders (mutation.h). The arguments are folders of good models, by default those of
 * tests/reference/, tests/modules/reference/ and docs/examples/. Prints one TAP test. A damaged folder is refused with
 * a message, or it is loaded and computes a batch. */
#define _GNU_SOURCE /* asprintf */
#include "server/model_version.h"
#include "tests/fuzz/mutation.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHORT_COUNT 100 /* number of folders if COUNT is not set */
#define LENGTH_BYTES 8  /* bytes at the beginning of a safetensors file, which contain the length of the header */

enum { CONFIG, WEIGHTS, TOKENIZER, N_FILES };
static const char *const names[N_FILES] = {"config.json", "model.safetensors", "tokenizer.json"};

struct folder {
    struct bytes files[N_FILES]; /* data is NULL if the folder does not contain the file */
};

static char *path_of(const char *folder, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", folder, name) >= 0)
        return path;
    fprintf(stderr, "out of memory\n");
    exit(2);
}

static struct folder folder_read(const char *path)
{
    struct folder folder = {.files = {{NULL, 0}}};
    for (int i = 0; i < N_FILES; i++) {
        char *file = path_of(path, names[i]);
        if (i != TOKENIZER || access(file, R_OK) == 0)
            folder.files[i] = bytes_read(file);
        free(file);
    }
    return folder;
}

/* Returns the number of bytes at the beginning of the file that may be changed. Most changes spare the data of tensors,
 * because the values of these numbers do not affect the loader. */
static size_t reach_of(struct mutation *mutation, int file, struct bytes bytes)
{
    uint64_t header = 0;
    if (file != WEIGHTS || bytes.size < LENGTH_BYTES || mutation_draw(mutation, 8) == 0)
        return bytes.size;
    memcpy(&header, bytes.data, LENGTH_BYTES); /* the file and all supported machines are little endian */
    return header < bytes.size ? LENGTH_BYTES + (size_t)header : bytes.size;
}

static void write_file(const char *folder, int file, struct bytes bytes)
{
    char *path = path_of(folder, names[file]);
    FILE *out = fopen(path, "wb");
    if (!out || (bytes.size > 0 && fwrite(bytes.data, 1, bytes.size, out) != bytes.size) || fclose(out) != 0) {
        perror(path);
        exit(2);
    }
    free(path);
}

static void remove_files(const char *folder)
{
    for (int i = 0; i < N_FILES; i++) {
        char *path = path_of(folder, names[i]);
        unlink(path);
        free(path);
    }
}

/* Writes a copy of `good` in which at most two files are damaged. Some of the damaged files are left out. */
static void write_damaged(struct mutation *mutation, const struct folder *good, const struct folder *other,
                          const char *folder)
{
    size_t first = mutation_draw(mutation, N_FILES), second = mutation_draw(mutation, N_FILES);
    remove_files(folder);
    for (int i = 0; i < N_FILES; i++) {
        struct bytes given = good->files[i];
        bool damaged = (size_t)i == first || ((size_t)i == second && mutation_draw(mutation, 2) == 0);
        if (!given.data || (damaged && mutation_draw(mutation, 64) == 0))
            continue;
        if (!damaged) {
            write_file(folder, i, given);
            continue;
        }
        struct bytes bytes = mutation_of(mutation, given, reach_of(mutation, i, given), other->files[i]);
        write_file(folder, i, bytes);
        free(bytes.data);
    }
}

/* Returns whether the model was loaded and computed a batch. */
static bool load(struct engine *engine, char *path)
{
    const struct model_load_options options = {.logs = false};
    const struct model_source source = {.path = path};
    struct error error = {""};
    double flops = 0;
    struct model_version *version = model_version_open(&source, WEIGHTS_BUILTIN, &error);
    bool loaded = version && model_version_load(version, engine, &options, &error) == 0 &&
                  model_warm_up(version->served.model, 0, &flops, &error) == 0;
    model_version_close(version);
    if (!loaded && error.message[0] == '\0') {
        fprintf(stderr, "a folder was refused without a message\n");
        abort();
    }
    return loaded;
}

static struct folder *read_folders(int count, char **paths)
{
    struct folder *folders = calloc((size_t)count, sizeof *folders);
    for (int i = 0; i < count && folders; i++)
        folders[i] = folder_read(paths[i]);
    if (folders)
        return folders;
    fprintf(stderr, "no folders\n");
    exit(2);
}

/* Loads the damaged folders of a run in one engine. Returns the number of refused folders. */
static uint64_t load_all(const struct mutation_run *run, const struct folder *folders, size_t count, char *path)
{
    const struct engine_options options = {
        .device = {DEVICE_CPU}, .dtype = DTYPE_F32, .threads = 1, .max_batch_tokens = 64, .max_batch_requests = 2};
    struct engine *engine;
    struct error error;
    uint64_t refused = 0;
    if (engine_open(&options, &engine, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        exit(2);
    }
    for (uint64_t number = run->first; number < run->first + run->count; number++) {
        mutation_run_at(number);
        struct mutation mutation = mutation_begin(run->seed, number);
        const struct folder *good = &folders[mutation_draw(&mutation, count)];
        write_damaged(&mutation, good, &folders[mutation_draw(&mutation, count)], path);
        refused += !load(engine, path);
    }
    engine_close(engine);
    return refused;
}

static void find_folders(glob_t *found)
{
    static const char *const patterns[] = {"tests/reference/*/config.json", "tests/modules/reference/*/config.json",
                                           "docs/examples/*/config.json"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (glob(patterns[i], i > 0 ? GLOB_APPEND : 0, NULL, found) != 0) {
            fprintf(stderr, "%s: no model\n", patterns[i]);
            exit(2);
        }
    for (size_t i = 0; i < found->gl_pathc; i++)
        *strrchr(found->gl_pathv[i], '/') = '\0';
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/mutate_folders.XXXXXX";
    glob_t found = {0};
    struct mutation_run run = mutation_run_begin(SHORT_COUNT);
    if (argc < 2)
        find_folders(&found);
    int count = argc < 2 ? (int)found.gl_pathc : argc - 1;
    struct folder *folders = read_folders(count, argc < 2 ? found.gl_pathv : argv + 1);
    globfree(&found);
    if (!mkdtemp(path)) {
        perror(path);
        return 2;
    }
    uint64_t refused = load_all(&run, folders, (size_t)count, path);
    remove_files(path);
    rmdir(path);
    for (int i = 0; i < count * N_FILES; i++)
        free(folders[i / N_FILES].files[i % N_FILES].data);
    free(folders);
    printf("ok 1 - %" PRIu64 " damaged folders of %d models. %" PRIu64 " were refused, the others computed a batch\n",
           run.count, count, refused);
    return 0;
}
