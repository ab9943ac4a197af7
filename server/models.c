/* models: `changing` and `lock` are locks. `changing` is held while models are loaded or unloaded, which may take
 * minutes. `lock` is held for a few instructions. It guards the list of entries, their states and versions, and the
 * members n_versions and n_sets. A thread that changes these holds both locks, and a thread that holds `changing` may
 * read them without `lock`. There is one exception: the thread `models` decreases n_versions and n_sets, and holds only
 * `lock`. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server/models.h"

#include "server/common/clock.h"
#include "server/common/failure.h"
#include "server/common/log.h"
#include "server/common/metrics.h"
#include "server/common/thread.h"
#include "server/jobs/batcher.h"
#include "server/model_folders.h"
#include "server/model_version.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Maximum number of versions of one model in memory, including the current version. Long requests may keep old versions
 * in memory. */
#define MAX_VERSIONS 4

/* A model of the settings, a model of the repository, or a built-in model. The entry stays in the list when the model
 * is unloaded. */
struct entry {
    struct model_source source; /* a copy with its own strings. source.path is NULL if the model is built in */
    enum weights_builtin_index builtin;
    char *name;
    int64_t metrics;               /* index of the model in the metrics */
    struct model_version *version; /* the current version. NULL while the model is not loaded */
    int64_t n_versions;            /* number of versions in memory, including those that only old requests use */
    bool unloaded;                 /* a request has unloaded the model */
    const char *state;             /* the state for struct model_state */
    struct error reason;           /* the reason why the model is not loaded */
};

struct models {
    const struct settings *settings;
    struct engine *engine;
    struct batcher *batcher;
    struct metrics *metrics;
    struct model_control control;
    struct model_sets sets;
    pthread_mutex_t changing, lock;
    struct entry **entries; /* `n_entries` entries, in the order in which they were added */
    int64_t n_entries;
    pthread_t thread;
    atomic_bool stopping;
    /* The arrays engine_models and names have an element for each model that was loaded at the start. They never
     * change. */
    struct model **engine_models;
    const char **names;
};

/* ---- Entries ---- */

static void entry_free(struct entry *entry)
{
    if (!entry)
        return;
    model_version_close(entry->version);
    free(entry->source.name);
    free(entry->source.path);
    free(entry->name);
    free(entry);
}

/* Makes an entry for a folder, or for the built-in model `builtin` if `source` is NULL. Returns NULL if memory is
 * lacking. */
static struct entry *entry_new(const struct model_source *source, enum weights_builtin_index builtin,
                               struct error *error)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (entry)
        entry->builtin = builtin;
    if (entry && source) {
        entry->source.name = source->name ? strdup(source->name) : NULL;
        entry->source.path = strdup(source->path);
    }
    if (entry && (!source || (entry->source.path && (entry->source.name || !source->name)))) {
        entry->state = "UNAVAILABLE";
        return entry;
    }
    entry_free(entry);
    error_set(error, "out of memory");
    return NULL;
}

static int add_entry(struct models *models, struct entry *entry, struct error *error)
{
    if (models->n_entries == BATCHER_MAX_MODELS / 2)
        return error_set(error, "found more than %d models, which is the maximum", BATCHER_MAX_MODELS / 2);
    pthread_mutex_lock(&models->lock);
    struct entry **entries = realloc(models->entries, (size_t)(models->n_entries + 1) * sizeof *entries);
    if (entries) {
        entries[models->n_entries++] = entry;
        models->entries = entries;
    }
    pthread_mutex_unlock(&models->lock);
    return entries ? 0 : error_set(error, "out of memory");
}

static struct entry *find_name(const struct models *models, const char *name)
{
    for (int64_t i = 0; i < models->n_entries; i++)
        if (strcmp(models->entries[i]->name, name) == 0)
            return models->entries[i];
    return NULL;
}

static bool is_at(const struct entry *entry, const char *path)
{
    return entry->source.path && strcmp(entry->source.path, path) == 0;
}

