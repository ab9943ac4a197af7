/* log: lines on stderr for an operator. A line is text or one JSON object. The whole process has one log. Any thread
 * may write to it.
 *
 *     log_write(LOG_LEVEL_INFO, "model loaded", "name", "builtin", LOG_INTEGER("parameters", 913000), NULL)
 *     text: 2026-11-20T19:40:00.123Z INFO model loaded name=builtin parameters=913000
 *     json: {"time": "…", "level": "info", "message": "model loaded", "name": "builtin", "parameters": 913000}
 *
 * After log_start no caller waits for stderr. Lines are written whole and in order. While stderr is blocked, lines wait
 * in a ring buffer of 256 KiB. Lines that do not fit are dropped and counted. A later line reports their number. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include "config/config.h"

#include <stdatomic.h>

void log_configure(enum log_format format, enum log_level level); /* any thread may call it */
bool log_enabled(enum log_level level);

/* Starts the thread that writes the lines. Until then, each caller writes its line itself. Call it once per process. */
int log_start(struct error *error);

/* Waits until all lines are written, but at most one second. Call it at the end of the process, and before other code
 * writes to stderr. */
void log_flush(void);

int64_t log_lines_dropped(void);

/* The arguments after the message are pairs of key and value, and a final NULL. A value is a string. The macros below
 * make a pair with a number. A pair with the value NULL is left out. Values are escaped, so they cannot begin a new
 * line. */
void log_write(enum log_level level, const char *message, ...) __attribute__((sentinel));

/* Pairs of a key and a number. JSON lines contain the number without quotes. LOG_DECIMAL writes three digits after the
 * point. */
#define LOG_INTEGER(key, value) log_integer, (key), (int64_t)(value)
#define LOG_DECIMAL(key, value) log_decimal, (key), (double)(value)
extern const char log_integer[], log_decimal[];

/* A limit for lines that clients can cause as often as they like. The limit allows one line per second. The next line
 * that is written contains the number of suppressed lines as `left_out`. A zeroed limit is ready for use. */
struct log_limit {
    _Atomic int64_t next_ns;
    _Atomic int64_t left_out;
};
void log_write_limited(struct log_limit *limit, enum log_level level, const char *message, ...)
    __attribute__((sentinel));

/* Writes an INFO line, whatever the log level is. It is used for lines that other programs wait for, such as "listening
 * on …". */
void log_announce(const char *message, ...) __attribute__((sentinel));

#endif
