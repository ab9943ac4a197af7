/* log: lines on stderr for an operator, as text or as one JSON object a line. One destination for the process. Any
 * thread.
 *
 *     log_write(LOG_LEVEL_INFO, "model loaded", "name", "builtin", LOG_INTEGER("parameters", 913000), NULL)
 *     text: 2026-11-20T19:40:00.123Z INFO model loaded name=builtin parameters=913000
 *     json: {"time": "…", "level": "info", "message": "model loaded", "name": "builtin", "parameters": 913000}
 *
 * After log_start no caller waits for stderr. Lines arrive whole and in order. While stderr is blocked they are kept in
 * a ring of 256 KiB. Lines beyond the ring are dropped and counted, and a later line has their number. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include "config/config.h"

#include <stdatomic.h>

void log_configure(enum log_format format, enum log_level level); /* before other threads log */
bool log_enabled(enum log_level level);

/* Starts the thread that writes the lines. Before, callers write their lines themselves. Once in a process. */
int log_start(struct error *error);

/* Waits until all lines are written, a second at most. To be called at the end of the process, and before other code
 * writes to stderr. */
void log_flush(void);

int64_t log_lines_dropped(void);

/* Takes pairs of key and value, ended with NULL. A value is a text; the macros below make a pair with a number. A pair
 * with the value NULL is left out. Values are escaped, so that they cannot begin a new line. */
void log_write(enum log_level level, const char *message, ...) __attribute__((sentinel));

/* A pair with a number, which JSON shows without quotes. LOG_DECIMAL has three digits after the point. */
#define LOG_INTEGER(key, value) log_integer, (key), (int64_t)(value)
#define LOG_DECIMAL(key, value) log_decimal, (key), (double)(value)
extern const char log_integer[], log_decimal[];

/* For lines that clients can cause as often as they like. Each limit lets one line a second through. The next line has
 * the number of suppressed lines as `left_out`. A zeroed limit is ready for use. */
struct log_limit {
    _Atomic int64_t next_ns;
    _Atomic int64_t left_out;
};
void log_write_limited(struct log_limit *limit, enum log_level level, const char *message, ...)
    __attribute__((sentinel));

/* An INFO line that is written at every level, because other programs wait for it ("listening on …"). */
void log_announce(const char *message, ...) __attribute__((sentinel));

#endif
