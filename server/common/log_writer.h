/* log_writer: brings whole lines to stderr. After the start its thread writes them from a ring of LOG_RING_BYTES, so
 * that no caller waits for the reader of the log. A line that finds no room, or cannot be written, is lost and counted.
 * Any thread. Private to log.c. */
#ifndef SERVER_LOG_WRITER_H
#define SERVER_LOG_WRITER_H

#include "config/config.h"

#define LOG_LINE_BYTES 4096 /* of a line at most, with its end */
#define LOG_RING_BYTES (256 * 1024)

/* Writes the line that has the number of lost lines. Returns its length. */
typedef size_t log_writer_lost_line(int64_t lost, char line[LOG_LINE_BYTES]);

/* Starts the thread. Once in a process. Before, and after a failure, callers write their lines themselves and wait. */
int log_writer_start(log_writer_lost_line *lost_line, struct error *error);

void log_writer_put(const char *line, size_t length);

/* Waits until all lines are written, or for `patience_ns`. */
void log_writer_flush(int64_t patience_ns);

int64_t log_writer_lost(void); /* lines, since the start */

#endif
