#include "config/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LIMIT_BYTES (16 << 20)

/* Reads up to `limit` bytes until the end of the file; -1: errno is set. */
static ssize_t read_all(int file, char *bytes, size_t limit)
{
    size_t length = 0;
    while (length < limit) {
        ssize_t count = read(file, bytes + length, limit - length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -1;
        if (count == 0)
            break;
        length += (size_t)count;
    }
    return (ssize_t)length;
}

char *text_read_file(const char *path, size_t *length, struct error *error)
{
    char *text = NULL;
    /* O_NONBLOCK: to open a fifo without a writer would wait for ever. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        error_set(error, "cannot be opened: %s", strerror(errno));
        return NULL;
    }
    struct stat status;
    if (fstat(file, &status) != 0) {
        error_set(error, "cannot be examined: %s", strerror(errno));
        goto fail;
    }
    if (!S_ISREG(status.st_mode)) {
        error_set(error, "is %s, expected a file", S_ISDIR(status.st_mode) ? "a folder" : "not a regular file");
        goto fail;
    }
    if (status.st_size > FILE_LIMIT_BYTES) {
        error_set(error, "has %lld bytes, expected at most %d", (long long)status.st_size, FILE_LIMIT_BYTES);
        goto fail;
    }
    text = malloc((size_t)status.st_size + 1);
    if (!text) {
        error_set(error, "out of memory");
        goto fail;
    }
    ssize_t count = read_all(file, text, (size_t)status.st_size);
    if (count < 0) {
        error_set(error, "cannot be read: %s", strerror(errno));
        goto fail;
    }
    text[count] = '\0';
    *length = (size_t)count;
    close(file);
    return text;

fail:
    free(text);
    close(file);
    return NULL;
}

/* In the file's terms: jansson speaks of its own options for NULs, and says nothing when memory is short. */
static const char *parse_reason(const json_error_t *reason)
{
    switch (json_error_code(reason)) {
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "a NUL character in a string";
    case json_error_out_of_memory:
        return "out of memory";
    default:
        return reason->text[0] ? reason->text : "out of memory";
    }
}

json_t *text_parse_object(const char *text, size_t length, bool quote, struct error *error)
{
    if (length == 0) {
        error_set(error, "is empty, expected a JSON object");
        return NULL;
    }
    json_error_t reason = {0};
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &reason);
    if (!object) {
        const char *what = parse_reason(&reason);
        const char *near = quote ? NULL : strstr(what, " near ");
        error_set(error, "line %d, column %d: %.*s", reason.line, reason.column,
                  near ? (int)(near - what) : (int)strlen(what), what);
        return NULL;
    }
    if (!json_is_object(object)) {
        error_set(error, "expected a JSON object, found a list");
        json_decref(object);
        return NULL;
    }
    return object;
}

const char *text_describe(const json_t *value, char *buffer, size_t size)
{
    int length = 0;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        length = snprintf(buffer, size, "an object");
        break;
    case JSON_ARRAY:
        length = snprintf(buffer, size, "a list");
        break;
    case JSON_STRING:
        length = snprintf(buffer, size, "\"%s\"", json_string_value(value));
        break;
    case JSON_INTEGER:
        length = snprintf(buffer, size, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        length = snprintf(buffer, size, "the fraction %.9g", json_real_value(value));
        break;
    case JSON_TRUE:
        length = snprintf(buffer, size, "true");
        break;
    case JSON_FALSE:
        length = snprintf(buffer, size, "false");
        break;
    case JSON_NULL:
        length = snprintf(buffer, size, "null");
        break;
    }
    if (length >= (int)size && size > 3)
        memcpy(buffer + size - 4, "...", 4);
    return buffer;
}

void text_list_add(char *buffer, size_t size, const char *item)
{
    size_t used = strlen(buffer);
    if (used + strlen(item) + 3 <= size)
        snprintf(buffer + used, size - used, "%s%s", used ? ", " : "", item);
}
