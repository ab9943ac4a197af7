/* daemon: the process. This file sets the limits of the process, opens the engine, and defines the order in which all
 * parts open and close. */
#include "server/daemon.h"

#include "engine/engine.h"
#include "server/common/log.h"
#include "server/common/memory.h"
#include "server/common/metrics.h"
#include "server/dialects/dialects.h"
#include "server/http/http.h"
#include "server/jobs/batcher.h"
#include "server/limits.h"
#include "server/live.h"
#include "server/model_version.h"
#include "server/models.h"
#include "server/notifier.h"
#include "server/reloads.h"
#include "server/signals.h"
#include "server/tracing/tracer.h"
#include "server/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Objects that exist once in the process. */
struct process {
    struct settings settings; /* a copy of the settings. A value replaces each auto. Reloads change those settings that
                                 may change while the daemon serves */
    struct signals *signals;
    struct live *live;
    struct metrics *metrics;
    struct notifier notifier;
    struct tracer *tracer; /* NULL if requests are not traced */
};

#define MIN_HAND_OVER_NS INT64_C(2000000000)

/* Raises the soft limit of descriptors to the hard limit, which the operator has chosen, because each connection needs
 * a descriptor. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        log_write(LOG_LEVEL_WARNING, "cannot raise the limit of open files", "reason", strerror(errno), NULL);
}

/* Wakes the batcher when a device works again. The engine may report a device before the batcher exists, and after the
 * batcher is closed. */
struct waker {
    /* A thread that holds this lock may acquire the batcher's lock, but not the other way round. */
    pthread_mutex_t lock;
    struct batcher *batcher; /* NULL while the batcher is not open */
};

static void waker_set(struct waker *waker, struct batcher *batcher)
{
    pthread_mutex_lock(&waker->lock);
    waker->batcher = batcher;
    pthread_mutex_unlock(&waker->lock);
}

static void waker_wake(struct waker *waker)
{
    pthread_mutex_lock(&waker->lock);
    if (waker->batcher)
        batcher_wake(waker->batcher);
    pthread_mutex_unlock(&waker->lock);
}

/* The engine calls this function, on its own threads and on the threads of the batcher. */
static void report_device(void *context, const struct engine_event *event)
{
    if (!event->failure)
        waker_wake(context);
    if (event->failure && event->pause_ms == 0)
        log_write(LOG_LEVEL_WARNING, "a device cannot run a batch of a model: the CPU runs this batch and similar ones",
                  "device", event->device, "reason", event->failure, NULL);
    else if (event->failure)
        log_write(LOG_LEVEL_ERROR, "a device failed: the CPU or another device runs its batches", "device",
                  event->device, "reason", event->failure, LOG_INTEGER("retry_ms", event->pause_ms), NULL);
    if (event->lasts)
        log_write(LOG_LEVEL_ERROR, "a device cannot be reopened: the daemon may need a restart", "device",
                  event->device, NULL);
    if (!event->failure)
        log_write(LOG_LEVEL_WARNING, "a device works again", "device", event->device, NULL);
}

/* Opens the engine. Also sets max_batch_tokens if it is auto. */
static int open_engine(struct settings *settings, struct waker *waker, struct engine **engine, struct error *error)
{
    size_t image_arena_bytes = limits_image_arena(settings, memory_bytes(""));
    limits_set_batch_tokens(settings);
    struct engine_options options = {
        .device = settings->device,
        .dtype = settings->dtype,
        .kernels = settings->kernels,
        .products = settings->products,
        .threads = settings->threads,
        .cuda_f32 = settings->cuda_f32,
        .cuda_tuning_ms = settings->cuda_tuning_ms,
        .max_batch_tokens = settings->max_batch_tokens,
        .max_batch_requests = settings->max_batch_requests,
        .max_slots = settings->max_generations,
        .image_arena_bytes = image_arena_bytes,
        .report = report_device,
        .report_context = waker,
    };
    if (engine_open(&options, engine, error) != 0)
        return -1;
    if (engine_notice(*engine))
        log_write(LOG_LEVEL_INFO, engine_is_on_cpu(*engine) ? "engine runs on the CPU" : "devices", "reason",
                  engine_notice(*engine), NULL);
    if (engine_cpu_notice(*engine))
        log_write(LOG_LEVEL_INFO, "matrix products run without oneDNN", "reason", engine_cpu_notice(*engine), NULL);
    return 0;
}

