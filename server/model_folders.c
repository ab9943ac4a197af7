/* model_folders: finds the folders of the models that --model names. */
#define _GNU_SOURCE /* asprintf */
#include "server/model_folders.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool model_folder_has(const char *folder, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return false;
    bool found = access(path, F_OK) == 0;
    free(path);
    return found;
}

static bool has_config(const char *folder)
{
    return model_folder_has(folder, "config.json");
}

/* Appends a source, which takes over `path`. If `path` is NULL, returns -1, because memory was lacking for it. */
static int add(struct model_folders *folders, const char *name, char *path, struct error *error)
{
    struct model_source *sources = realloc(folders->sources, (folders->count + 1) * sizeof *sources);
    char *own_name = name ? strdup(name) : NULL;
    folders->sources = sources ? sources : folders->sources;
    if (!sources || !path || (name && !own_name)) {
        free(path);
        free(own_name);
        return error_set(error, "out of memory");
    }
    sources[folders->count++] = (struct model_source){.name = own_name, .path = path};
    return 0;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool ends_in_one(const char *name, const char *const *suffixes, size_t count)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < count; i++) {
        size_t end = strlen(suffixes[i]);
        if (length > end && strcmp(name + length - end, suffixes[i]) == 0)
            return true;
    }
    return false;
}

/* Writes a list such as "a.bin, b.pt" to `names`. It contains the files of the folder whose names end in one of the
 * `count` suffixes, sorted by name. Names that do not fit are left out. */
static void list_files(const char *folder, const char *const *suffixes, size_t count, char *names, size_t size)
{
    struct dirent **entries = NULL;
    int n_entries = scandir(folder, &entries, is_visible, alphasort);
    names[0] = '\0';
    for (int i = 0; i < n_entries; i++) {
        const char *name = entries[i]->d_name;
        if (ends_in_one(name, suffixes, count) && model_folder_has(folder, name))
            text_list_add(names, size, name);
        free(entries[i]);
    }
    free(entries);
}

/* The names of files with weights that the daemon reads. weights/export.py writes the first name. The others are names
 * of Hugging Face's libraries and of torch.save. */
static const char *const weights_names[] = {"model.safetensors", "model.safetensors.index.json",
                                            "model.pt",          "model.pth",
                                            "pytorch_model.bin", "pytorch_model.bin.index.json"};
#define N_WEIGHTS_NAMES (sizeof weights_names / sizeof *weights_names)

/* Refuses a folder that contains no weights with these names. The message names other files that may contain
 * weights. */
static char *refuse_weights(const char *folder, struct error *error)
{
    static const char *const readable[] = {".safetensors", ".bin", ".pt", ".pth"};
    static const char *const others[] = {".ckpt", ".h5", ".hdf5", ".keras", ".gguf"};
    char names[256];
    list_files(folder, readable, sizeof readable / sizeof *readable, names, sizeof names);
    if (names[0]) {
        error_set(error,
                  "%s: expected %s or model.pt, found %s: rename the file, or add %s if the model has several files",
                  folder, weights_names[0], names, weights_names[1]);
        return NULL;
    }
    list_files(folder, others, sizeof others / sizeof *others, names, sizeof names);
    if (names[0])
        error_set(error,
                  "%s: expected %s, found %s: load the weights into the class and save the model with "
                  "weights/export.py",
                  folder, weights_names[0], names);
    else
        error_set(error, "%s/%s: cannot be opened: %s", folder, weights_names[0], strerror(ENOENT));
    return NULL;
}

char *model_folder_weights(const char *folder, struct error *error)
{
    for (size_t i = 0; i < N_WEIGHTS_NAMES; i++) {
        char *path = NULL;
        if (!model_folder_has(folder, weights_names[i]))
            continue;
        if (asprintf(&path, "%s/%s", folder, weights_names[i]) >= 0)
            return path;
        error_set(error, "%s: out of memory", folder);
        return NULL;
    }
    return refuse_weights(folder, error);
}

/* Adds the subfolders of `given` that contain a model. There may be none. */
static int add_inner(struct model_folders *folders, const char *given, struct error *error)
{
    struct dirent **entries = NULL;
    int count = scandir(given, &entries, is_visible, alphasort);
    int status = 0;
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s", given, entries[i]->d_name) < 0)
            path = NULL;
        if (status == 0 && (!path || has_config(path)))
            status = add(folders, NULL, path, error);
        else
            free(path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static int add_given(struct model_folders *folders, const struct model_source *given, struct error *error)
{
    size_t before = folders->count;
    if (!has_config(given->path)) {
        if (add_inner(folders, given->path, error) != 0)
            return -1;
        if (folders->count > before && given->name)
            return error_set(
                error, "--model %s=%s: the folder contains folders of models; a name needs a folder with a config.json",
                given->name, given->path);
        if (folders->count > before)
            return 0;
    }
    /* If the folder contains no config.json, models_open refuses it. */
    return add(folders, given->name, strdup(given->path), error);
}

/* The hash function FNV-1a. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t mix_file(uint64_t hash, const char *folder, const char *name)
{
    char *path = NULL;
    struct stat status;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return hash;
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
        const int64_t numbers[] = {(int64_t)status.st_dev, (int64_t)status.st_ino, (int64_t)status.st_size,
                                   (int64_t)status.st_mtim.tv_sec, (int64_t)status.st_mtim.tv_nsec};
        hash = mix(mix(hash, name, strlen(name) + 1), numbers, sizeof numbers);
    }
    free(path);
    return hash;
}

/* Whether the daemon may read a file with this name. Other files, such as a log of the training, may change at any
 * time. */
static int is_read(const struct dirent *entry)
{
    static const char *const endings[] = {".json", ".safetensors", ".pt", ".pth", ".bin"};
    size_t length = strlen(entry->d_name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t ending = strlen(endings[i]);
        if (length > ending && strcmp(entry->d_name + length - ending, endings[i]) == 0)
            return is_visible(entry);
    }
    return 0;
}

uint64_t model_folder_fingerprint(const char *folder)
{
    struct dirent **entries = NULL;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    int count = scandir(folder, &entries, is_read, alphasort);
    for (int i = 0; i < count; i++) {
        hash = mix_file(hash, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return hash;
}

/* Calls `found` for the models of a repository. If `name` is not NULL, returns the path of the model with this name. */
static char *search_repository(const char *repository, const char *name, void (*found)(void *context, const char *name),
                               void *context)
{
    struct dirent **entries = NULL;
    char *result = NULL;
    int count = scandir(repository, &entries, is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s", repository, entries[i]->d_name) < 0)
            path = NULL;
        if (path && has_config(path) && found)
            found(context, entries[i]->d_name);
        if (path && !result && name && strcmp(name, entries[i]->d_name) == 0 && has_config(path))
            result = path;
        else
            free(path);
        free(entries[i]);
    }
    free(entries);
    return result;
}

char *model_repository_find(const char *repository, const char *name)
{
    return search_repository(repository, name, NULL, NULL);
}

void model_repository_list(const char *repository, void (*found)(void *context, const char *name), void *context)
{
    free(search_repository(repository, NULL, found, context));
}

int model_folders_find(const struct settings *settings, struct model_folders *folders, struct error *error)
{
    for (size_t i = 0; i < settings->n_models; i++) {
        if (add_given(folders, &settings->models[i], error) != 0)
            return -1;
    }
    return 0;
}

void model_folders_free(struct model_folders *folders)
{
    for (size_t i = 0; i < folders->count; i++) {
        free(folders->sources[i].name);
        free(folders->sources[i].path);
    }
    free(folders->sources);
}
