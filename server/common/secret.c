#define _GNU_SOURCE /* explicit_bzero */
#include "server/common/secret.h"

#include "server/common/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OPEN_TO_OTHERS (S_IROTH | S_IWOTH | S_IWGRP)

char *secret_read(const char *path, size_t limit, size_t *length, struct error *error)
{
    struct stat status;
    char mode[8];
    if (stat(path, &status) == 0 && (status.st_mode & OPEN_TO_OTHERS) != 0) {
        snprintf(mode, sizeof mode, "%04o", (unsigned int)status.st_mode & 07777);
        log_write(LOG_LEVEL_WARNING, "other users can access a file with secrets", "file", path, "mode", mode, NULL);
    }
    return file_read(path, limit, length, error);
}

void secret_free(char *text, size_t length)
{
    if (text)
        explicit_bzero(text, length);
    free(text);
}
