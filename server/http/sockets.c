/* sockets: opening, retiring and closing the sockets that clients connect to. */
#define _GNU_SOURCE /* SOCK_NONBLOCK */
#include "server/http/sockets.h"

#include "server/http/inherited.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BACKLOG = 4096,     /* requested length of the queue of connections. The kernel limits it to net.core.somaxconn */
    PORT_ATTEMPTS = 16, /* number of attempts to find a free port if the setting is 0. A port that is free on one
                           address may be in use on the next */
};

#define UNIX_PREFIX "unix:"

static struct listening_socket *add_socket(struct sockets *sockets, int fd)
{
    struct listening_socket *added = &sockets->list[sockets->count++];
    *added = (struct listening_socket){.fd = fd};
    return added;
}

static void add_name(struct sockets *sockets, const char *host, int port)
{
    bool brackets = strchr(host, ':') != NULL && host[0] != '[';
    snprintf(sockets->names[sockets->n_names++], SOCKET_NAME_BYTES, "%s%.250s%s:%d", brackets ? "[" : "", host,
             brackets ? "]" : "", port);
}

static void close_keeping_errno(int fd)
{
    int reason = errno;
    close(fd);
    errno = reason;
}

/* ---- TCP ---- */

static int address_port(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

static int socket_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    return getsockname(fd, (struct sockaddr *)&address, &length) == 0 ? address_port(&address) : 0;
}

/* Returns a listening socket, or -1 and sets errno. */
static int listen_on(const struct addrinfo *info, int port, bool reuse_port)
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
    if (info->ai_family == AF_INET6) /* "::" also accepts IPv4, whatever the system's default is */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if ((reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0) ||
        bind(fd, (struct sockaddr *)&address, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        close_keeping_errno(fd);
        return -1;
    }
    return fd;
}

/* Whether an earlier entry of the list has the same address. A resolver may return an address twice. For example, "::1
 * localhost" in a hosts file also yields 127.0.0.1. */
static bool repeated(const struct addrinfo *addresses, const struct addrinfo *info)
{
    for (const struct addrinfo *earlier = addresses; earlier != info; earlier = earlier->ai_next) {
        if (earlier->ai_addrlen == info->ai_addrlen && memcmp(earlier->ai_addr, info->ai_addr, info->ai_addrlen) == 0)
            return true;
    }
    return false;
}

/* Listens on all addresses of a host, on one port. Skips addresses that fail, except with EADDRINUSE, if at least one
 * address works. For example, "localhost" may include ::1 on a machine without IPv6. On failure returns -1 and sets
 * errno. */
static int listen_everywhere(const struct sockets_options *options, const struct addrinfo *addresses,
                             struct sockets *sockets)
{
    int reason = EAFNOSUPPORT; /* returned in errno if the host has neither an IPv4 nor an IPv6 address */
    int before = sockets->count;
    for (const struct addrinfo *info = addresses; info && sockets->count < SOCKETS_MAX; info = info->ai_next) {
        if ((info->ai_family != AF_INET && info->ai_family != AF_INET6) || repeated(addresses, info))
            continue;
        int fd = listen_on(info, sockets->port, options->reuse_port);
        if (fd < 0 && errno == EADDRINUSE)
            return -1;
        if (fd < 0) {
            reason = errno;
            continue;
        }
        add_socket(sockets, fd);
        sockets->port = socket_port(fd);
    }
    errno = reason;
    return sockets->count > before ? 0 : -1;
}

/* Opens the TCP sockets of one host. On failure returns -1 and sets errno. errno is 0 if the name of the host cannot be
 * resolved. */
static int open_host(const struct sockets_options *options, const char *host, struct sockets *sockets,
                     struct error *error)
{
    size_t length = strlen(host);
    char bare[256];
    const char *name = host;
    /* A URL contains IPv6 addresses in brackets. */
    if (length > 2 && length < sizeof bare && host[0] == '[' && host[length - 1] == ']') {
        memcpy(bare, host + 1, length - 2);
        bare[length - 2] = '\0';
        name = bare;
    }
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *addresses = NULL;
    int status = getaddrinfo(name, NULL, &hints, &addresses);
    if (status != 0) {
        error_set(error, "host %s: %s", host, status == EAI_SYSTEM ? strerror(errno) : gai_strerror(status));
        errno = 0;
        return -1;
    }
    status = listen_everywhere(options, addresses, sockets);
    int reason = errno;
    freeaddrinfo(addresses);
    if (status != 0)
        error_set(error, "cannot listen on %s port %d: %s", host, options->port, strerror(reason));
    else
        add_name(sockets, host, sockets->port);
    errno = reason;
    return status;
}