static int open_batcher(const struct settings *settings, const struct models *models, struct metrics *metrics,
                        struct batcher **batcher, struct error *error)
{
    struct batcher_options options = {
        .max_batch_tokens = settings->max_batch_tokens,
        .max_batch_requests = settings->max_batch_requests,
        .max_batch_ms = settings->max_batch_ms,
        .max_queue_tokens = settings->max_queue_tokens,
        .max_queue_requests = settings->max_queue_requests,
        .max_queue_ms = settings->max_queue_ms,
        .max_generations = settings->max_generations,
        .generation_percent = settings->generation_percent,
    };
    return batcher_open(models_engine_models(models), models_count(models), &options, metrics, batcher, error);
}

static void announce(const struct http *http)
{
    char address[HTTP_ADDRESS_BYTES], message[HTTP_ADDRESS_BYTES + 16];
    for (int i = 0; http_address(http, i, address); i++) {
        snprintf(message, sizeof message, "listening on %s", address);
        log_announce(message, NULL);
    }
}

/* How long connections without a request may stay open while another process takes over, in nanoseconds. */
static int64_t hand_over_ns(const struct settings *settings)
{
    int64_t delay_ns = settings->drain_delay_ms * 1000000;
    return delay_ns > MIN_HAND_OVER_NS ? delay_ns : MIN_HAND_OVER_NS;
}

static void begin_reload(void *context)
{
    struct process *process = context;
    metrics_reload_begin(process->metrics);
    notifier_reloading(&process->notifier);
}

static void tell_ready(struct process *process)
{
    notifier_ready(&process->notifier, "serving");
}

static void end_reload(void *context)
{
    struct process *process = context;
    metrics_reload_end(process->metrics);
    log_write(LOG_LEVEL_INFO, "reload ended", NULL);
    tell_ready(process);
}

/* Does nothing after SIGINT. If another process shares the sockets, leaves new connections to it. Otherwise reports for
 * the time of --drain-delay-ms that the daemon is not ready. */
static void prepare_to_drain(const struct settings *settings, struct http *http, struct signals *signals, int number)
{
    if (number == SIGINT)
        return;
    if (http_shares_sockets(http)) {
        log_write(LOG_LEVEL_INFO, "another process accepts new connections; open connections end after their requests",
                  "signal", strsignal(number), NULL);
        http_hand_over(http, hand_over_ns(settings));
    } else if (settings->drain_delay_ms > 0) {
        log_write(LOG_LEVEL_INFO, "no longer ready; requests are still accepted until draining begins", "signal",
                  strsignal(number), LOG_INTEGER("delay_ms", settings->drain_delay_ms), NULL);
        http_unready(http);
        signals_delay(signals, settings->drain_delay_ms);
    }
}

/* Answers the accepted requests, and ends the process although a reload runs. The reload may take minutes, because the
 * engine cannot interrupt the loading of a model, and nobody needs its result. The thread of the reload still uses the
 * models and the engine, so these are not closed. */
static void end_during_reload(struct process *process, struct http *http, struct reloads *reloads)
{
    reloads_leave(reloads);
    http_close(http);
    tracer_close(process->tracer);
    log_write(LOG_LEVEL_INFO, "stopped", "reload", "interrupted", NULL);
    log_flush();
    _exit(EXIT_SUCCESS);
}

/* Serves until a signal asks the daemon to drain. */
static int serve_until_signal(struct process *process, struct http *http, struct models *models,
                              struct batcher *batcher, struct error *error)
{
    const struct reload_hook hooks[] = {
        /* steps of a reload (SIGHUP), in this order. Loading models may take minutes */
        {begin_reload, process},
        {live_reload, process->live},
        {models_reload, models},
        {end_reload, process},
    };
    struct reloads *reloads = NULL;
    struct watchdog *watchdog = NULL;
    if (reloads_open(hooks, sizeof hooks / sizeof hooks[0], &reloads, error) != 0)
        return -1;
    if (watchdog_open(&process->notifier, http, batcher, &watchdog, error) != 0) {
        reloads_close(reloads);
        return -1;
    }
    if (http_ready(http, error) != 0) {
        watchdog_close(watchdog);
        reloads_close(reloads);
        return -1;
    }
    signals_expect(process->signals, reloads);
    announce(http);
    tell_ready(process);
    int number = signals_wait(process->signals);
    notifier_stopping(&process->notifier, "answering the last requests");
    reloads_stop(reloads);
    models_stop_reload(models);
    watchdog_close(watchdog); /* the service manager's watchdog does not watch a daemon that stops */
    prepare_to_drain(&process->settings, http, process->signals, number);
    log_write(LOG_LEVEL_INFO, "draining: accepted requests are answered, new requests are refused", "signal",
              strsignal(number), NULL);
    http_drain(http);
    if (reloads_busy(reloads))
        end_during_reload(process, http, reloads);
    reloads_close(reloads);
    return 0;
}