/* Finds the entry of a source. The operator may give several names to one folder. A source without a name also matches
 * an entry whose name came from a request. */
static struct entry *find_source(const struct models *models, const struct model_source *source)
{
    struct entry *found = NULL;
    for (int64_t i = 0; i < models->n_entries; i++) {
        struct entry *entry = models->entries[i];
        const char *name = entry->source.name;
        if (!is_at(entry, source->path))
            continue;
        if (source->name && name ? strcmp(name, source->name) == 0 : source->name == name)
            return entry;
        if (!source->name && !found)
            found = entry;
    }
    return found;
}

static const char *path_of(const struct entry *entry)
{
    return entry->source.path ? entry->source.path : "the built-in model";
}

static const struct model_source *source_of(const struct entry *entry)
{
    return entry->source.path ? &entry->source : NULL;
}

/* ---- The start ---- */

/* Reads the configuration of an entry, and gives the entry its name, which no other entry may have. */
static int open_entry(struct models *models, const struct model_source *source, enum weights_builtin_index index,
                      struct error *error)
{
    struct entry *entry = entry_new(source, index, error);
    if (!entry)
        return -1;
    entry->version = model_version_open(source_of(entry), index, error);
    const struct entry *other = entry->version ? find_name(models, entry->version->name) : NULL;
    if (other)
        error_set(error, "two models are named \"%s\": %s and %s; set another name with --model NAME=DIR",
                  entry->version->name, path_of(other), path_of(entry));
    entry->name = entry->version && !other ? strdup(entry->version->name) : NULL;
    if (entry->name && add_entry(models, entry, error) == 0)
        return 0;
    if (entry->version && !other && !entry->name)
        error_set(error, "out of memory");
    entry_free(entry);
    return -1;
}

static int open_entries(struct models *models, struct error *error)
{
    struct model_folders folders = {.count = 0};
    int status = model_folders_find(models->settings, &folders, error);
    for (size_t i = 0; i < folders.count && status == 0; i++)
        status = open_entry(models, &folders.sources[i], WEIGHTS_BUILTIN, error);
    for (int i = 0; i < WEIGHTS_N_BUILTIN && folders.count == 0 && status == 0; i++)
        status = open_entry(models, NULL, (enum weights_builtin_index)i, error);
    model_folders_free(&folders);
    return status;
}

static int load_entries(struct models *models, struct error *error)
{
    const struct model_load_options options = {.draws = isatty(STDERR_FILENO), .logs = true};
    models->engine_models = calloc((size_t)models->n_entries, sizeof *models->engine_models);
    models->names = calloc((size_t)models->n_entries, sizeof *models->names);
    if (!models->engine_models || !models->names)
        return error_set(error, "out of memory");
    for (int64_t i = 0; i < models->n_entries; i++) {
        struct entry *entry = models->entries[i];
        if (model_version_load(entry->version, models->engine, &options, error) != 0)
            return -1;
        entry->state = "READY";
        entry->n_versions = 1;
        entry->metrics = entry->version->served.batcher_index = entry->version->served.metrics = i;
        models->engine_models[i] = entry->version->served.model;
        models->names[i] = entry->name;
    }
    return 0;
}

static void list_states(void *context, void (*write)(void *out, const struct model_state *state), void *out);
static int load_named(void *context, const char *name, struct failure *failure);
static int unload_named(void *context, const char *name, struct failure *failure);

int models_open(const struct settings *settings, struct engine *engine, struct models **opened, struct error *error)
{
    struct models *models = calloc(1, sizeof *models);
    if (!models)
        return error_set(error, "out of memory");
    models->settings = settings;
    models->engine = engine;
    models->control = (struct model_control){.context = models, .list = list_states};
    if (settings->model_control) {
        models->control.load = load_named;
        models->control.unload = unload_named;
    }
    pthread_mutex_init(&models->changing, NULL);
    pthread_mutex_init(&models->lock, NULL);
    pthread_mutex_init(&models->sets.lock, NULL);
    pthread_cond_init(&models->sets.changed, NULL);
    if (open_entries(models, error) != 0 || load_entries(models, error) != 0) {
        models_close(models);
        return -1;
    }
    *opened = models;
    return 0;
}

