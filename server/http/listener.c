/* listener: the sockets that clients connect to, and the thread that accepts. */
#define _GNU_SOURCE /* accept4 */
#include "server/http/listener.h"

#include "server/common/log.h"
#include "server/common/thread.h"

#include <errno.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    MAX_SOCKETS = 8,
    BACKLOG = 4096,        /* the kernel reduces it to net.core.somaxconn */
    PORT_ATTEMPTS = 16,    /* used for port 0, because the port that is free on one address may be in use on the next */
    HANDSHAKE_PAUSE = 100, /* milliseconds to wait for the last handshakes */
    FAILURE_PAUSE = 20,    /* milliseconds to wait if connections cannot be accepted */
};

struct listener {
    struct listener_options options;
    struct pollfd polled[MAX_SOCKETS + 1]; /* the last entry is `stop` */
    int n_sockets;
    int port;
    int stop;               /* an eventfd, which is readable when the thread must end */
    struct log_limit limit; /* for the warning that connections cannot be accepted */
    pthread_t thread;
};

static int address_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

/* Returns a listening socket, or -1 with errno. */
static int listen_on(const struct addrinfo *info, int port)
{
    struct sockaddr_storage address;
    int one = 1, zero = 0;
    memcpy(&address, info->ai_addr, info->ai_addrlen);
    if (info->ai_family == AF_INET6)
        ((struct sockaddr_in6 *)&address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)&address)->sin_port = htons((uint16_t)port);
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, info->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (info->ai_family == AF_INET6) /* "::" accepts IPv4 too, whatever the system's default */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, (struct sockaddr *)&address, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int reason = errno;
        close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

static void close_sockets(struct listener *listener)
{
    while (listener->n_sockets > 0)
        close(listener->polled[--listener->n_sockets].fd);
}

/* Whether the list contains the same address earlier. A resolver may return an address twice. For example, "::1
 * localhost" in a hosts file also yields 127.0.0.1. */
static bool repeated(const struct addrinfo *addresses, const struct addrinfo *info)
{
    for (const struct addrinfo *earlier = addresses; earlier != info; earlier = earlier->ai_next) {
        if (earlier->ai_addrlen == info->ai_addrlen && memcmp(earlier->ai_addr, info->ai_addr, info->ai_addrlen) == 0)
            return true;
    }
    return false;
}

/* Listens on all addresses of the host, on one port. Skips addresses that the machine lacks, if another address works.
 * For example, "localhost" may include ::1 on a machine without IPv6. Returns -1 with errno on failure. */
static int listen_everywhere(struct listener *listener, const struct addrinfo *addresses)
{
    int reason = EAFNOSUPPORT; /* the reason if the host has no IPv4 or IPv6 address */
    listener->port = listener->options.port;
    for (const struct addrinfo *info = addresses; info && listener->n_sockets < MAX_SOCKETS; info = info->ai_next) {
        if ((info->ai_family != AF_INET && info->ai_family != AF_INET6) || repeated(addresses, info))
            continue;
        int fd = listen_on(info, listener->port);
        if (fd < 0 && errno == EADDRINUSE)
            return -1;
        if (fd < 0) {
            reason = errno;
            continue;
        }
        listener->polled[listener->n_sockets++] = (struct pollfd){.fd = fd, .events = POLLIN};
        listener->port = address_port(fd);
    }
    errno = reason;
    return listener->n_sockets > 0 ? 0 : -1;
}

static int open_sockets(struct listener *listener, struct error *error)
{
    const char *host = listener->options.host;
    size_t length = strlen(host);
    char bare[256];
    if (length > 2 && length < sizeof bare && host[0] == '[' && host[length - 1] == ']') { /* brackets as in a URL */
        memcpy(bare, host + 1, length - 2);
        bare[length - 2] = '\0';
        host = bare;
    }
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *addresses = NULL;
    int status = getaddrinfo(host, NULL, &hints, &addresses);
    if (status != 0)
        return error_set(error, "host %s: %s", host, status == EAI_SYSTEM ? strerror(errno) : gai_strerror(status));
    for (int attempt = 1;; attempt++) {
        status = listen_everywhere(listener, addresses);
        if (status == 0 || errno != EADDRINUSE || listener->options.port != 0 || attempt == PORT_ATTEMPTS)
            break;
        close_sockets(listener);
    }
    if (status != 0) {
        error_set(error, "cannot listen on %s port %d: %s", host, listener->options.port, strerror(errno));
        close_sockets(listener);
    }
    freeaddrinfo(addresses);
    return status;
}

