/* constant: a server that answers each request with the same bytes. Its cost is a lower limit for the daemon's cost. It
 * uses the same HTTP library and the same number of threads. It receives each body, but neither parses nor computes
 * anything.
 *
 *     constant THREADS [LENGTH]    LENGTH bytes an answer (400); prints "listening on http://HOST:PORT" to stderr
 *
 * Without SUSPEND in the environment, the answer is queued on the event loop at once. With SUSPEND, each connection is
 * suspended, and another thread resumes it, as in a server that answers later. */
#define _GNU_SOURCE /* accept4 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MAX_THREADS = 64, MAX_WAITING = 4096 };

static struct MHD_Response *answer;
static bool suspends;

/* Connections that wait for the other thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t added = PTHREAD_COND_INITIALIZER;
static struct MHD_Connection *waiting[MAX_WAITING];
static int n_waiting;

static void *resume(void *argument)
{
    (void)argument;
    for (;;) {
        struct MHD_Connection *taken[MAX_WAITING];
        pthread_mutex_lock(&lock);
        while (n_waiting == 0)
            pthread_cond_wait(&added, &lock);
        int count = n_waiting;
        memcpy(taken, waiting, (size_t)count * sizeof taken[0]);
        n_waiting = 0;
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < count; i++)
            MHD_resume_connection(taken[i]);
    }
    return NULL;
}

/* *state is NULL before the headers of a request, 1 after them, and 2 after the connection was suspended. */
static enum MHD_Result handle(void *unused, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *data_size, void **state)
{
    (void)unused, (void)url, (void)method, (void)version, (void)data;
    if (!*state) {
        *state = (void *)1;
        return MHD_YES;
    }
    if (*data_size > 0) {
        *data_size = 0;
        return MHD_YES;
    }
    if (suspends && *state == (void *)1) {
        *state = (void *)2;
        MHD_suspend_connection(connection);
        pthread_mutex_lock(&lock);
        if (n_waiting == MAX_WAITING)
            abort();
        waiting[n_waiting++] = connection;
        pthread_cond_signal(&added);
        pthread_mutex_unlock(&lock);
        return MHD_YES;
    }
    return MHD_queue_response(connection, MHD_HTTP_OK, answer);
}

static int listen_anywhere(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1024) ||
        getsockname(fd, (struct sockaddr *)&address, &length)) {
        perror("constant");
        exit(1);
    }
    *port = ntohs(address.sin_port);
    return fd;
}

int main(int argc, char **argv)
{
    struct MHD_Daemon *loops[MAX_THREADS];
    int threads = argc > 1 ? atoi(argv[1]) : 0, length = argc > 2 ? atoi(argv[2]) : 400, port;
    if (threads < 1 || threads > MAX_THREADS || length < 0) {
        fprintf(stderr, "usage: constant THREADS [LENGTH]\n");
        return 2;
    }
    char *text = calloc(1, (size_t)length + 1);
    memset(text, '0', (size_t)length);
    answer = MHD_create_response_from_buffer((size_t)length, text, MHD_RESPMEM_MUST_FREE);
    suspends = getenv("SUSPEND") != NULL;
    pthread_t thread;
    if (suspends && pthread_create(&thread, NULL, resume, NULL) != 0)
        return 1;
    for (int i = 0; i < threads; i++) {
        loops[i] = MHD_start_daemon(
            MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL,
            NULL, handle, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_END);
        if (!loops[i])
            return 1;
    }
    int listening = listen_anywhere(&port);
    fprintf(stderr, "listening on http://127.0.0.1:%d\n", port);
    for (int i = 0;; i = (i + 1) % threads) {
        struct sockaddr_in address;
        socklen_t size = sizeof address;
        int fd = accept4(listening, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            MHD_add_connection(loops[i], fd, (struct sockaddr *)&address, size);
    }
}
