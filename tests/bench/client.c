/* client: sends requests to a server on this machine for SECONDS, over CONNECTIONS connections. Each connection sends
 * its next request as soon as the answer to its last request is complete.
 *
 *     client PORT PATH CONNECTIONS SECONDS MIN_LENGTH MAX_LENGTH VOCABULARY [ANSWERS_EACH]
 *
 * Requests are POST PATH {"inputs": [[ids]]}. Their lengths are log-uniformly distributed from MIN_LENGTH to
 * MAX_LENGTH, in the same order at each run. The client has one thread, and builds the bodies of requests beforehand.
 * With ANSWERS_EACH, the client continues after SECONDS, until each unbroken connection has received ANSWERS_EACH
 * answers. Afterwards it waits for the answers to open requests, at most DRAIN_S after the last request began. So slow
 * answers also count.
 *
 * For each answer with status 200, it prints a line "FINISHED_US LATENCY_US TOKENS", with times from the start. The
 * last line is "errors N". */
#define _GNU_SOURCE /* strcasestr */
#include "tests/unit/tensors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MAX_LENGTH 65536
#define DRAIN_S 120
#define HEAD_BYTES 4096
#define EVENTS 256

static const char body_begin[] = "{\"inputs\": [[", body_end[] = "]]}";

struct connection {
    int fd; /* -1: the connection is broken */
    char request_head[256];
    size_t request_head_bytes, request_bytes, sent;
    char head[HEAD_BYTES]; /* head of the answer, ends with a zero byte */
    size_t head_bytes;
    size_t body_left;
    bool in_body, under_way; /* in_body: the body is being received. under_way: an answer is outstanding */
    int64_t tokens, began_us, answers;
};

static struct {
    int port, epoll;
    const char *path;
    double seconds;
    int64_t min_length, max_length;
    char *ids;           /* random ids as text, separated by commas. The first ends[n] bytes are n ids */
    size_t *ends;        /* max_length + 1 values */
    int64_t began_us;    /* time of the start, CLOCK_MONOTONIC */
    int64_t n_under_way; /* number of open requests */
    int64_t last_us;     /* time when the last request began, CLOCK_MONOTONIC */
    int64_t answers_each;
    int64_t n_wanting; /* number of connections with fewer answers than answers_each */
    int64_t errors;
} client;

static int64_t now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void die(const char *what)
{
    fprintf(stderr, "client: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void make_ids(int64_t vocabulary)
{
    size_t at = 0;
    client.ids = malloc((size_t)client.max_length * 12);
    client.ends = calloc((size_t)client.max_length + 1, sizeof *client.ends);
    if (!client.ids || !client.ends)
        die("ids");
    for (int64_t n = 1; n <= client.max_length; n++) {
        at += (size_t)sprintf(client.ids + at, "%s%d", n > 1 ? "," : "", (int)random_size(0, vocabulary - 1));
        client.ends[n] = at;
    }
}

static int64_t next_length(void)
{
    double uniform = (double)(random_next() >> 11) * 0x1p-53, low = (double)client.min_length;
    return (int64_t)(low * exp(uniform * log((double)client.max_length / low)) + 0.5);
}

/* ---- Connections ---- */

/* A server may close a connection that has no open request. uvicorn does this after five seconds. The client does not
 * count this as an error. */
static void connection_break(struct connection *connection)
{
    client.errors += connection->under_way;
    client.n_under_way -= connection->under_way;
    client.n_wanting -= connection->under_way && connection->answers < client.answers_each;
    connection->under_way = false;
    close(connection->fd);
    connection->fd = -1;
}

static void watch(struct connection *connection, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};
    if (epoll_ctl(client.epoll, operation, connection->fd, &event) != 0)
        die("epoll_ctl");
}

static void connection_open(struct connection *connection)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)client.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("connect");
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    watch(connection, EPOLL_CTL_ADD, EPOLLIN);
}

