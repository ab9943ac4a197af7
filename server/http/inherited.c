/* inherited: reads the variables that the service manager has set, and checks the descriptors. */
#include "server/http/inherited.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST_DESCRIPTOR = 3 };

int inherited_descriptor(int index)
{
    return FIRST_DESCRIPTOR + index;
}

const char *inherited_name(int index, char name[INHERITED_NAME_BYTES])
{
    const char *at = getenv("LISTEN_FDNAMES");
    for (; at && index > 0; index--) {
        at = strchr(at, ':');
        at = at ? at + 1 : NULL;
    }
    size_t length = at ? strcspn(at, ":") : 0;
    snprintf(name, INHERITED_NAME_BYTES, "%.*s", length > 0 ? (int)length : 7, length > 0 ? at : "unknown");
    return name;
}

/* Reads a whole number from 0 to INT32_MAX, as strtol does. Returns false if the text is something else. */
static bool read_number(const char *text, long *number)
{
    char *end = NULL;
    errno = 0;
    *number = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *number >= 0 && *number <= INT32_MAX;
}

static bool is_listening(int fd)
{
    int accepts = 0, type = 0;
    socklen_t length = sizeof accepts;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &length) != 0 || !accepts)
        return false;
    length = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
}

static int check_descriptor(int index, struct error *error)
{
    int fd = inherited_descriptor(index);
    char name[INHERITED_NAME_BYTES];
    if (!is_listening(fd))
        return error_set(error, "LISTEN_FDS: descriptor %d (%s) is not a listening stream socket", fd,
                         inherited_name(index, name));
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        return error_set(error, "LISTEN_FDS: descriptor %d (%s): %s", fd, inherited_name(index, name), strerror(errno));
    return 0;
}

int inherited_sockets(int limit, int *count, struct error *error)
{
    const char *process = getenv("LISTEN_PID"), *sockets = getenv("LISTEN_FDS");
    long number = 0;
    *count = 0;
    if (!process || !sockets)
        return 0;
    if (!read_number(process, &number))
        return error_set(error, "LISTEN_PID is '%.100s', the number of a process was expected", process);
    if (number != (long)getpid())
        return 0;
    if (!read_number(sockets, &number) || number > limit)
        return error_set(error, "LISTEN_FDS is '%.100s', a number from 0 to %d was expected", sockets, limit);
    for (int i = 0; i < (int)number; i++)
        if (check_descriptor(i, error) != 0)
            return -1;
    *count = (int)number;
    return 0;
}
