/* models: loads models from folders. A source is a model that is not loaded yet: its name, configuration and
 * weights. */
#define _GNU_SOURCE /* asprintf */
#include "server/models.h"

#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/http/http.h"
#include "server/served_model.h"
#include "server/tokenizer/text_codec.h"
#include "weights/weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_AFTER_NS INT64_C(1000000000) /* shorter loads show no bar */
#define PROGRESS_EVERY_NS INT64_C(100000000)
#define PROGRESS_WIDTH 40

struct source {
    const struct model_source *given; /* NULL if the model is built in */
    struct weights_builtin builtin;   /* only if `given` is NULL */
    char *name;
    struct model_config config;
    struct weights *weights; /* NULL except while the model is loaded, because then all data is in memory */
};

static void source_close(struct source *source)
{
    free(source->name);
    model_config_free(&source->config);
    weights_close(source->weights);
}

/* The last part of the path. For "." and ".." it is the last part of the real path. NULL if memory is lacking, or if
 * there is no such folder. */
static char *folder_name(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    char *name = strndup(path + start, end - start);
    if (!name || (*name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0))
        return name;
    free(name);
    char *real = realpath(path, NULL);
    name = real ? strdup(strrchr(real, '/') + 1) : NULL;
    free(real);
    return name;
}

/* Finds the model's name. It comes from --model NAME=DIR. Otherwise it comes from config.json, or else it is the name
 * of the folder. */
static int source_name(struct source *source, struct error *error)
{
    const struct model_source *given = source->given;
    if (given->name)
        source->name = strdup(given->name);
    else if (source->config.name)
        source->name = strdup(source->config.name);
    else
        source->name = folder_name(given->path);
    if (!source->name)
        return error_set(error, "%s: no name could be made of the path: %s", given->path, strerror(errno));
    if (!*source->name || strchr(source->name, '/'))
        return error_set(error,
                         "%s: a model's name is not empty and has no slash, found \"%s\"; --model NAME=%s sets it",
                         given->path, source->name, given->path);
    return 0;
}

/* Reads the configuration of a built-in model, which has a name. */
static int source_open_builtin(struct source *source, enum weights_builtin_index index, struct error *error)
{
    source->builtin = weights_builtin(index);
    if (model_config_parse(source->builtin.config, source->builtin.config_length, "the built-in config.json",
                           &source->config, error) != 0)
        return -1;
    source->name = strdup(source->config.name);
    return source->name ? 0 : error_set(error, "out of memory");
}

/* Reads the configuration of a zeroed source. If `given` is NULL, it is the first built-in model. The caller closes the
 * source, also after a failure. */
static int source_open(const struct model_source *given, struct source *source, struct error *error)
{
    char *path = NULL;
    if (!given)
        return source_open_builtin(source, WEIGHTS_BUILTIN, error);
    source->given = given;
    if (asprintf(&path, "%s/config.json", given->path) < 0)
        return error_set(error, "%s: out of memory", given->path);
    int status = model_config_read(path, &source->config, error);
    free(path);
    return status == 0 ? source_name(source, error) : -1;
}

static int source_open_weights(struct source *source, struct error *error)
{
    const struct model_source *given = source->given;
    if (!given)
        return weights_open_memory(source->builtin.model, source->builtin.model_size, "the built-in model.safetensors",
                                   &source->weights, error);
    char *path = model_folder_weights(given->path, error);
    if (!path)
        return -1;
    int status = weights_open(path, &source->weights, error);
    free(path);
    return status;
}

struct progress {
    const char *name;
    int64_t start_ns;
    int64_t drawn_ns; /* when the bar was last drawn. 0 if it was never drawn */
};

static void progress_draw(void *context, double fraction)
{
    struct progress *progress = context;
    int64_t now = clock_ns();
    if (now - progress->start_ns < PROGRESS_AFTER_NS || now - progress->drawn_ns < PROGRESS_EVERY_NS)
        return;
    if (progress->drawn_ns == 0)
        log_flush(); /* so that the bar appears below the log lines */
    progress->drawn_ns = now;
    int filled = (int)(fraction * PROGRESS_WIDTH);
    filled = filled < 0 ? 0 : filled > PROGRESS_WIDTH ? PROGRESS_WIDTH : filled;
    fprintf(stderr, "\r[%.*s%*s] %3.0f%% %s", filled, "########################################",
            PROGRESS_WIDTH - filled, "", fraction * 100, progress->name);
}

static void progress_clear(const struct progress *progress)
{
    if (progress->drawn_ns != 0)
        fputs("\r\033[K", stderr);
}

static void log_loaded(const struct source *source, const struct served_model *served, int64_t elapsed_ns)
{
    const struct model_info *info = model_info(served->model);
    if (served->codec_unused)
        log_write(LOG_LEVEL_INFO, "tokenizer.json is not used", "name", source->name, "reason",
                  "the model takes no ids", NULL);
    if (info->notice)
        log_write(LOG_LEVEL_WARNING, "model runs on the CPU", "name", source->name, "reason", info->notice, NULL);
    if (info->prefix)
        log_write(LOG_LEVEL_INFO, "names of tensors have a prefix, which is taken off", "name", source->name, "prefix",
                  info->prefix, NULL);
    if (info->cpu_notice)
        log_write(LOG_LEVEL_WARNING, "products of a model run without oneDNN", "name", source->name, "reason",
                  info->cpu_notice, NULL);
    log_write(LOG_LEVEL_INFO, "model loaded", "name", source->name, "architecture", info->architecture,
              LOG_INTEGER("parameters", info->parameters), LOG_INTEGER("weights_bytes", info->weights_bytes),
              LOG_INTEGER("arena_bytes", info->arena_bytes), "device", info->device, "dtype", dtype_name(info->dtype),
              "kernels", info->kernels, "tokenizer", served->codec ? text_codec_name(served->codec) : NULL,
              LOG_INTEGER("milliseconds", elapsed_ns / 1000000), NULL);
}

