#define _GNU_SOURCE /* asprintf */
#include "server/model_version.h"

#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/common/memory.h"
#include "server/model_folders.h"
#include "server/served_model.h"
#include "server/tokenizer/text_codec.h"
#include "weights/weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_AFTER_NS INT64_C(1000000000) /* if loading takes less time, no bar is drawn */
#define PROGRESS_EVERY_NS INT64_C(100000000)
#define PROGRESS_WIDTH 40

/* Returns the last part of the path. For "." and "..", returns the last part of the real path. Returns NULL if memory
 * is lacking, or if there is no such folder. */
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

/* Finds the model's name: the NAME of --model NAME=DIR, or the name in config.json, or the name of the folder. */
static int find_name(struct model_version *version, struct error *error)
{
    const struct model_source *given = version->given;
    if (given->name)
        version->name = strdup(given->name);
    else if (version->config.name)
        version->name = strdup(version->config.name);
    else
        version->name = folder_name(given->path);
    if (!version->name)
        return error_set(error, "%s: cannot derive the model's name from the path: %s", given->path, strerror(errno));
    if (!*version->name || strchr(version->name, '/'))
        return error_set(
            error,
            "%s: expected a model's name that is not empty and has no slash, found \"%s\"; set it with --model NAME=%s",
            given->path, version->name, given->path);
    return 0;
}

/* Reads the configuration of a built-in model. It contains the name of the model. */
static int read_builtin(struct model_version *version, enum weights_builtin_index index, struct error *error)
{
    version->builtin = weights_builtin(index);
    if (model_config_parse(version->builtin.config, version->builtin.config_length, "the built-in config.json",
                           &version->config, error) != 0)
        return -1;
    version->name = strdup(version->config.name);
    return version->name ? 0 : error_set(error, "out of memory");
}

static int read_folder(struct model_version *version, struct error *error)
{
    const struct model_source *given = version->given;
    char *path = NULL;
    version->fingerprint = model_folder_fingerprint(given->path);
    if (asprintf(&path, "%s/config.json", given->path) < 0)
        return error_set(error, "%s: out of memory", given->path);
    int status = model_config_read(path, &version->config, error);
    free(path);
    return status == 0 ? find_name(version, error) : -1;
}

struct model_version *model_version_open(const struct model_source *given, enum weights_builtin_index index,
                                         struct error *error)
{
    struct model_version *version = calloc(1, sizeof *version);
    if (!version) {
        error_set(error, "out of memory");
        return NULL;
    }
    version->given = given;
    if ((given ? read_folder(version, error) : read_builtin(version, index, error)) != 0) {
        model_version_close(version);
        return NULL;
    }
    return version;
}

void model_version_close(struct model_version *version)
{
    if (!version)
        return;
    served_model_free(&version->served);
    model_close(version->served.model);
    model_config_free(&version->config);
    free(version->name);
    free(version);
}

static struct weights *open_weights(const struct model_version *version, struct error *error)
{
    struct weights *weights = NULL;
    const struct weights_builtin *builtin = &version->builtin;
    if (!version->given)
        return weights_open_memory(builtin->model, builtin->model_size, "the built-in model.safetensors", &weights,
                                   error) == 0
                   ? weights
                   : NULL;
    char *path = model_folder_weights(version->given->path, error);
    if (path && weights_open(path, &weights, error) != 0)
        weights = NULL;
    free(path);
    return weights;
}

struct progress {
    const char *name;
    int64_t start_ns;
    int64_t drawn_ns; /* time at which the bar was last drawn. 0 if it was never drawn */
};

