#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads `length` bytes, fewer at the end of the file; -1: errno is set. */
static ssize_t read_all(int file, char *bytes, size_t length)
{
    size_t used = 0;
    while (used < length) {
        ssize_t count = read(file, bytes + used, length - used);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -1;
        if (count == 0)
            break;
        used += (size_t)count;
    }
    return (ssize_t)used;
}

/* The bytes of an open file, terminated; NULL: the error. */
static char *read_open_file(int file, size_t limit, size_t *length, struct error *error)
{
    struct stat status;
    if (fstat(file, &status) != 0) {
        error_set(error, "cannot be examined: %s", strerror(errno));
        return NULL;
    }
    if (!S_ISREG(status.st_mode)) {
        error_set(error, "is %s, expected a regular file",
                  S_ISDIR(status.st_mode)    ? "a folder"
                  : S_ISFIFO(status.st_mode) ? "a pipe"
                                             : "a device or socket");
        return NULL;
    }
    size_t size = (size_t)status.st_size;
    if (size > limit) {
        error_set(error, "has %zu bytes, expected at most %zu", size, limit);
        return NULL;
    }
    char *bytes = malloc(size + 1);
    if (!bytes) {
        error_set(error, "out of memory: %zu bytes to read it", size);
        return NULL;
    }
    ssize_t count = read_all(file, bytes, size);
    if (count != (ssize_t)size) {
        if (count < 0)
            error_set(error, "cannot be read: %s", strerror(errno));
        else
            error_set(error, "was cut from %zu to %zd bytes while it was read", size, count);
        free(bytes);
        return NULL;
    }
    bytes[size] = '\0';
    *length = size;
    return bytes;
}

char *file_read(const char *path, size_t limit, size_t *length, struct error *error)
{
    /* O_NONBLOCK: to open a pipe without a writer would wait for ever. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *bytes = NULL;
    if (file < 0) {
        error_set(error, "cannot be opened: %s", strerror(errno));
    } else {
        bytes = read_open_file(file, limit, length, error);
        close(file);
    }
    if (!bytes)
        error_prefix(error, "%s", path);
    return bytes;
}