int64_t models_count(const struct models *models)
{
    return models->n_entries;
}

struct model **models_engine_models(const struct models *models)
{
    return models->engine_models;
}

const char *const *models_names(const struct models *models)
{
    return models->names;
}

struct model_sets *models_sets(struct models *models)
{
    return &models->sets;
}

const struct model_control *models_control(const struct models *models)
{
    return &models->control;
}

/* ---- Sets ---- */

/* Makes a set of the loaded models, and makes it the current set. Both locks are held. */
static int publish(struct models *models, struct error *error)
{
    struct model_set *set = calloc(1, sizeof *set);
    if (set)
        set->models = calloc((size_t)models->n_entries, sizeof *set->models);
    if (!set || !set->models) {
        free(set);
        return error_set(error, "out of memory");
    }
    for (int64_t i = 0; i < models->n_entries; i++) {
        struct model_version *version = models->entries[i]->version;
        if (!version)
            continue;
        version->n_sets++;
        set->models[set->n_models++] = version->served;
        set->takes_pictures |= version->served.image.height > 0;
        set->tokenizes |= version->served.tokenizes;
    }
    model_sets_replace(&models->sets, set);
    return 0;
}

/* Removes models from a set, until a removed version is in no other set. Returns this version. Returns NULL if the set
 * is empty before such a version is found. */
static struct model_version *remove_models(struct models *models, struct model_set *set)
{
    struct model_version *unused = NULL;
    pthread_mutex_lock(&models->lock);
    while (set->n_models > 0 && !unused) {
        struct model_version *version = set->models[--set->n_models].version;
        if (--version->n_sets == 0)
            unused = version;
    }
    pthread_mutex_unlock(&models->lock);
    return unused;
}

/* Decreases n_versions for a version that leaves the memory. */
static void forget(struct models *models, const struct model_version *version)
{
    pthread_mutex_lock(&models->lock);
    find_name(models, version->name)->n_versions--;
    pthread_mutex_unlock(&models->lock);
}

/* Frees the set, and the versions that no other set contains. */
static void drop_set(struct models *models, struct model_set *set)
{
    for (struct model_version *version; (version = remove_models(models, set)) != NULL;) {
        batcher_remove(models->batcher, version->served.batcher_index);
        forget(models, version);
        log_write(LOG_LEVEL_INFO, "freed the weights of an old model", "name", version->name, NULL);
        model_version_close(version);
    }
    free(set->models);
    free(set);
}

static void *models_thread(void *argument)
{
    struct models *models = argument;
    for (struct model_set *set; (set = model_sets_take_unused(&models->sets)) != NULL;)
        drop_set(models, set);
    return NULL;
}

int models_serve(struct models *models, struct batcher *batcher, struct metrics *metrics, struct error *error)
{
    models->batcher = batcher;
    models->metrics = metrics;
    if (publish(models, error) != 0)
        return -1;
    int status = pthread_create(&models->thread, NULL, models_thread, models);
    if (status != 0)
        return thread_refused("models", status, error);
    pthread_setname_np(models->thread, "models");
    return 0;
}

/* ---- Loading while the daemon serves. `changing` is held ---- */

static void set_state(struct models *models, struct entry *entry, const char *state, const struct error *reason)
{
    pthread_mutex_lock(&models->lock);
    entry->state = state;
    entry->reason.message[0] = '\0';
    if (reason)
        entry->reason = *reason;
    pthread_mutex_unlock(&models->lock);
}

/* Replaces the version of an entry, and makes a new set. A version of NULL unloads the model. The thread `models` frees
 * the old version when no request uses it. */