/* Opens all parts between the engine and the sockets, serves, and closes these parts. Accepted requests may still
 * submit jobs while the daemon drains, so the batcher closes after the HTTP server. If `check` is true, closes the
 * parts as soon as the batcher has run its first batches. */
static int serve(struct process *process, bool check, struct engine *engine, struct waker *waker, struct error *error)
{
    struct settings *settings = &process->settings;
    struct models *models = NULL;
    struct metrics *metrics = NULL;
    struct batcher *batcher = NULL;
    struct http *http = NULL;
    int status = models_open(settings, engine, &models, error);
    if (status != 0)
        return -1;
    limits_set_payload(settings, models_engine_models(models), models_count(models), memory_bytes(""));
    metrics = metrics_open(models_names(models), models_count(models));
    status = metrics ? 0 : error_set(error, "out of memory");
    if (status != 0)
        goto close_models;
    status = open_batcher(settings, models, metrics, &batcher, error);
    if (status != 0)
        goto close_metrics;
    if (check) {
        log_announce("check passed: each model has run a batch", LOG_INTEGER("models", models_count(models)), NULL);
        goto close_batcher;
    }
    waker_set(waker, batcher);
    process->metrics = metrics;
    live_serve(process->live, batcher, metrics);
    status = models_serve(models, batcher, metrics, error);
    if (status != 0)
        goto close_batcher;
    struct service_options options = {
        .settings = settings,
        .sets = models_sets(models),
        .control = models_control(models),
        .dialects = all_dialects,
        .engine = engine,
        .batcher = batcher,
        .metrics = metrics,
        .keys = live_keys(process->live),
        .tls = live_tls(process->live),
        .tracer = process->tracer,
    };
    status = http_open(&options, &http, error);
    if (status == 0)
        status = serve_until_signal(process, http, models, batcher, error);
    http_close(http);
    models_stop(models);
close_batcher:
    waker_set(waker, NULL);
    batcher_close(batcher);
close_metrics:
    metrics_close(metrics);
close_models:
    models_close(models);
    return status;
}

static int run(const struct settings *given, const struct settings_source *source, bool check, struct error *error)
{
    struct process process = {.settings = *given};
    struct waker waker = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct engine *engine = NULL;
    /* this call comes first, so that threads of libraries inherit the blocked signals */
    int status = signals_open(&process.signals, error);
    if (status != 0)
        return -1;
    notifier_open(&process.notifier);
    status = log_start(error);
    if (status != 0)
        goto close_signals;
    notifier_starting(&process.notifier, "loading the models");
    raise_descriptor_limit();
    status = live_open(given, source, &process.settings, &process.live, error);
    if (status != 0)
        goto close_signals;
    status = tracer_open(process.settings.otlp_endpoint, &process.tracer, error);
    if (status != 0)
        goto close_live;
    status = open_engine(&process.settings, &waker, &engine, error);
    if (status != 0)
        goto close_tracer;
    status = serve(&process, check, engine, &waker, error);
    engine_close(engine);
close_tracer:
    tracer_close(process.tracer);
close_live:
    live_close(process.live);
close_signals:
    notifier_close(&process.notifier);
    signals_close(process.signals);
    return status;
}

int daemon_serve(const struct settings *settings, const struct settings_source *source)
{
    struct error error;
    int status = run(settings, source, false, &error);
    if (status != 0)
        log_write(LOG_LEVEL_ERROR, "cannot start", "reason", error.message, NULL);
    else
        log_write(LOG_LEVEL_INFO, "stopped", NULL);
    log_flush();
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int daemon_check(const struct settings *settings, const struct settings_source *source)
{
    struct error error;
    int status = run(settings, source, true, &error);
    if (status != 0)
        log_write(LOG_LEVEL_ERROR, "check failed", "reason", error.message, NULL);
    log_flush();
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Returns the model for --explain. NULL stands for the first built-in model. */
static const struct model_source *explained(const struct settings *settings, const struct model_source *folder)
{
    return folder->path ? folder : settings->n_models > 0 ? &settings->models[0] : NULL;
}

int daemon_explain(const struct settings *given, const char *path)
{
    struct settings settings = *given;
    struct model_source folder = {.name = NULL, .path = (char *)path};
    struct waker waker = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct engine *engine = NULL;
    struct error error;
    int status = open_engine(&settings, &waker, &engine, &error);
    if (status == 0) {
        status = model_version_explain(explained(given, &folder), engine, stdout, &error);
        engine_close(engine);
    }
    if (status != 0)
        fprintf(stderr, "linformerd: %s\n", error.message);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