/* Loads the model and opens what it is served with. The model and `served` are the caller's, also after a failure. */
static int source_load(const struct source *source, struct engine *engine, bool draws, struct served_model *served,
                       struct error *error)
{
    struct progress progress = {.name = source->name, .start_ns = clock_ns()};
    *served = (struct served_model){.name = source->name};
    int status = engine_load(engine, &source->config, source->weights, draws ? progress_draw : NULL, &progress,
                             &served->model, error);
    progress_clear(&progress);
    if (status == 0)
        status = served_model_open(served, source->given ? source->given->path : NULL, &source->builtin,
                                   &source->config, error);
    return status == 0 ? 0 : error_prefix(error, "model %s", source->name);
}

void models_close(struct models *models)
{
    for (int64_t i = 0; i < models->count; i++) {
        if (models->served) {
            served_model_free(&models->served[i]);
            model_close(models->served[i].model);
        }
        if (models->sources)
            source_close(&models->sources[i]);
    }
    model_folders_free(&models->folders);
    free(models->sources);
    free(models->served);
    free(models->names);
    free(models->engine_models);
}

static int models_open_sources(struct models *models, struct error *error)
{
    const struct model_source *given = models->folders.sources;
    if (models->folders.count == 0) {
        for (int index = 0; index < WEIGHTS_N_BUILTIN; index++)
            if (source_open_builtin(&models->sources[index], index, error) != 0)
                return -1;
        return 0;
    }
    for (int64_t i = 0; i < models->count; i++) {
        if (source_open(&given[i], &models->sources[i], error) != 0)
            return -1;
        for (int64_t earlier = 0; earlier < i; earlier++) {
            if (strcmp(models->sources[earlier].name, models->sources[i].name) == 0)
                return error_set(error, "two models are named \"%s\": %s and %s; --model NAME=DIR gives another name",
                                 models->sources[i].name, given[earlier].path, given[i].path);
        }
    }
    return 0;
}

int models_open(struct models *models, const struct settings *settings, struct engine *engine, struct error *error)
{
    if (model_folders_find(settings, &models->folders, error) != 0)
        return -1;
    models->count = models->folders.count ? (int64_t)models->folders.count : WEIGHTS_N_BUILTIN;
    models->sources = calloc((size_t)models->count, sizeof *models->sources);
    models->served = calloc((size_t)models->count, sizeof *models->served);
    models->names = calloc((size_t)models->count, sizeof *models->names);
    models->engine_models = calloc((size_t)models->count, sizeof *models->engine_models);
    if (!models->sources || !models->served || !models->names || !models->engine_models)
        return error_set(error, "out of memory");
    if (models_open_sources(models, error) != 0)
        return -1;
    for (int64_t i = 0; i < models->count; i++) {
        int64_t begun_ns = clock_ns();
        if (source_open_weights(&models->sources[i], error) != 0 ||
            source_load(&models->sources[i], engine, isatty(STDERR_FILENO), &models->served[i], error) != 0)
            return -1;
        log_loaded(&models->sources[i], &models->served[i], clock_ns() - begun_ns);
        weights_close(models->sources[i].weights);
        models->sources[i].weights = NULL;
        models->names[i] = models->sources[i].name;
        models->engine_models[i] = models->served[i].model;
    }
    return 0;
}

static void print_codec(const struct served_model *served, FILE *out)
{
    const struct text_codec *codec = served->codec;
    if (codec)
        fprintf(out, "tokenizer %s: ids 0 to %lld, %lld special tokens are added to each text\n",
                text_codec_name(codec), (long long)text_codec_ids(codec) - 1,
                (long long)text_codec_template_tokens(codec));
    else if (served->codec_unused)
        fputs("tokenizer none: tokenizer.json is not used, because the model takes no ids\n", out);
}

static int source_explain(const struct source *source, struct engine *engine, FILE *out, struct error *error)
{
    struct served_model served;
    int status = source_load(source, engine, false, &served, error);
    if (status == 0) {
        print_codec(&served, out);
        model_explain(served.model, model_info(served.model)->inputs[0].max_length, out);
    }
    served_model_free(&served);
    model_close(served.model);
    if (status == 0 && (fflush(out) != 0 || ferror(out)))
        return error_set(error, "standard output: %s", strerror(errno));
    return status;
}

int models_explain(const struct model_source *given, struct engine *engine, FILE *out, struct error *error)
{
    struct source source = {.name = NULL};
    int status = source_open(given, &source, error);
    if (status == 0)
        status = source_open_weights(&source, error);
    if (status == 0)
        status = source_explain(&source, engine, out, error);
    source_close(&source);
    return status;
}
