/* file: reads whole regular files. Pipes and devices are refused. */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads `length` bytes, or fewer at the end of the file. Returns the number of bytes, or -1 with errno. */
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

static int refuse_kind(mode_t mode, struct error *error)
{
    return error_set(error, "is %s, expected a regular file",
                     S_ISDIR(mode)    ? "a folder"
                     : S_ISFIFO(mode) ? "a pipe"
                                      : "a device or socket");
}

static int examine(int file, size_t *size, struct error *error)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return error_set(error, "cannot be examined: %s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return refuse_kind(status.st_mode, error);
    *size = (size_t)status.st_size;
    return 0;
}

int file_open(const char *path, size_t *size, struct error *error)
{
    /* Without O_NONBLOCK, opening a pipe that has no writer would wait forever. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return error_set(error, "cannot be opened: %s", strerror(errno));
    if (examine(file, size, error) != 0) {
        close(file);
        return -1;
    }
    return file;
}

int file_read_next(int file, void *bytes, size_t length, struct error *error)
{
    ssize_t count = read_all(file, bytes, length);
    if (count < 0)
        return error_set(error, "cannot be read: %s", strerror(errno));
    if ((size_t)count != length)
        return error_set(error, "became shorter while it was read: expected %zu more bytes, found %zd", length, count);
    return 0;
}

/* Returns the bytes of an open file, followed by a NUL. NULL after an error. */
static char *read_open_file(int file, size_t size, size_t limit, struct error *error)
{
    if (size > limit) {
        error_set(error, "has %zu bytes, expected at most %zu", size, limit);
        return NULL;
    }
    char *bytes = malloc(size + 1);
    if (!bytes) {
        error_set(error, "out of memory: the file needs %zu bytes", size);
        return NULL;
    }
    if (file_read_next(file, bytes, size, error) != 0) {
        free(bytes);
        return NULL;
    }
    bytes[size] = '\0';
    return bytes;
}

char *file_read(const char *path, size_t limit, size_t *length, struct error *error)
{
    char *bytes = NULL;
    int file = file_open(path, length, error);
    if (file >= 0) {
        bytes = read_open_file(file, *length, limit, error);
        close(file);
    }
    if (!bytes)
        error_prefix(error, "%s", path);
    return bytes;
}
