/* A line is put together on the stack and leaves in one write(2) of at most PIPE_BUF bytes, which a pipe keeps whole:
 * lines of several threads don't mix, and no lock is needed. What doesn't fit is cut at a character's border, with an
 * ellipsis in its place, and the line is still closed properly.
 *
 * Values may come from a client. Control characters (also the C1 ones and the two Unicode line ends, which terminals
 * and viewers heed) are escaped; bytes that are no UTF-8 become U+FFFD. */
#include "server/log.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 4096 /* PIPE_BUF of Linux */
#define LINE_TAIL 8     /* kept free for the ellipsis, a quote, a brace and the line's end */
_Static_assert(LINE_BYTES <= PIPE_BUF, "a line must be written at once");

static struct {
    enum log_format format;
    enum log_level level;
} destination = {LOG_FORMAT_TEXT, LOG_LEVEL_INFO};

static const char *const level_names[] = {
    [LOG_LEVEL_ERROR] = "error",
    [LOG_LEVEL_WARNING] = "warning",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug",
};
static const char *const level_names_upper[] = {
    [LOG_LEVEL_ERROR] = "ERROR",
    [LOG_LEVEL_WARNING] = "WARNING",
    [LOG_LEVEL_INFO] = "INFO",
    [LOG_LEVEL_DEBUG] = "DEBUG",
};

struct line {
    size_t length;
    bool cut; /* something did not fit: only the tail may follow */
    char text[LINE_BYTES];
};

void log_configure(enum log_format format, enum log_level level)
{
    destination.format = format;
    destination.level = level;
}

bool log_enabled(enum log_level level)
{
    return level <= destination.level;
}

/* All of the bytes or none. */
static void line_put(struct line *line, const char *bytes, size_t count)
{
    if (line->cut || line->length + count > LINE_BYTES - LINE_TAIL) {
        line->cut = true;
        return;
    }
    memcpy(line->text + line->length, bytes, count);
    line->length += count;
}

static void line_put_text(struct line *line, const char *text)
{
    line_put(line, text, strlen(text));
}

static void line_put_tail(struct line *line, const char *text)
{
    size_t count = strlen(text);
    memcpy(line->text + line->length, text, count);
    line->length += count;
}

/* Escapes follow JSON in both formats. */
static void line_put_escaped(struct line *line, const char *value)
{
    while (*value && !line->cut) {
        char escape[8];
        uint32_t code;
        size_t count = text_character(value, SIZE_MAX, &code);
        if (count == 0) {
            line_put_text(line, "\xef\xbf\xbd");
            value++;
            continue;
        }
        if (code == '"' || code == '\\') {
            snprintf(escape, sizeof escape, "\\%c", (char)code);
            line_put_text(line, escape);
        } else if (code == '\n') {
            line_put_text(line, "\\n");
        } else if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029) {
            snprintf(escape, sizeof escape, "\\u%04x", code & 0xffff);
            line_put_text(line, escape);
        } else {
            line_put(line, value, count);
        }
        value += count;
    }
}

/* Whether a text value reads back unambiguously only between quotes. */
static bool value_needs_quotes(const char *value)
{
    if (!*value)
        return true;
    for (; *value; value++)
        if ((unsigned char)*value <= ' ' || strchr("\"\\=", *value))
            return true;
    return false;
}

/* A value between `quote`s, closed even where it was cut. Opened only if there is room for more than the quote. */
static void line_put_value(struct line *line, const char *before, const char *key, const char *between,
                           const char *value, const char *quote)
{
    size_t opening = strlen(before) + strlen(key) + strlen(between) + strlen(quote);
    if (line->cut || line->length + opening > LINE_BYTES - LINE_TAIL) {
        line->cut = true;
        return;
    }
    line_put_text(line, before);
    line_put_text(line, key);
    line_put_text(line, between);
    line_put_text(line, quote);
    line_put_escaped(line, value);
    if (line->cut)
        line_put_tail(line, "\xe2\x80\xa6");
    line_put_tail(line, quote);
}

/* "2026-11-20T19:40:00.123Z" */
static void time_text(char *buffer, size_t size)
{
    struct timespec now;
    struct tm utc;
    char seconds[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(buffer, size, "%s.%03ldZ", seconds, now.tv_nsec / 1000000);
}

static void line_begin(struct line *line, enum log_level level, const char *message)
{
    char time[48];
    time_text(time, sizeof time);
    line->length = 0;
    line->cut = false;
    if (destination.format == LOG_FORMAT_JSON) {
        line_put_value(line, "{\"", "time", "\": ", time, "\"");
        line_put_value(line, ", \"", "level", "\": ", level_names[level], "\"");
        line_put_value(line, ", \"", "message", "\": ", message, "\"");
    } else {
        line_put_text(line, time);
        line_put_text(line, " ");
        line_put_text(line, level_names_upper[level]);
        line_put_value(line, " ", "", "", message, "");
    }
}

static void line_end(struct line *line)
{
    line_put_tail(line, destination.format == LOG_FORMAT_JSON ? "}\n" : "\n");
    for (size_t written = 0; written < line->length;) {
        ssize_t count = write(STDERR_FILENO, line->text + written, line->length - written);
        if (count > 0)
            written += (size_t)count;
        else if (errno != EINTR)
            break; /* nowhere left to say so */
    }
}

static void log_pairs(enum log_level level, const char *message, va_list pairs)
{
    struct line line;
    int saved = errno;
    line_begin(&line, level, message);
    for (const char *key = va_arg(pairs, const char *); key; key = va_arg(pairs, const char *)) {
        const char *value = va_arg(pairs, const char *);
        if (!value)
            break; /* the pairs' end, whatever was meant */
        if (destination.format == LOG_FORMAT_JSON)
            line_put_value(&line, ", \"", key, "\": ", value, "\"");
        else
            line_put_value(&line, " ", key, "=", value, value_needs_quotes(value) ? "\"" : "");
    }
    line_end(&line);
    errno = saved;
}

void log_write(enum log_level level, const char *message, ...)
{
    if (!log_enabled(level))
        return;
    va_list pairs;
    va_start(pairs, message);
    log_pairs(level, message, pairs);
    va_end(pairs);
}

void log_announce(const char *message, ...)
{
    va_list pairs;
    va_start(pairs, message);
    log_pairs(LOG_LEVEL_INFO, message, pairs);
    va_end(pairs);
}