/* Accepts all waiting connections. Returns false if accepting failed, so that some may be left. Usual reasons are a
 * lack of descriptors or memory. */
static bool accept_waiting(struct listener *listener, int socket)
{
    for (;;) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        int fd = accept4(socket, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            listener->options.accepted(listener->options.context, fd, (struct sockaddr *)&address, length);
        } else if (errno == EAGAIN) {
            return true; /* no connection waits */
        } else if (errno != ECONNABORTED && errno != EINTR) {
            log_write_limited(&listener->limit, LOG_LEVEL_WARNING, "cannot take a connection", "reason",
                              strerror(errno), NULL);
            return false;
        }
    }
}

/* Makes the kernel drop each SYN packet to the socket. So no new TCP handshake begins, but handshakes in progress can
 * end, and their connections can be accepted. Closing a socket resets its connections that are not accepted yet, whose
 * clients may have sent a request. A client whose SYN is dropped sends it again a second later, and is refused. Without
 * filters in the kernel, a few connections may be reset. */
static void stop_handshakes(int socket)
{
    enum { FLAGS_OFFSET = 13, SYN = 2 }; /* offset and bit in the TCP header, where the data of the filter begins */
    struct sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_OFFSET),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {.len = sizeof instructions / sizeof instructions[0], .filter = instructions};
    setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/* Accepts connections until none has come for HANDSHAKE_PAUSE, or until accepting fails. */
static void take_the_last(struct listener *listener)
{
    bool takes = true;
    for (int i = 0; i < listener->n_sockets; i++)
        stop_handshakes(listener->polled[i].fd);
    do {
        for (int i = 0; i < listener->n_sockets; i++)
            takes = accept_waiting(listener, listener->polled[i].fd) && takes;
    } while (takes && poll(listener->polled, (nfds_t)listener->n_sockets, HANDSHAKE_PAUSE) > 0);
}

static void *listen_thread(void *argument)
{
    struct listener *listener = argument;
    struct pollfd *stop = &listener->polled[listener->n_sockets];
    *stop = (struct pollfd){.fd = listener->stop, .events = POLLIN};
    while (!stop->revents) {
        if (poll(listener->polled, (nfds_t)listener->n_sockets + 1, -1) < 0)
            continue;
        for (int i = 0; i < listener->n_sockets; i++) {
            if (listener->polled[i].revents && !accept_waiting(listener, listener->polled[i].fd))
                /* The socket stays readable, so without a pause the loop would use a whole CPU. */
                poll(stop, 1, FAILURE_PAUSE);
        }
    }
    take_the_last(listener);
    return NULL;
}

int listener_open(const struct listener_options *options, struct listener **opened, struct error *error)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return error_set(error, "out of memory");
    listener->options = *options;
    if (open_sockets(listener, error) != 0)
        goto fail_sockets;
    listener->stop = eventfd(0, EFD_CLOEXEC);
    if (listener->stop < 0) {
        error_set(error, "eventfd: %s", strerror(errno));
        goto fail_stop;
    }
    int status = pthread_create(&listener->thread, NULL, listen_thread, listener);
    if (status != 0) {
        thread_refused("new connections", status, error);
        goto fail_thread;
    }
    *opened = listener;
    return 0;

fail_thread:
    close(listener->stop);
fail_stop:
    close_sockets(listener);
fail_sockets:
    free(listener);
    return -1;
}

int listener_port(const struct listener *listener)
{
    return listener->port;
}

void listener_close(struct listener *listener)
{
    uint64_t one = 1;
    while (write(listener->stop, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(listener->thread, NULL);
    close_sockets(listener);
    close(listener->stop);
    free(listener);
}
