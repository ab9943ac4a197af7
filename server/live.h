/* live: the parts that SIGHUP changes while the daemon serves: settings, API keys and the certificate. The settings are
 * read again from the command line, the environment and the file of --config. */
#ifndef SERVER_LIVE_H
#define SERVER_LIVE_H

#include "config/config.h"

struct batcher;
struct keys;
struct live;
struct metrics;
struct tls;

/* Reads the files with keys and certificates. `started` contains the settings as they were read at the start. `running`
 * contains the settings that the daemon uses, and live_reload changes them. `started`, `running` and `source` must
 * outlive the result. After success the caller must call live_close. */
int live_open(const struct settings *started, const struct settings_source *source, struct settings *running,
              struct live **live, struct error *error);
void live_close(struct live *live); /* NULL is harmless */

struct keys *live_keys(const struct live *live);
struct tls *live_tls(const struct live *live); /* NULL if connections are not encrypted */

/* Sets the batcher, whose limits follow the settings, and the metrics, which report whether a reload failed. Call it
 * before the first reload. */
void live_serve(struct live *live, struct batcher *batcher, struct metrics *metrics);

/* Reads everything again. If a new value is bad, the old one stays in use, and a log line contains the reason. Other
 * log lines name the settings that have changed, but cannot change while the daemon serves. This function is a reload
 * hook (reloads.h). Its context is the struct live. */
void live_reload(void *live);

#endif