/* Sends the rest of the request. Bodies are parts of one text, which does not change. */
static void connection_send(struct connection *connection)
{
    struct iovec parts[] = {{connection->request_head, connection->request_head_bytes},
                            {(void *)body_begin, sizeof body_begin - 1},
                            {client.ids, client.ends[connection->tokens]},
                            {(void *)body_end, sizeof body_end - 1}};
    size_t skip = connection->sent;
    for (int i = 0; i < 4; i++) {
        size_t cut = skip < parts[i].iov_len ? skip : parts[i].iov_len;
        parts[i].iov_base = (char *)parts[i].iov_base + cut;
        parts[i].iov_len -= cut;
        skip -= cut;
    }
    ssize_t sent = writev(connection->fd, parts, 4);
    if (sent < 0 && errno != EAGAIN) {
        connection_break(connection);
        return;
    }
    connection->sent += sent > 0 ? (size_t)sent : 0;
    watch(connection, EPOLL_CTL_MOD, connection->sent < connection->request_bytes ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void request_begin(struct connection *connection)
{
    connection->tokens = next_length();
    size_t body = sizeof body_begin - 1 + client.ends[connection->tokens] + sizeof body_end - 1;
    connection->request_head_bytes =
        (size_t)snprintf(connection->request_head, sizeof connection->request_head,
                         "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         "Content-Length: %zu\r\n\r\n",
                         client.path, body);
    connection->request_bytes = connection->request_head_bytes + body;
    connection->sent = 0;
    connection->head_bytes = 0;
    connection->in_body = false;
    connection->began_us = client.last_us = now_us();
    client.n_under_way++;
    connection->under_way = true;
    connection_send(connection);
}

static void request_end(struct connection *connection)
{
    int64_t now = now_us();
    client.n_under_way--;
    connection->under_way = false;
    client.n_wanting -= ++connection->answers == client.answers_each;
    if (strncmp(connection->head, "HTTP/1.1 200 ", 13) == 0)
        printf("%lld %lld %lld\n", (long long)(now - client.began_us), (long long)(now - connection->began_us),
               (long long)connection->tokens);
    else
        client.errors++;
    if ((double)(now - client.began_us) * 1e-6 < client.seconds || client.n_wanting > 0)
        request_begin(connection);
}

/* Looks for the end of the head. Returns the number of bytes that belong to the head, or -1 if the client does not
 * understand the answer. */
static ssize_t read_head(struct connection *connection, const char *bytes, size_t count)
{
    size_t before = connection->head_bytes, room = HEAD_BYTES - 1 - before;
    size_t taken = count < room ? count : room;
    memcpy(connection->head + before, bytes, taken);
    connection->head[before + taken] = '\0';
    connection->head_bytes += taken;
    const char *end = strstr(connection->head, "\r\n\r\n");
    if (!end)
        return taken == count ? (ssize_t)taken : -1;
    const char *length = strcasestr(connection->head, "\r\nContent-Length:");
    if (!length || length > end)
        return -1;
    connection->body_left = strtoull(length + 17, NULL, 10);
    connection->in_body = true;
    return end + 4 - connection->head - (ssize_t)before;
}

static void connection_read(struct connection *connection)
{
    char bytes[65536];
    ssize_t count = read(connection->fd, bytes, sizeof bytes);
    if (count <= 0) {
        if (count == 0 || errno != EAGAIN)
            connection_break(connection);
        return;
    }
    ssize_t used = connection->in_body ? 0 : read_head(connection, bytes, (size_t)count);
    size_t left = (size_t)(count - used);
    if (used < 0 || (connection->in_body && left > connection->body_left)) {
        connection_break(connection);
        return;
    }
    connection->body_left -= connection->in_body ? left : 0;
    if (connection->in_body && connection->body_left == 0)
        request_end(connection);
}

static int read_arguments(int argc, char **argv, int64_t *connections)
{
    if (argc != 8 && argc != 9) {
        fprintf(stderr,
                "usage: client PORT PATH CONNECTIONS SECONDS MIN_LENGTH MAX_LENGTH VOCABULARY [ANSWERS_EACH]\n");
        return -1;
    }
    *connections = atoll(argv[3]);
    client.port = atoi(argv[1]);
    client.path = argv[2];
    client.seconds = atof(argv[4]);
    client.min_length = atoll(argv[5]);
    client.max_length = atoll(argv[6]);
    int64_t vocabulary = atoll(argv[7]);
    client.answers_each = argc > 8 ? atoll(argv[8]) : 0;
    client.n_wanting = client.answers_each > 0 ? *connections : 0;
    if (*connections < 1 || client.min_length < 1 || client.max_length < client.min_length ||
        client.max_length > MAX_LENGTH || vocabulary < 1 || vocabulary > INT32_MAX || strlen(client.path) > 64) {
        fprintf(stderr, "client: expected at least one connection, 1 <= MIN_LENGTH <= MAX_LENGTH <= %d\n", MAX_LENGTH);
        return -1;
    }
    random_seed(1);
    make_ids(vocabulary);
    return 0;
}

/* Handles events until no request is open, or until DRAIN_S is over. */
static void serve_events(void)
{
    struct epoll_event events[EVENTS];
    while (client.n_under_way > 0 && now_us() < client.last_us + DRAIN_S * INT64_C(1000000)) {
        int ready = epoll_wait(client.epoll, events, EVENTS, 1000);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                connection_send(connection);
            if (connection->fd >= 0 && events[i].events & ~(uint32_t)EPOLLOUT)
                connection_read(connection);
        }
    }
}

int main(int argc, char **argv)
{
    struct rlimit files;
    int64_t count;
    if (read_arguments(argc, argv, &count) != 0)
        return 2;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    client.epoll = epoll_create1(0);
    struct connection *connections = calloc((size_t)count, sizeof *connections);
    if (!connections || client.epoll < 0)
        die("connections");
    for (int64_t i = 0; i < count; i++)
        connection_open(&connections[i]);
    client.began_us = now_us();
    for (int64_t i = 0; i < count; i++)
        request_begin(&connections[i]);
    serve_events();
    printf("errors %lld\n", (long long)(client.errors + client.n_under_way));
    return 0;
}