/* ---- Unix sockets ---- */

static int unix_address(const char *path, struct sockaddr_un *address, struct error *error)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (*path == '\0' || strlen(path) >= sizeof address->sun_path)
        return error_set(error, "the path of the Unix socket is '%s', 1 to %zu bytes were expected", path,
                         sizeof address->sun_path - 1);
    memcpy(address->sun_path, path, strlen(path));
    return 0;
}

/* Whether a process listens on the Unix socket. EAGAIN of connect means that a process listens, but the queue of the
 * socket is full. */
static bool somebody_listens(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    bool listens = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN;
    close(fd);
    return listens;
}

/* Checks that nothing exists at the path, or a Unix socket that may be replaced. */
static int check_path(const struct sockets_options *options, const struct sockaddr_un *address, struct error *error)
{
    const char *path = address->sun_path;
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? 0 : error_set(error, "Unix socket %s: %s", path, strerror(errno));
    if (!S_ISSOCK(status.st_mode))
        return error_set(error, "Unix socket %s: the path exists, and is not a socket", path);
    if (!options->reuse_port && somebody_listens(address))
        return error_set(error, "Unix socket %s: another process listens on it", path);
    return 0;
}

/* Opens a socket that listens on `temporary`, with the permissions of the options. Returns -1 and sets errno on
 * failure. */
static int listen_at(const struct sockets_options *options, const struct sockaddr_un *temporary)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    unlink(temporary->sun_path); /* an earlier process with the same id may have left the file */
    if (bind(fd, (const struct sockaddr *)temporary, sizeof *temporary) != 0) {
        close_keeping_errno(fd);
        return -1;
    }
    /* No client can connect before `listen`. So the permissions of the umask, which apply until chmod, admit no
     * client. */
    if (chmod(temporary->sun_path, (mode_t)options->unix_mode) != 0 || listen(fd, BACKLOG) != 0) {
        close_keeping_errno(fd);
        unlink(temporary->sun_path);
        return -1;
    }
    return fd;
}

/* Opens a Unix socket under a temporary name, and then renames it. So the path always belongs to a socket that listens,
 * even while a new daemon replaces the socket of an old daemon. */
static int open_unix(const struct sockets_options *options, const char *path, struct sockets *sockets,
                     struct error *error)
{
    struct sockaddr_un address, temporary;
    char name[SOCKET_PATH_BYTES + 16];
    struct stat status;
    snprintf(name, sizeof name, "%.*s.%ld", (int)SOCKET_PATH_BYTES, path, (long)getpid());
    if (unix_address(path, &address, error) != 0 || check_path(options, &address, error) != 0)
        return -1;
    if (unix_address(name, &temporary, error) != 0)
        return error_prefix(error, "Unix socket %s is first created under a longer name", path);
    int fd = listen_at(options, &temporary);
    if (fd < 0)
        return error_set(error, "Unix socket %s: %s", path, strerror(errno));
    if (stat(name, &status) != 0 || rename(name, path) != 0) {
        error_set(error, "Unix socket %s: %s", path, strerror(errno));
        close(fd);
        unlink(name);
        return -1;
    }
    struct listening_socket *added = add_socket(sockets, fd);
    memcpy(added->path, address.sun_path, sizeof added->path);
    added->device = status.st_dev;
    added->inode = status.st_ino;
    snprintf(sockets->names[sockets->n_names++], SOCKET_NAME_BYTES, UNIX_PREFIX "%s", path);
    return 0;
}

/* ---- Sockets of the service manager ---- */

static void name_inherited(int index, struct sockets *sockets)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    char text[INET6_ADDRSTRLEN] = "";
    getsockname(inherited_descriptor(index), (struct sockaddr *)&address, &length);
    if (address.ss_family == AF_UNIX) {
        const struct sockaddr_un *local = (const struct sockaddr_un *)&address;
        snprintf(sockets->names[sockets->n_names++], SOCKET_NAME_BYTES, UNIX_PREFIX "%.*s",
                 (int)(length - offsetof(struct sockaddr_un, sun_path)), local->sun_path);
        return;
    }
    const void *host = address.ss_family == AF_INET6 ? (const void *)&((struct sockaddr_in6 *)&address)->sin6_addr
                                                     : (const void *)&((struct sockaddr_in *)&address)->sin_addr;
    inet_ntop(address.ss_family, host, text, sizeof text);
    add_name(sockets, text, address_port(&address));
    sockets->port = sockets->port ? sockets->port : address_port(&address);
}

