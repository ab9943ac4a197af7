/* log: lines on stderr for an operator, as text or as one JSON object a line. One process-wide destination; any thread.
 *
 *     log_write(LOG_LEVEL_INFO, "model loaded", "name", "builtin", LOG_INTEGER("parameters", 913000), NULL)
 *     text: 2026-11-20T19:40:00.123Z INFO model loaded name=builtin parameters=913000
 *     json: {"time": "…", "level": "info", "message": "model loaded", "name": "builtin", "parameters": 913000}
 *
 * After log_start no caller waits for stderr. Lines arrive whole and in order. While nobody reads them they are kept in
 * a ring of 256 KiB. Lines beyond it are dropped and counted, and a later line tells how many they were. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include "config/config.h"

#include <stdatomic.h>

void log_configure(enum log_format format, enum log_level level); /* before other threads log */
bool log_enabled(enum log_level level);

/* From now on a thread of its own writes the lines; before that their callers do. Once in a process. */
int log_start(struct error *error);

/* Waits until all lines are written, a second at most. For the end of the process, and before others write to stderr.
 */
void log_flush(void);

int64_t log_lines_dropped(void);

/* Pairs of key and value, ended with NULL. A value is a text, or the pair is a number by one of the macros below. A
 * pair whose value is NULL is left out. Values are escaped: a line stays a line whatever they hold. */
void log_write(enum log_level level, const char *message, ...) __attribute__((sentinel));

/* A pair whose value is a number, which JSON shows as such; LOG_DECIMAL has three digits after the point. */
#define LOG_INTEGER(key, value) log_integer, (key), (int64_t)(value)
#define LOG_DECIMAL(key, value) log_decimal, (key), (double)(value)
extern const char log_integer[], log_decimal[];

/* For lines that clients can cause without end: at most one a second for each limit. The next line has the number of
 * those between as `left_out`. A zeroed limit is ready; any thread. */
struct log_limit {
    _Atomic int64_t next_ns;
    _Atomic int64_t left_out;
};
void log_write_limited(struct log_limit *limit, enum log_level level, const char *message, ...)
    __attribute__((sentinel));

/* An INFO line that is written whatever the level: others wait for it ("listening on …"). */
void log_announce(const char *message, ...) __attribute__((sentinel));

#endif
