/* Signals: SIGTERM and SIGINT are blocked in every thread but one, which waits for them from the moment the engine is
 * open. `struct signals` is guarded by its lock; only that thread and the main thread use it. */
#define _GNU_SOURCE /* asprintf */
#include "server/daemon.h"

#include "engine/engine.h"
#include "server/batcher.h"
#include "server/clock.h"
#include "server/http.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/model_folders.h"
#include "weights/weights.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PROGRESS_AFTER_NS INT64_C(1000000000) /* a bar only for loads that take longer than this */
#define PROGRESS_EVERY_NS INT64_C(100000000)
#define PROGRESS_WIDTH 40
#define SAME_SIGNAL_NS INT64_C(100000000) /* timeout(1) and others send it twice: to the process and its group */

/* ---- Signals ---- */

enum phase { PHASE_STARTING, PHASE_SERVING, PHASE_DRAINING, PHASE_ENDED };

struct signals {
    sigset_t set;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum phase phase;
    int received; /* the one that began the draining, and when */
    int64_t received_ns;
};

static void signals_block(struct signals *signals)
{
    sigemptyset(&signals->set);
    sigaddset(&signals->set, SIGTERM);
    sigaddset(&signals->set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals->set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Returns whether the process ends at once: by any signal while it starts, and by SIGINT once it drains, which is
 * somebody at a keyboard. Supervisors send SIGTERM again and again: that is no second wish.
 */
static bool signals_take(struct signals *signals, int number)
{
    bool end = false;
    pthread_mutex_lock(&signals->lock);
    if (signals->phase == PHASE_SERVING) {
        signals->phase = PHASE_DRAINING;
        signals->received = number;
        signals->received_ns = clock_ns();
        pthread_cond_signal(&signals->changed);
    } else if (signals->phase != PHASE_ENDED) {
        bool same = number == signals->received && clock_ns() - signals->received_ns < SAME_SIGNAL_NS;
        end = signals->phase == PHASE_STARTING || (number == SIGINT && !same);
    }
    pthread_mutex_unlock(&signals->lock);
    return end;
}

static bool signals_ended(struct signals *signals)
{
    pthread_mutex_lock(&signals->lock);
    bool ended = signals->phase == PHASE_ENDED;
    pthread_mutex_unlock(&signals->lock);
    return ended;
}

static void *signals_thread(void *argument)
{
    struct signals *signals = argument;
    while (!signals_ended(signals)) {
        int number = 0;
        if (sigwait(&signals->set, &number) == 0 && signals_take(signals, number)) {
            log_write(LOG_LEVEL_WARNING, "ended by a signal", "signal", strsignal(number), NULL);
            _exit(128 + number);
        }
    }
    return NULL;
}

static int signals_open(struct signals *signals, struct error *error)
{
    signals->phase = PHASE_STARTING;
    signals->received = 0;
    signals->received_ns = 0;
    pthread_mutex_init(&signals->lock, NULL);
    pthread_cond_init(&signals->changed, NULL);
    int status = pthread_create(&signals->thread, NULL, signals_thread, signals);
    if (status == 0) {
        pthread_setname_np(signals->thread, "signals");
        return 0;
    }
    pthread_cond_destroy(&signals->changed);
    pthread_mutex_destroy(&signals->lock);
    return error_set(error, "no thread for signals: %s", strerror(status));
}

/* From now on the first signal asks for draining. */
static void signals_expect(struct signals *signals)
{
    pthread_mutex_lock(&signals->lock);
    signals->phase = PHASE_SERVING;
    pthread_mutex_unlock(&signals->lock);
}

/* Returns that signal. */
static int signals_wait(struct signals *signals)
{
    pthread_mutex_lock(&signals->lock);
    while (!signals->received)
        pthread_cond_wait(&signals->changed, &signals->lock);
    pthread_mutex_unlock(&signals->lock);
    return signals->received;
}

static void signals_close(struct signals *signals)
{
    pthread_mutex_lock(&signals->lock);
    signals->phase = PHASE_ENDED;
    pthread_mutex_unlock(&signals->lock);
    pthread_kill(signals->thread, SIGTERM);
    pthread_join(signals->thread, NULL);
    pthread_cond_destroy(&signals->changed);
    pthread_mutex_destroy(&signals->lock);
}

/* ---- Models ---- */

/* A model, named but not loaded. */
struct source {
    char *name;
    struct model_config config;
    struct weights *weights; /* open while it is loaded only: its file is in memory */
};

static void source_close(struct source *source)
{
    free(source->name);
    model_config_free(&source->config);
    weights_close(source->weights);
}

/* The last part of the path; the real folder's for "." and the like. NULL: out of memory or no such folder. */
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

/* NAME= before config.json's before the folder's. */
static int source_name(struct source *source, const struct model_source *given, struct error *error)
{
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

/* `given` is NULL for the built-in model. On failure too the caller closes the source, which was zeroed. */
static int source_open(const struct model_source *given, struct source *source, struct error *error)
{
    struct weights_builtin builtin = weights_builtin();
    char *path = NULL;
    if (!given) {
        source->name = strdup("builtin");
        if (!source->name)
            return error_set(error, "out of memory");
        return model_config_parse(builtin.config, builtin.config_length, "the built-in config.json", &source->config,
                                  error);
    }
    if (asprintf(&path, "%s/config.json", given->path) < 0)
        return error_set(error, "%s: out of memory", given->path);
    int status = model_config_read(path, &source->config, error);
    free(path);
    return status == 0 ? source_name(source, given, error) : -1;
}

static int source_open_weights(const struct model_source *given, struct source *source, struct error *error)
{
    struct weights_builtin builtin = weights_builtin();
    char *path = NULL;
    if (!given)
        return weights_open_memory(builtin.model, builtin.model_size, "the built-in model.safetensors",
                                   &source->weights, error);
    if (asprintf(&path, "%s/model.safetensors", given->path) < 0)
        return error_set(error, "%s: out of memory", given->path);
    int status = weights_open(path, &source->weights, error);
    free(path);
    return status;
}

struct progress {
    const char *name;
    int64_t start_ns, drawn_ns; /* drawn_ns 0: no bar yet */
};

static void progress_draw(void *context, double fraction)
{
    struct progress *progress = context;
    int64_t now = clock_ns();
    if (now - progress->start_ns < PROGRESS_AFTER_NS || now - progress->drawn_ns < PROGRESS_EVERY_NS)
        return;
    progress->drawn_ns = now;
    int filled = (int)(fraction * PROGRESS_WIDTH);
    filled = filled < 0 ? 0 : filled > PROGRESS_WIDTH ? PROGRESS_WIDTH : filled;
    fprintf(stderr, "\r[%.*s%*s] %3.0f%% %s", filled, "########################################",
            PROGRESS_WIDTH - filled, "", fraction * 100, progress->name);
}

static void progress_clear(const struct progress *progress)
{
    if (progress->drawn_ns)
        fputs("\r\033[K", stderr);
}

static const char *number(char buffer[24], int64_t value)
{
    snprintf(buffer, 24, "%lld", (long long)value);
    return buffer;
}

static void log_loaded(const struct source *source, const struct model *model, int64_t elapsed_ns)
{
    const struct model_info *info = model_info(model);
    char parameters[24], weights_bytes[24], arena_bytes[24], milliseconds[24];
    if (info->notice)
        log_write(LOG_LEVEL_WARNING, "model runs on the CPU", "name", source->name, "reason", info->notice, NULL);
    log_write(LOG_LEVEL_INFO, "model loaded", "name", source->name, "architecture", info->architecture, "parameters",
              number(parameters, info->parameters), "weights_bytes",
              number(weights_bytes, (int64_t)info->weights_bytes), "arena_bytes",
              number(arena_bytes, (int64_t)info->arena_bytes), "device", info->device, "dtype", info->dtype, "kernels",
              info->kernels, "milliseconds", number(milliseconds, elapsed_ns / 1000000), NULL);
}

static int source_load(const struct source *source, struct engine *engine, struct model **model, struct error *error)
{
    struct progress progress = {.name = source->name, .start_ns = clock_ns()};
    bool terminal = isatty(STDERR_FILENO);
    int status =
        engine_load(engine, &source->config, source->weights, terminal ? progress_draw : NULL, &progress, model, error);
    progress_clear(&progress);
    if (status != 0)
        return error_prefix(error, "model %s", source->name);
    log_loaded(source, *model, clock_ns() - progress.start_ns);
    return 0;
}

/* The models that are served, with arrays that go along. */
struct models {
    struct model_folders folders;
    struct source *sources;       /* closed once they are loaded; their names stay */
    struct served_model *served;  /* (count) */
    struct model **engine_models; /* (count), the same for the batcher */
    int64_t count;
};

static void models_close(struct models *models)
{
    for (int64_t i = 0; i < models->count; i++) {
        if (models->engine_models)
            model_close(models->engine_models[i]);
        if (models->sources)
            source_close(&models->sources[i]);
    }
    model_folders_free(&models->folders);
    free(models->sources);
    free(models->served);
    free(models->engine_models);
}

/* All configurations are read and all names compared before the first long load. */
static int models_open_sources(struct models *models, struct error *error)
{
    const struct model_source *given = models->folders.sources;
    if (models->folders.count == 0)
        return source_open(NULL, &models->sources[0], error);
    for (int64_t i = 0; i < models->count; i++) {
        if (source_open(&given[i], &models->sources[i], error) != 0)
            return -1;
        for (int64_t earlier = 0; earlier < i; earlier++)
            if (strcmp(models->sources[earlier].name, models->sources[i].name) == 0)
                return error_set(error, "two models are named \"%s\": %s and %s; --model NAME=DIR gives another name",
                                 models->sources[i].name, given[earlier].path, given[i].path);
    }
    return 0;
}

/* On failure too the caller closes `models`, which was zeroed. */
static int models_open(struct models *models, const struct settings *settings, struct engine *engine,
                       struct error *error)
{
    if (model_folders_find(settings, &models->folders, error) != 0)
        return -1;
    models->count = models->folders.count ? (int64_t)models->folders.count : 1;
    models->sources = calloc((size_t)models->count, sizeof *models->sources);
    models->served = calloc((size_t)models->count, sizeof *models->served);
    models->engine_models = calloc((size_t)models->count, sizeof *models->engine_models);
    if (!models->sources || !models->served || !models->engine_models)
        return error_set(error, "out of memory");
    if (models_open_sources(models, error) != 0)
        return -1;
    for (int64_t i = 0; i < models->count; i++) {
        const struct model_source *given = models->folders.count ? &models->folders.sources[i] : NULL;
        if (source_open_weights(given, &models->sources[i], error) != 0 ||
            source_load(&models->sources[i], engine, &models->engine_models[i], error) != 0)
            return -1;
        weights_close(models->sources[i].weights);
        models->sources[i].weights = NULL;
        models->served[i] = (struct served_model){.name = models->sources[i].name, .model = models->engine_models[i]};
    }
    return 0;
}

/* ---- The process ---- */

/* A connection is a descriptor. What the hard limit allows is the operator's decision. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        log_write(LOG_LEVEL_WARNING, "the limit of open files stays low", "reason", strerror(errno), NULL);
}

/* Who else is told that a device works again. The engine opens devices before there is a batcher, and when it is gone.
 */
struct listener {
    pthread_mutex_t lock; /* taken before the batcher's, and never by who holds that */
    struct batcher *batcher;
};

static void listener_set(struct listener *listener, struct batcher *batcher)
{
    pthread_mutex_lock(&listener->lock);
    listener->batcher = batcher;
    pthread_mutex_unlock(&listener->lock);
}

static void listener_wake(struct listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    if (listener->batcher)
        batcher_wake(listener->batcher);
    pthread_mutex_unlock(&listener->lock);
}

/* Called by the engine, on threads of its own and the batcher's. */
static void report_device(void *context, const struct engine_event *event)
{
    char pause[24];
    if (!event->failure)
        listener_wake(context);
    if (event->failure && event->pause_ms == 0)
        log_write(LOG_LEVEL_WARNING, "a device cannot run a batch of a model: the CPU runs it, and others like it",
                  "device", event->device, "reason", event->failure, NULL);
    else if (event->failure)
        log_write(LOG_LEVEL_ERROR, "a device failed: the CPU runs its batches, or another device", "device",
                  event->device, "reason", event->failure, "retry_ms", number(pause, event->pause_ms), NULL);
    if (event->lasts)
        log_write(LOG_LEVEL_ERROR, "a device stays away: perhaps only a restart of the daemon brings it back", "device",
                  event->device, NULL);
    if (!event->failure)
        log_write(LOG_LEVEL_WARNING, "a device works again", "device", event->device, NULL);
}

static int open_engine(const struct settings *settings, struct listener *listener, struct engine **engine,
                       struct error *error)
{
    struct engine_options options = {
        .device = settings->device,
        .dtype = settings->dtype,
        .kernels = settings->kernels,
        .products = settings->products,
        .threads = settings->threads,
        .cuda_tuning_ms = settings->cuda_tuning_ms,
        .max_batch_tokens = settings->max_batch_tokens,
        .max_batch_requests = settings->max_batch_requests,
        .report = report_device,
        .report_context = listener,
    };
    if (engine_open(&options, engine, error) != 0)
        return -1;
    if (engine_notice(*engine))
        log_write(LOG_LEVEL_INFO, strcmp(engine_device(*engine), "cpu") == 0 ? "engine runs on the CPU" : "devices",
                  "reason", engine_notice(*engine), NULL);
    if (engine_cpu_notice(*engine))
        log_write(LOG_LEVEL_INFO, "products run without oneDNN", "reason", engine_cpu_notice(*engine), NULL);
    return 0;
}

static int open_batcher(const struct settings *settings, const struct models *models, struct metrics *metrics,
                        struct batcher **batcher, struct error *error)
{
    struct batcher_options options = {
        .max_batch_tokens = settings->max_batch_tokens,
        .max_batch_requests = settings->max_batch_requests,
        .max_queue_tokens = settings->max_queue_tokens,
        .max_queue_requests = settings->max_queue_requests,
    };
    return batcher_open(models->engine_models, models->count, &options, metrics, batcher, error);
}

static void announce(const struct settings *settings, const struct http *http)
{
    char message[320];
    bool brackets = strchr(settings->host, ':') != NULL && settings->host[0] != '[';
    snprintf(message, sizeof message, "listening on http://%s%s%s:%d", brackets ? "[" : "", settings->host,
             brackets ? "]" : "", http_port(http));
    log_announce(message, NULL);
}

static void serve_until_signal(const struct settings *settings, struct http *http, struct signals *signals)
{
    signals_expect(signals);
    http_ready(http);
    announce(settings, http);
    int number = signals_wait(signals);
    log_write(LOG_LEVEL_INFO, "draining: what was accepted is answered, new work is refused", "signal",
              strsignal(number), NULL);
    http_drain(http);
}

/* Everything between the engine and the sockets. Requests that were accepted before the draining may still submit jobs,
 * so the batcher refuses nothing until the HTTP side is closed. */
static int serve(const struct settings *settings, struct engine *engine, struct listener *listener,
                 struct signals *signals, struct error *error)
{
    struct models models = {.count = 0};
    struct metrics *metrics = NULL;
    struct batcher *batcher = NULL;
    struct http *http = NULL;
    int status = models_open(&models, settings, engine, error);
    if (status != 0)
        goto close_models;
    metrics = metrics_open();
    status = metrics ? 0 : error_set(error, "out of memory");
    if (status != 0)
        goto close_models;
    status = open_batcher(settings, &models, metrics, &batcher, error);
    if (status != 0)
        goto close_metrics;
    listener_set(listener, batcher);
    struct http_options options = {
        .settings = settings,
        .models = models.served,
        .n_models = models.count,
        .engine = engine,
        .batcher = batcher,
        .metrics = metrics,
    };
    status = http_open(&options, &http, error);
    if (status != 0)
        goto close_batcher;

    serve_until_signal(settings, http, signals);
    http_close(http);
close_batcher:
    listener_set(listener, NULL);
    batcher_close(batcher);
close_metrics:
    metrics_close(metrics);
close_models:
    models_close(&models);
    return status;
}

int daemon_serve(const struct settings *settings)
{
    struct signals signals;
    struct listener listener = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct engine *engine = NULL;
    struct error error;
    signals_block(&signals);
    raise_descriptor_limit();
    int status = open_engine(settings, &listener, &engine, &error);
    if (status == 0) {
        status = signals_open(&signals, &error);
        if (status == 0) {
            status = serve(settings, engine, &listener, &signals, &error);
            signals_close(&signals);
        }
        engine_close(engine);
    }
    if (status != 0)
        log_write(LOG_LEVEL_ERROR, "cannot start", "reason", error.message, NULL);
    else
        log_write(LOG_LEVEL_INFO, "stopped", NULL);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int explain(struct engine *engine, const struct source *source, struct error *error)
{
    struct model *model = NULL;
    if (engine_load(engine, &source->config, source->weights, NULL, NULL, &model, error) != 0)
        return error_prefix(error, "model %s", source->name);
    model_explain(model, model_info(model)->inputs[0].max_length, stdout);
    model_close(model);
    if (fflush(stdout) != 0 || ferror(stdout))
        return error_set(error, "standard output: %s", strerror(errno));
    return 0;
}

int daemon_explain(const struct settings *settings, const char *folder)
{
    struct model_source given = {.name = NULL, .path = (char *)folder};
    struct source source = {.name = NULL};
    struct listener listener = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct engine *engine = NULL;
    struct error error;
    int status = open_engine(settings, &listener, &engine, &error);
    if (status == 0) {
        status = source_open(&given, &source, &error);
        if (status == 0)
            status = source_open_weights(&given, &source, &error);
        if (status == 0)
            status = explain(engine, &source, &error);
        source_close(&source);
        engine_close(engine);
    }
    if (status != 0)
        fprintf(stderr, "linformerd: %s\n", error.message);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
