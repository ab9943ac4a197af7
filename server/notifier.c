/* notifier: each message consists of lines of the form NAME=VALUE in one datagram. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "server/notifier.h"

#include "server/common/clock.h"
#include "server/common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_BYTES 512

void notifier_open(struct notifier *notifier)
{
    const char *name = getenv("NOTIFY_SOCKET");
    size_t length = name ? strlen(name) : 0;
    *notifier = (struct notifier){.fd = -1, .address.sun_family = AF_UNIX};
    if (!name)
        return;
    if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof notifier->address.sun_path) {
        log_write(LOG_LEVEL_WARNING, "cannot notify the service manager", "reason",
                  "NOTIFY_SOCKET is not a path or an @name", "found", name, NULL);
        return;
    }
    memcpy(notifier->address.sun_path, name, length);
    if (name[0] == '@') /* the name of an abstract socket, which is not in the file system, begins with a NUL */
        notifier->address.sun_path[0] = '\0';
    notifier->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    notifier->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

void notifier_close(struct notifier *notifier)
{
    if (notifier->fd >= 0)
        close(notifier->fd);
    notifier->fd = -1;
}

/* Sends a message without waiting. If the queue of the service manager is full, the message is lost. */
static void send_message(const struct notifier *notifier, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void send_message(const struct notifier *notifier, const char *format, ...)
{
    char message[MESSAGE_BYTES];
    va_list arguments;
    if (notifier->fd < 0)
        return;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof message)
        length = sizeof message - 1;
    while (sendto(notifier->fd, message, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)&notifier->address, notifier->length) < 0 &&
           errno == EINTR)
        ;
}

void notifier_starting(const struct notifier *notifier, const char *status)
{
    send_message(notifier, "STATUS=%s", status);
}

void notifier_ready(const struct notifier *notifier, const char *status)
{
    send_message(notifier, "READY=1\nSTATUS=%s", status);
}

/* Sends the time, with which the service manager recognises that the message is newer than its own request. */
void notifier_reloading(const struct notifier *notifier)
{
    send_message(notifier, "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(clock_ns() / 1000));
}

void notifier_stopping(const struct notifier *notifier, const char *status)
{
    send_message(notifier, "STOPPING=1\nSTATUS=%s", status);
}

void notifier_feed(const struct notifier *notifier)
{
    send_message(notifier, "WATCHDOG=1");
}