static int exchange_version(struct models *models, struct entry *entry, struct model_version *version,
                            struct error *error)
{
    pthread_mutex_lock(&models->lock);
    struct model_version *old = entry->version;
    entry->version = version;
    int status = publish(models, error);
    if (status == 0)
        entry->unloaded = !version;
    else
        entry->version = old;
    if (status == 0 && version)
        entry->n_versions++;
    pthread_mutex_unlock(&models->lock);
    return status;
}

static int64_t count_versions(struct models *models, const struct entry *entry)
{
    pthread_mutex_lock(&models->lock);
    int64_t count = entry->n_versions;
    pthread_mutex_unlock(&models->lock);
    return count;
}

/* Loads a new version of the entry's files, and serves it. */
static int load_version(struct models *models, struct entry *entry, struct error *error)
{
    const struct model_load_options options = {.logs = true, .serves_others = true};
    struct model_version *version = model_version_open(source_of(entry), entry->builtin, error);
    if (!version)
        return -1;
    int status = -1;
    bool is_added = false;
    if (strcmp(version->name, entry->name) != 0)
        error_set(error, "%s: the model is named \"%s\" now, and was \"%s\"; restart the daemon", path_of(entry),
                  version->name, entry->name);
    else if (count_versions(models, entry) >= MAX_VERSIONS)
        error_set(error, "%d versions of the model are in memory; wait until requests no longer use the old ones",
                  MAX_VERSIONS);
    else if (model_version_load(version, models->engine, &options, error) == 0) {
        version->served.metrics = entry->metrics;
        is_added = batcher_add(models->batcher, version->served.model, entry->metrics, &version->served.batcher_index,
                               error) == 0;
    }
    if (is_added)
        status = exchange_version(models, entry, version, error);
    if (is_added && status != 0)
        batcher_remove(models->batcher, version->served.batcher_index);
    if (status != 0)
        model_version_close(version);
    return status;
}

/* Loads the model of an entry. If loading fails, the old version stays. */
static int load_entry(struct models *models, struct entry *entry, struct error *error)
{
    omp_set_num_threads(1); /* so that this thread does not use the cores of batches, and starts no OpenMP threads */
    set_state(models, entry, "LOADING", NULL);
    metrics_load_begin(models->metrics);
    int status = load_version(models, entry, error);
    metrics_load_end(models->metrics, entry->metrics, status == 0);
    if (status != 0)
        log_write(LOG_LEVEL_ERROR,
                  entry->version ? "cannot reload a model: the old one is kept" : "cannot load a model", "name",
                  entry->name, "reason", error->message, NULL);
    set_state(models, entry, entry->version ? "READY" : "UNAVAILABLE", entry->version ? NULL : error);
    return status;
}

/* Whether the files of a loaded model have not changed since they were read. */
static bool is_current(const struct entry *entry)
{
    return entry->version &&
           (!entry->source.path || model_folder_fingerprint(entry->source.path) == entry->version->fingerprint);
}

/* Makes an entry without a version. No entry may have the name `name`. */
static struct entry *new_entry(struct models *models, const struct model_source *source, const char *name,
                               struct error *error)
{
    struct entry *entry = entry_new(source, WEIGHTS_BUILTIN, error);
    if (!entry)
        return NULL;
    entry->name = strdup(name);
    entry->metrics = entry->name ? metrics_add_model(models->metrics, name) : -1;
    if (entry->metrics < 0)
        error_set(error, "out of memory");
    else if (add_entry(models, entry, error) == 0)
        return entry;
    entry_free(entry);
    return NULL;
}

/* ---- SIGHUP ---- */

