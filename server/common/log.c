/* log: a line is composed in a buffer of LOG_LINE_BYTES on the stack. A text that does not fit is cut between two
 * characters, and an ellipsis follows. A number that does not fit is left out, and so are all later pairs. The final
 * quote, brace and line end are still written.
 *
 * Values may come from a client. Control characters are escaped, because terminals and viewers act on them. The C1
 * characters and Unicode's line separators U+2028 and U+2029 are also escaped. Bytes that are not UTF-8 become
 * U+FFFD. */
#include "server/common/log.h"

#include "server/common/clock.h"
#include "server/common/log_writer.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LINE_TAIL 8 /* number of bytes kept free for the ellipsis, a quote, a brace and the line end */
#define FLUSH_PATIENCE_NS INT64_C(1000000000)
#define LIMIT_PERIOD_NS INT64_C(1000000000) /* minimum time between two lines with the same limit, in nanoseconds */

const char log_integer[] = "integer", log_decimal[] = "decimal";

static struct {
    _Atomic enum log_format format;
    _Atomic enum log_level level;
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
    bool cut; /* a value did not fit, so only the end of the line may follow */
    char text[LOG_LINE_BYTES];
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

/* Appends all of the bytes, or none if they do not fit. */
static void line_put(struct line *line, const char *bytes, size_t count)
{
    if (line->cut || line->length + count > LOG_LINE_BYTES - LINE_TAIL) {
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

/* Appends a value with the escapes of JSON, in both formats. */
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

/* Whether a value of a text line needs quotes, so that a reader can tell where the value ends. */
static bool value_needs_quotes(const char *value)
{
    if (!*value)
        return true;
    for (; *value; value++)
        if ((unsigned char)*value <= ' ' || strchr("\"\\=", *value))
            return true;
    return false;
}

/* Appends `before`, `key`, `between`, and the value in quotes. The closing quote is written even if the value is cut.
 * If there is no room for the opening quote, nothing is written. */
static void line_put_value(struct line *line, const char *before, const char *key, const char *between,
                           const char *value, const char *quote)
{
    size_t opening = strlen(before) + strlen(key) + strlen(between) + strlen(quote);
    if (line->cut || line->length + opening > LOG_LINE_BYTES - LINE_TAIL) {
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

/* Appends the pair of key and number, or nothing if it does not fit, because a part of a number is a different
 * number. */
static void line_put_number(struct line *line, const char *before, const char *key, const char *between,
                            const char *number)
{
    char pair[160];
    size_t length = (size_t)snprintf(pair, sizeof pair, "%s%s%s%s", before, key, between, number);
    if (length < sizeof pair)
        line_put(line, pair, length);
}

/* Writes the present time, such as "2026-11-20T19:40:00.123Z". */
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
}

static void line_put_pair(struct line *line, const char *key, const char *value)
{
    if (destination.format == LOG_FORMAT_JSON)
        line_put_value(line, ", \"", key, "\": ", value, "\"");
    else
        line_put_value(line, " ", key, "=", value, value_needs_quotes(value) ? "\"" : "");
}

static void line_put_number_pair(struct line *line, const char *key, const char *number)
{
    bool json = destination.format == LOG_FORMAT_JSON;
    line_put_number(line, json ? ", \"" : " ", key, json ? "\": " : "=", number);
}

static void line_put_integer(struct line *line, const char *key, int64_t value)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)value);
    line_put_number_pair(line, key, number);
}

static void line_put_decimal(struct line *line, const char *key, double value)
{
    char number[64];
    int length = snprintf(number, sizeof number, "%.3f", value);
    bool is_number = isfinite(value) && length < (int)sizeof number;
    line_put_number_pair(line, key, is_number ? number : "null");
}

static void line_put_pairs(struct line *line, va_list pairs)
{
    for (const char *key = va_arg(pairs, const char *); key; key = va_arg(pairs, const char *)) {
        if (key == log_integer) {
            key = va_arg(pairs, const char *);
            line_put_integer(line, key, va_arg(pairs, int64_t));
        } else if (key == log_decimal) {
            key = va_arg(pairs, const char *);
            line_put_decimal(line, key, va_arg(pairs, double));
        } else {
            const char *value = va_arg(pairs, const char *);
            if (value)
                line_put_pair(line, key, value);
        }
    }
}

static void log_pairs(enum log_level level, const char *message, va_list pairs, int64_t left_out)
{
    struct line line;
    int saved = errno;
    line_begin(&line, level, message);
    line_put_pairs(&line, pairs);
    if (left_out > 0)
        line_put_integer(&line, "left_out", left_out);
    line_end(&line);
    log_writer_put(line.text, line.length);
    errno = saved;
}

void log_write(enum log_level level, const char *message, ...)
{
    if (!log_enabled(level))
        return;
    va_list pairs;
    va_start(pairs, message);
    log_pairs(level, message, pairs, 0);
    va_end(pairs);
}

void log_write_limited(struct log_limit *limit, enum log_level level, const char *message, ...)
{
    if (!log_enabled(level))
        return;
    int64_t now_ns = clock_ns();
    int64_t next_ns = atomic_load(&limit->next_ns);
    if (now_ns < next_ns || !atomic_compare_exchange_strong(&limit->next_ns, &next_ns, now_ns + LIMIT_PERIOD_NS)) {
        atomic_fetch_add(&limit->left_out, 1);
        return;
    }
    va_list pairs;
    va_start(pairs, message);
    log_pairs(level, message, pairs, atomic_exchange(&limit->left_out, 0));
    va_end(pairs);
}

void log_announce(const char *message, ...)
{
    va_list pairs;
    va_start(pairs, message);
    log_pairs(LOG_LEVEL_INFO, message, pairs, 0);
    va_end(pairs);
}

/* ---- The thread ---- */

static size_t lost_line(int64_t lost, char text[LOG_LINE_BYTES])
{
    struct line line;
    line_begin(&line, LOG_LEVEL_WARNING, "log lines were lost: they could not be written in time");
    line_put_integer(&line, "lines", lost);
    line_end(&line);
    memcpy(text, line.text, line.length);
    return line.length;
}

int log_start(struct error *error)
{
    return log_writer_start(lost_line, error);
}

void log_flush(void)
{
    log_writer_flush(FLUSH_PATIENCE_NS);
}

int64_t log_lines_dropped(void)
{
    return log_writer_lost();
}
