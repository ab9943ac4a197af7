/* log: lines on stderr for an operator, as text or as one JSON object a line. One process-wide destination; any thread.
 *
 *     log_write(LOG_LEVEL_INFO, "model loaded", "name", "builtin", "parameters", "913000", NULL)
 *     text: 2026-11-20T19:40:00.123Z INFO model loaded name=builtin parameters=913000
 *     json: {"time": "…", "level": "info", "message": "model loaded", "name": "builtin", "parameters": "913000"} */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include "config/config.h"

void log_configure(enum log_format format, enum log_level level); /* before other threads log */
bool log_enabled(enum log_level level);

/* Pairs of key and value, ended with NULL. Values are escaped: a line stays a line whatever they hold. */
void log_write(enum log_level level, const char *message, ...) __attribute__((sentinel));

/* An INFO line that is written whatever the level: others wait for it ("listening on …"). */
void log_announce(const char *message, ...) __attribute__((sentinel));

#endif
