/* notifier: tells the service manager the state of the daemon, as sd_notify(3) does. The messages go to the Unix
 * datagram socket that NOTIFY_SOCKET names. Any thread may call the functions below. */
#ifndef SERVER_NOTIFIER_H
#define SERVER_NOTIFIER_H

#include "config/config.h"

#include <sys/socket.h>
#include <sys/un.h>

struct notifier {
    int fd; /* descriptor of the socket. -1 if no service manager listens */
    struct sockaddr_un address;
    socklen_t length;
};

/* If NOTIFY_SOCKET is missing, the functions below do nothing. A name that is not the address of a Unix socket is
 * logged and ignored. The caller must call notifier_close. */
void notifier_open(struct notifier *notifier);
void notifier_close(struct notifier *notifier);

/* Each function below sends one message. `status` is a sentence for people. */
void notifier_starting(const struct notifier *notifier, const char *status);
void notifier_ready(const struct notifier *notifier, const char *status);
void notifier_reloading(const struct notifier *notifier);
void notifier_stopping(const struct notifier *notifier, const char *status);
void notifier_feed(const struct notifier *notifier); /* restarts the watchdog of the service manager */

#endif
