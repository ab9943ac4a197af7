/* log_writer: writes whole lines to stderr. After log_writer_start, a thread writes the lines from a ring buffer of
 * LOG_RING_BYTES. So no caller waits for the program that reads stderr. A line is lost if the ring has no room for it,
 * or if writing fails. Lost lines are counted. Any thread may call the functions. In the daemon, only log.c includes
 * this header. */
#ifndef SERVER_LOG_WRITER_H
#define SERVER_LOG_WRITER_H

#include "config/config.h"

#define LOG_LINE_BYTES 4096 /* maximum number of bytes of a line, including its line end */
#define LOG_RING_BYTES (256 * 1024)

/* A function that writes the line about lost lines to `line`. It returns the length of the line. */
typedef size_t log_writer_lost_line(int64_t lost, char line[LOG_LINE_BYTES]);

/* Starts the thread. Call it once per process. Before it starts, or if it cannot start, callers write their lines
 * themselves and wait. */
int log_writer_start(log_writer_lost_line *lost_line, struct error *error);

void log_writer_put(const char *line, size_t length);

/* Waits until all lines are written, but at most `patience_ns`. */
void log_writer_flush(int64_t patience_ns);

int64_t log_writer_lost(void); /* number of lost lines since the start */

#endif
