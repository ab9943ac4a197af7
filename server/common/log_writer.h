/* log_writer: brings whole lines to stderr. Once started, a thread of its own writes them from a ring of
 * LOG_RING_BYTES, so that no caller waits for whoever reads the log. A line that finds no room, or cannot be written,
 * is lost and counted. Any thread may call. Private to log.c. */
#ifndef SERVER_LOG_WRITER_H
#define SERVER_LOG_WRITER_H

#include "config/config.h"

#define LOG_LINE_BYTES 4096 /* at most, the line's end included */
#define LOG_RING_BYTES (256 * 1024)

/* Makes the line that tells how many lines were lost. Returns its length. */
typedef size_t log_writer_lost_line(int64_t lost, char line[LOG_LINE_BYTES]);

/* Once in a process. Until then, and when it fails, lines are written by their callers, who wait. */
int log_writer_start(log_writer_lost_line *lost_line, struct error *error);

void log_writer_put(const char *line, size_t length);

/* Waits until all lines are written, or for `patience_ns`. */
void log_writer_flush(int64_t patience_ns);

int64_t log_writer_lost(void); /* lines, since the start */

#endif
