/* live: after live_serve, only the thread that reloads changes the members of struct live. */
#include "server/live.h"

#include "server/common/log.h"
#include "server/common/metrics.h"
#include "server/http/keys.h"
#include "server/http/tls.h"
#include "server/jobs/batcher.h"

#include <stdlib.h>

struct live {
    const struct settings *started;
    struct settings read;          /* the settings that the last valid reload has read. Empty before this reload */
    const struct settings *latest; /* points to `read`, or to `started` before the first valid reload */
    const struct settings_source *source;
    struct settings *running;
    struct keys *keys;
    struct tls *tls;
    struct batcher *batcher;
    struct metrics *metrics;
};

int live_open(const struct settings *started, const struct settings_source *source, struct settings *running,
              struct live **opened, struct error *error)
{
    struct live *live = calloc(1, sizeof *live);
    if (!live)
        return error_set(error, "out of memory");
    *live = (struct live){.started = started, .latest = started, .source = source, .running = running};
    if (keys_open(started->api_key, started->api_key_file, &live->keys, error) != 0 ||
        (started->tls_certificate && tls_open(started->tls_certificate, started->tls_key, &live->tls, error) != 0)) {
        live_close(live);
        return -1;
    }
    *opened = live;
    return 0;
}

void live_close(struct live *live)
{
    if (!live)
        return;
    tls_close(live->tls);
    keys_close(live->keys);
    if (live->latest == &live->read)
        settings_free(&live->read);
    free(live);
}

struct keys *live_keys(const struct live *live)
{
    return live->keys;
}

struct tls *live_tls(const struct live *live)
{
    return live->tls;
}

void live_serve(struct live *live, struct batcher *batcher, struct metrics *metrics)
{
    live->batcher = batcher;
    live->metrics = metrics;
}

static void refuse(struct live *live, const char *what, const struct error *error)
{
    metrics_reload_fault(live->metrics);
    log_write(LOG_LEVEL_ERROR, "cannot reload; the old state is kept", "what", what, "reason", error->message, NULL);
}

static void name_fixed(void *context, const char *flag)
{
    (void)context;
    log_write(LOG_LEVEL_WARNING, "a changed setting needs a restart", "setting", flag, NULL);
}

static void reload_keys(struct live *live)
{
    const struct settings *latest = live->latest;
    struct error error;
    if (keys_needed(live->keys) && !latest->api_key && !latest->api_key_file) {
        error_set(&error, "without --api-key and --api-key-file, requests would need no key");
        refuse(live, "API keys", &error);
    } else if (keys_reload(live->keys, latest->api_key, latest->api_key_file, &error) != 0) {
        refuse(live, "API keys", &error);
    }
}

static void reload_tls(struct live *live)
{
    const struct settings *latest = live->latest;
    struct error error;
    if (!live->tls != !latest->tls_certificate)
        name_fixed(live, "tls-certificate");
    else if (live->tls && tls_reload(live->tls, latest->tls_certificate, latest->tls_key, &error) != 0)
        refuse(live, "certificate", &error);
}

void live_reload(void *context)
{
    struct live *live = context;
    struct settings changed;
    enum settings_action action;
    const char *folder = NULL;
    struct error error;
    if (settings_read(live->source->argc, live->source->argv, live->source->environment, &changed, &action, &folder,
                      &error) != 0) {
        refuse(live, "settings", &error);
        reload_keys(live);
        reload_tls(live);
        return;
    }
    settings_apply(live->started, &changed, live->running, name_fixed, live);
    log_configure(changed.log_format, changed.log_level);
    batcher_set_limits(live->batcher, changed.max_queue_tokens, changed.max_queue_requests, changed.max_queue_ms);
    if (live->latest == &live->read)
        settings_free(&live->read);
    live->read = changed;
    live->latest = &live->read;
    reload_keys(live);
    reload_tls(live);
}