/* Loads a model whose folder has appeared since the last reload. */
static int load_new(struct models *models, const struct model_source *source, struct error *error)
{
    struct model_version *version = model_version_open(source, WEIGHTS_BUILTIN, error);
    struct entry *entry = NULL;
    if (version && find_name(models, version->name))
        error_set(error, "%s: another model is already named \"%s\"", source->path, version->name);
    else if (version)
        entry = new_entry(models, source, version->name, error);
    model_version_close(version);
    if (entry)
        return load_entry(models, entry, error);
    log_write(LOG_LEVEL_ERROR, "cannot load a model", "name", source->path, "reason", error->message, NULL);
    return -1;
}

/* Reports models whose folder does not exist any more. These models are still served. */
static void report_gone(const struct models *models, const struct model_folders *folders)
{
    for (int64_t i = 0; i < models->n_entries; i++) {
        const struct entry *entry = models->entries[i];
        bool found = !entry->source.path || !entry->version || model_folder_has(entry->source.path, "config.json");
        for (size_t f = 0; f < folders->count && !found; f++)
            found = strcmp(folders->sources[f].path, entry->source.path) == 0;
        if (!found)
            log_write(LOG_LEVEL_WARNING, "the folder of a model is missing: the model stays loaded", "name",
                      entry->name, "path", entry->source.path, NULL);
    }
}

void models_reload(void *context)
{
    struct models *models = context;
    struct model_folders folders = {.count = 0};
    struct error error = {""};
    int64_t loaded = 0, failed = 0, unchanged = 0;
    pthread_mutex_lock(&models->changing);
    if (model_folders_find(models->settings, &folders, &error) != 0) {
        log_write(LOG_LEVEL_ERROR, "cannot read the folders of the models", "reason", error.message, NULL);
        failed++;
    }
    for (size_t i = 0; i < folders.count && !atomic_load(&models->stopping); i++) {
        struct entry *entry = find_source(models, &folders.sources[i]);
        if (entry && (is_current(entry) || entry->unloaded)) /* a model that a request has unloaded stays unloaded */
            unchanged++;
        else if ((entry ? load_entry(models, entry, &error) : load_new(models, &folders.sources[i], &error)) == 0)
            loaded++;
        else
            failed++;
    }
    for (int64_t i = 0; i < models->n_entries && !atomic_load(&models->stopping); i++) {
        struct entry *entry = models->entries[i];
        bool found = !entry->source.path;
        for (size_t f = 0; f < folders.count && !found; f++)
            found = find_source(models, &folders.sources[f]) == entry;
        if (found || !entry->version || is_current(entry) || !model_folder_has(entry->source.path, "config.json"))
            continue; /* the model is reloaded only if it was loaded from the repository by a request, and its files
                         have changed */
        *(load_entry(models, entry, &error) == 0 ? &loaded : &failed) += 1;
    }
    report_gone(models, &folders);
    if (failed > 0)
        metrics_reload_fault(models->metrics);
    log_write(LOG_LEVEL_INFO, "models reloaded", LOG_INTEGER("loaded", loaded), LOG_INTEGER("failed", failed),
              LOG_INTEGER("unchanged", unchanged), NULL);
    pthread_mutex_unlock(&models->changing);
    model_folders_free(&folders);
}

/* ---- The routes of the repository ---- */

struct listing {
    const struct models *models;
    void (*write)(void *out, const struct model_state *state);
    void *out;
};

static void list_stored(void *context, const char *name)
{
    const struct listing *listing = context;
    if (!find_name(listing->models, name))
        listing->write(listing->out,
                       &(struct model_state){.name = name, .state = "UNAVAILABLE", .reason = "not loaded yet"});
}

static void list_states(void *context, void (*write)(void *out, const struct model_state *state), void *out)
{
    struct models *models = context;
    struct listing listing = {.models = models, .write = write, .out = out};
    pthread_mutex_lock(&models->lock);
    for (int64_t i = 0; i < models->n_entries; i++) {
        const struct entry *entry = models->entries[i];
        write(out, &(struct model_state){.name = entry->name, .state = entry->state, .reason = entry->reason.message});
    }
    if (models->settings->model_control && models->settings->model_repository)
        model_repository_list(models->settings->model_repository, list_stored, &listing);
    pthread_mutex_unlock(&models->lock);
}