/* Opens the inherited sockets. Sets *count to their number, which is 0 if there are none. */
static int inherit(struct sockets *sockets, int *count, struct error *error)
{
    if (inherited_sockets(SOCKETS_MAX, count, error) != 0)
        return -1;
    for (int i = 0; i < *count; i++) {
        add_socket(sockets, inherited_descriptor(i))->inherited = true;
        name_inherited(i, sockets);
    }
    return 0;
}

/* ---- All of them ---- */

/* Opens the sockets of each host in the list. On failure, *taken tells whether a port was already in use. */
static int open_hosts(const struct sockets_options *options, struct sockets *sockets, bool *taken, struct error *error)
{
    const char *at = options->hosts;
    *taken = false;
    sockets->port = options->port;
    for (bool more = true; more; at++) {
        char host[256];
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof host || sockets->count == SOCKETS_MAX)
            return error_set(error,
                             "host '%.100s': a list of 1 to %d addresses was expected, each with 1 to %zu characters",
                             options->hosts, SOCKETS_MAX, sizeof host - 1);
        memcpy(host, at, length);
        host[length] = '\0';
        at += length;
        more = *at == ',';
        bool is_unix = strncmp(host, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
        int status = is_unix ? open_unix(options, host + strlen(UNIX_PREFIX), sockets, error)
                             : open_host(options, host, sockets, error);
        if (status != 0) {
            *taken = !is_unix && errno == EADDRINUSE;
            return -1;
        }
    }
    return 0;
}

int sockets_open(const struct sockets_options *options, struct sockets *sockets, struct error *error)
{
    int inherited = 0;
    *sockets = (struct sockets){.shared = options->reuse_port};
    if (inherit(sockets, &inherited, error) != 0)
        return -1;
    if (inherited > 0) {
        sockets->shared = true;
        return 0;
    }
    for (int attempt = 1;; attempt++) {
        bool taken = false;
        if (open_hosts(options, sockets, &taken, error) == 0)
            break;
        sockets_retire(sockets);
        sockets_close(sockets);
        if (!taken || options->port != 0 || attempt == PORT_ATTEMPTS)
            return -1;
    }
    bool tcp = false;
    for (int i = 0; i < sockets->count; i++)
        tcp = tcp || !sockets->list[i].path[0];
    sockets->port = tcp ? sockets->port : 0;
    return 0;
}

/* Makes the kernel drop each SYN packet to the socket. So no new TCP handshake begins, but handshakes in progress can
 * end, and their connections can be accepted. This matters because closing a socket resets connections that are not
 * accepted yet, and their clients may already have sent a request. A client whose SYN is dropped sends it again a
 * second later. By then another process accepts the connection, or the socket is closed and the connection is refused.
 * If the kernel supports no such filters, a few connections may be reset. */
static void stop_handshakes(int socket)
{
    /* Offset and bit of the flag SYN in the TCP header. The data of the filter begin with this header. */
    enum { FLAGS_OFFSET = 13, SYN = 2 };
    struct sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_OFFSET),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {.len = sizeof instructions / sizeof instructions[0], .filter = instructions};
    setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/* Removes the file of a Unix socket, unless another daemon has replaced the file. */
static void remove_file(const struct listening_socket *socket)
{
    struct stat status;
    if (lstat(socket->path, &status) == 0 && status.st_dev == socket->device && status.st_ino == socket->inode)
        unlink(socket->path);
}

void sockets_retire(struct sockets *sockets)
{
    for (int i = 0; i < sockets->count; i++) {
        const struct listening_socket *socket = &sockets->list[i];
        if (socket->path[0])
            remove_file(socket);
        else if (!socket->inherited) /* the next process also uses an inherited socket, and must still receive SYN
                                        packets */
            stop_handshakes(socket->fd);
    }
}

void sockets_close(struct sockets *sockets)
{
    while (sockets->count > 0)
        close(sockets->list[--sockets->count].fd);
    sockets->n_names = 0;
}