static void progress_draw(void *context, double fraction)
{
    struct progress *progress = context;
    int64_t now = clock_ns();
    if (now - progress->start_ns < PROGRESS_AFTER_NS || now - progress->drawn_ns < PROGRESS_EVERY_NS)
        return;
    if (progress->drawn_ns == 0)
        log_flush(); /* log lines are written first, so that the bar appears below them */
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

static void log_loaded(const struct model_version *version, int64_t elapsed_ns)
{
    const struct served_model *served = &version->served;
    const struct model_info *info = model_info(served->model);
    const char *name = version->name;
    if (served->codec_unused)
        log_write(LOG_LEVEL_INFO, "tokenizer.json is not used", "name", name, "reason", "the model does not accept ids",
                  NULL);
    if (info->notice)
        log_write(LOG_LEVEL_WARNING, "model runs on the CPU", "name", name, "reason", info->notice, NULL);
    if (info->prefix)
        log_write(LOG_LEVEL_INFO, "removed a prefix from tensor names", "name", name, "prefix", info->prefix, NULL);
    if (info->cpu_notice)
        log_write(LOG_LEVEL_WARNING, "matrix products of a model run without oneDNN", "name", name, "reason",
                  info->cpu_notice, NULL);
    log_write(LOG_LEVEL_INFO, "model loaded", "name", name, "architecture", info->architecture,
              LOG_INTEGER("parameters", info->parameters), LOG_INTEGER("weights_bytes", info->weights_bytes),
              LOG_INTEGER("arena_bytes", info->arena_bytes), "device", info->device, "dtype", dtype_name(info->dtype),
              "kernels", info->kernels, "tokenizer", served->codec ? text_codec_name(served->codec) : NULL,
              LOG_INTEGER("milliseconds", elapsed_ns / 1000000), NULL);
}

/* The maximum memory that loading needs, in bytes: the data of the file, and the weights in float32. */
static int64_t needed_bytes(const struct weights *weights)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < weights_count(weights); i++) {
        const struct weights_tensor *tensor = weights_at(weights, i);
        int64_t floats = 0;
        if (__builtin_mul_overflow(tensor->elements, (int64_t)sizeof(float), &floats) ||
            __builtin_add_overflow(bytes, floats, &bytes) ||
            __builtin_add_overflow(bytes, (int64_t)tensor->bytes, &bytes))
            return INT64_MAX;
    }
    return bytes;
}

/* Refuses a model that does not fit into the free memory beside the served models, because the kernel would kill the
 * daemon. */
static int check_room(const struct weights *weights, struct error *error)
{
    int64_t needed = needed_bytes(weights), most = memory_bytes(""), resident = memory_resident_bytes();
    if (needed <= most - resident)
        return 0;
    return error_set(error,
                     "%s: loading needs %lld bytes of memory in addition to the loaded models; %lld of %lld are free",
                     weights_origin(weights), (long long)needed, (long long)(most - resident), (long long)most);
}

static int load(struct model_version *version, struct engine *engine, const struct model_load_options *options,
                struct weights *weights, struct error *error)
{
    struct served_model *served = &version->served;
    struct progress progress = {.name = version->name, .start_ns = clock_ns()};
    const char *folder = version->given ? version->given->path : NULL;
    *served = (struct served_model){.name = version->name, .version = version};
    if (options->serves_others && check_room(weights, error) != 0)
        return -1;
    int status = engine_load(engine, &version->config, weights, options->draws ? progress_draw : NULL, &progress,
                             &served->model, error);
    progress_clear(&progress);
    if (status == 0)
        status = served_model_open(served, folder, &version->builtin, &version->config, error);
    if (status == 0 && folder && model_folder_fingerprint(folder) != version->fingerprint)
        return error_set(error, "%s: its files changed while they were read", folder);
    return status;
}

int model_version_load(struct model_version *version, struct engine *engine, const struct model_load_options *options,
                       struct error *error)
{
    int64_t begun_ns = clock_ns();
    struct weights *weights = open_weights(version, error);
    int status = weights ? load(version, engine, options, weights, error) : -1;
    weights_close(weights);
    if (status != 0 && weights)
        return error_prefix(error, "model %s", version->name);
    if (status == 0 && options->logs)
        log_loaded(version, clock_ns() - begun_ns);
    return status;
}

static void print_codec(const struct served_model *served, FILE *out)
{
    const struct text_codec *codec = served->codec;
    if (codec)
        fprintf(out, "tokenizer %s: ids 0 to %lld, %lld special tokens are added to each text\n",
                text_codec_name(codec), (long long)text_codec_ids(codec) - 1,
                (long long)text_codec_template_tokens(codec));
    else if (served->codec_unused)
        fputs("tokenizer none: tokenizer.json is not used, because the model does not accept ids\n", out);
}

int model_version_explain(const struct model_source *given, struct engine *engine, FILE *out, struct error *error)
{
    const struct model_load_options options = {.logs = false};
    struct model_version *version = model_version_open(given, WEIGHTS_BUILTIN, error);
    int status = version ? model_version_load(version, engine, &options, error) : -1;
    if (status == 0) {
        print_codec(&version->served, out);
        model_explain(version->served.model, model_info(version->served.model)->inputs[0].max_length, out);
        if (fflush(out) != 0 || ferror(out))
            status = error_set(error, "standard output: %s", strerror(errno));
    }
    model_version_close(version);
    return status;
}