static int refuse_unknown(const char *name, struct failure *failure)
{
    return failure_set(failure, FAILURE_NO_MODEL,
                       "there is no model \"%.100s\" to load; POST /v2/repository/index lists the models", name);
}

/* Finds the entry of a model. If there is none and the repository contains the model, makes an entry. `changing` is
 * held. */
static struct entry *entry_to_load(struct models *models, const char *name, struct failure *failure)
{
    struct entry *entry = find_name(models, name);
    struct error error = {""};
    const char *repository = models->settings->model_repository;
    if (entry)
        return entry;
    char *path = repository ? model_repository_find(repository, name) : NULL;
    if (!path) {
        refuse_unknown(name, failure);
        return NULL;
    }
    const struct model_source source = {.name = (char *)name, .path = path};
    entry = new_entry(models, &source, name, &error);
    if (!entry)
        failure_set(failure, FAILURE_BACKEND, "%s", error.message);
    free(path);
    return entry;
}

static int load_named(void *context, const char *name, struct failure *failure)
{
    struct models *models = context;
    struct error error = {""};
    pthread_mutex_lock(&models->changing);
    struct entry *entry = entry_to_load(models, name, failure);
    int status = !entry ? -1 : is_current(entry) ? 0 : load_entry(models, entry, &error);
    pthread_mutex_unlock(&models->changing);
    return !entry || status == 0
               ? status
               : failure_set(failure, FAILURE_INVALID, "failed to load \"%.100s\": %s", name, error.message);
}

/* Unloads the model of an entry. The model must be loaded. The last loaded model is not unloaded, because routes
 * describe the first model. */
static int unload_entry(struct models *models, struct entry *entry, struct error *error)
{
    int64_t loaded = 0;
    for (int64_t i = 0; i < models->n_entries; i++)
        loaded += models->entries[i]->version != NULL;
    if (loaded == 1)
        return error_set(error, "it is the only loaded model; load another one first");
    set_state(models, entry, "UNLOADING", NULL);
    int status = exchange_version(models, entry, NULL, error);
    struct error reason = {""};
    error_set(&reason, "unloaded");
    set_state(models, entry, status == 0 ? "UNAVAILABLE" : "READY", status == 0 ? &reason : NULL);
    if (status == 0)
        log_write(LOG_LEVEL_INFO, "model unloaded", "name", entry->name, NULL);
    return status;
}

static int unload_named(void *context, const char *name, struct failure *failure)
{
    struct models *models = context;
    struct error error = {""};
    pthread_mutex_lock(&models->changing);
    struct entry *entry = find_name(models, name);
    int status = !entry ? refuse_unknown(name, failure) : !entry->version ? 0 : unload_entry(models, entry, &error);
    pthread_mutex_unlock(&models->changing);
    return !entry || status == 0
               ? status
               : failure_set(failure, FAILURE_INVALID, "failed to unload \"%.100s\": %s", name, error.message);
}

/* ---- The end ---- */

void models_stop_reload(struct models *models)
{
    atomic_store(&models->stopping, true);
}

void models_stop(struct models *models)
{
    model_sets_close(&models->sets);
    pthread_join(models->thread, NULL);
}

void models_close(struct models *models)
{
    if (!models)
        return;
    if (models->sets.current)
        free(models->sets.current->models);
    free(models->sets.current);
    for (int64_t i = 0; i < models->n_entries; i++)
        entry_free(models->entries[i]);
    free(models->entries);
    free(models->engine_models);
    free(models->names);
    pthread_mutex_destroy(&models->changing);
    pthread_mutex_destroy(&models->lock);
    pthread_mutex_destroy(&models->sets.lock);
    pthread_cond_destroy(&models->sets.changed);
    free(models);
}
