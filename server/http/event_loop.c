/* event_loop: the lock guards the inbox. Other threads access the loop, and write its eventfd, only while they hold the
 * lock. So the loop cannot be freed while another thread still uses it.
 *
 * libmicrohttpd 0.9.75 and 1.0.1 may miss that a client has left. They watch a socket in edge-triggered mode, and stop
 * reading after a read that did not fill the buffer. If the last bytes of a client and the end of its stream arrive
 * together, this read returns only the bytes. No further event follows, so the end stays unread until the connection
 * times out.
 *
 * So each socket is also in `leaving`, a second epoll set that waits only for the end of the stream (EPOLLRDHUP). The
 * set costs nothing while all clients stay. For each socket that it reports, the loop calls shutdown(SHUT_RD). The
 * shutdown causes a new event, and libmicrohttpd continues to read. A client that has closed only its sending half
 * loses nothing. The bytes that have arrived can still be read, and the answer can still be written.
 *
 * `leaving` is level-triggered: it reports a socket until the socket is closed. So if libmicrohttpd also misses the new
 * event, another shutdown follows. The socket of a half-closed client that waits for its answer is reported all the
 * time. LEAVING_PAUSE_NS limits how often the set is read.
 *
 * libmicrohttpd 0.9.75 runs a TLS handshake again and again while the client has not sent its next bytes, because it
 * keeps the socket marked as readable. So a client that pauses in its handshake would use a whole CPU. If a handshake
 * is in progress and QUIET_TURNS turns brought no event, the loop waits a millisecond in each turn. */
#define _GNU_SOURCE /* pthread_setname_np, EPOLLRDHUP */
#include "server/http/event_loop.h"

#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/common/thread.h"
#include "server/http/tls.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    LEAVING_AT_ONCE = 1024, /* maximum number of events that one read of `leaving` returns */
    QUIET_TURNS = 32,
};
#define LEAVING_PAUSE_NS INT64_C(100000000)

struct arrival {
    struct arrival *next;
    int descriptor;
    int64_t number;
    socklen_t length;
    struct sockaddr_storage address;
};

struct inbox {
    struct arrival *arrivals, **arrivals_end;
    struct resumption *resumptions, **resumptions_end;
    bool closing;
};

struct event_loop {
    struct event_loop_options options;
    struct MHD_Daemon *daemon;
    pthread_t thread;

    /* Only the thread of the loop uses the members from here to `quiet_turns`. */
    int leaving;               /* an epoll set of all sockets of the loop, only for EPOLLRDHUP */
    int64_t look_ns;           /* time at which `leaving` is read again. 0 if its events wake the thread */
    struct epoll_event *ended; /* the events of `leaving`, an array of LEAVING_AT_ONCE elements */
    int handshakes;            /* number of TLS handshakes in progress */
    int quiet_turns; /* number of turns in a row that brought no event, although libmicrohttpd wanted to run again at
                        once */

    pthread_mutex_t lock;
    struct inbox inbox;
    int wake;   /* an eventfd, which is readable while `woken` is true */
    bool woken; /* `wake` was written, because the thread must read the inbox, or because event_loop_turns has asked for
                   a turn */
    int64_t asked, answered; /* number of calls of event_loop_turns that asked for a turn, and how many of them a turn
                                has answered */
};

static void log_message(void *context, const char *format, va_list arguments)
{
    (void)context;
    if (!log_enabled(LOG_LEVEL_DEBUG))
        return;
    char message[512];
    vsnprintf(message, sizeof message, format, arguments);
    size_t length = strlen(message);
    while (length > 0 && message[length - 1] == '\n')
        message[--length] = '\0';
    log_write(LOG_LEVEL_DEBUG, "libmicrohttpd", "message", message, NULL);
}

/* ---- The inbox ---- */

static void inbox_clear(struct inbox *inbox)
{
    *inbox = (struct inbox){.closing = inbox->closing};
    inbox->arrivals_end = &inbox->arrivals;
    inbox->resumptions_end = &inbox->resumptions;
}

/* Wakes the loop's thread. The lock is held. */
static void wake(struct event_loop *loop)
{
    uint64_t one = 1;
    while (!loop->woken && write(loop->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
    loop->woken = true;
}

static struct inbox take_inbox(struct event_loop *loop)
{
    uint64_t count = 0;
    pthread_mutex_lock(&loop->lock);
    struct inbox taken = loop->inbox;
    inbox_clear(&loop->inbox);
    while (loop->woken && read(loop->wake, &count, sizeof count) < 0 && errno == EINTR)
        ;
    loop->woken = false;
    loop->answered = loop->asked;
    pthread_mutex_unlock(&loop->lock);
    return taken;
}

void event_loop_add(struct event_loop *loop, int descriptor, int64_t number, const struct sockaddr *address,
                    socklen_t length)
{
    struct arrival *arrival = malloc(sizeof *arrival);
    if (!arrival || length > sizeof arrival->address) {
        free(arrival);
        close(descriptor);
        loop->options.lost(loop->options.context, descriptor, number);
        return;
    }
    *arrival = (struct arrival){.descriptor = descriptor, .number = number, .length = length};
    memcpy(&arrival->address, address, length);
    pthread_mutex_lock(&loop->lock);
    *loop->inbox.arrivals_end = arrival;
    loop->inbox.arrivals_end = &arrival->next;
    wake(loop);
    pthread_mutex_unlock(&loop->lock);
}

void event_loop_resume(struct event_loop *loop, struct resumption *resumption)
{
    resumption->next = NULL;
    pthread_mutex_lock(&loop->lock);
    *loop->inbox.resumptions_end = resumption;
    loop->inbox.resumptions_end = &resumption->next;
    wake(loop);
    pthread_mutex_unlock(&loop->lock);
}

bool event_loop_turns(struct event_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool turns = loop->answered == loop->asked;
    if (turns) {
        loop->asked++;
        wake(loop);
    }
    pthread_mutex_unlock(&loop->lock);
    return turns;
}

/* ---- The thread ---- */

static void add_arrivals(struct event_loop *loop, struct arrival *first)
{
    for (struct arrival *arrival = first, *next; arrival; arrival = next) {
        next = arrival->next;
        if (MHD_add_connection(loop->daemon, arrival->descriptor, (struct sockaddr *)&arrival->address,
                               arrival->length) != MHD_YES)
            loop->options.lost(loop->options.context, arrival->descriptor, arrival->number);
        free(arrival);
    }
}

static void resume_connections(struct resumption *first)
{
    for (struct resumption *resumption = first, *next; resumption; resumption = next) {
        next = resumption->next;
        MHD_resume_connection(resumption->connection);
    }
}

/* Makes libmicrohttpd read the end of the connections whose clients have left. */
static void end_leaving(struct event_loop *loop)
{
    int64_t now = clock_ns();
    if (now < loop->look_ns)
        return;
    int count = epoll_wait(loop->leaving, loop->ended, LEAVING_AT_ONCE, 0);
    for (int i = 0; i < count; i++)
        shutdown(loop->ended[i].data.fd, SHUT_RD);
    loop->look_ns = count > 0 ? now + LEAVING_PAUSE_NS : 0;
}

/* The time that the thread may wait, in milliseconds: until libmicrohttpd's next timeout, or until `leaving` is read
 * again. -1 means no limit. */
static int wait_ms(const struct event_loop *loop)
{
    MHD_UNSIGNED_LONG_LONG milliseconds = 0;
    int timeout_ms = -1;
    if (MHD_get_timeout(loop->daemon, &milliseconds) == MHD_YES)
        timeout_ms = milliseconds < INT_MAX ? (int)milliseconds : INT_MAX;
    if (loop->look_ns > 0) {
        int64_t left_ms = (loop->look_ns - clock_ns()) / 1000000 + 1;
        left_ms = left_ms > 0 ? left_ms : 0;
        timeout_ms = timeout_ms < 0 || left_ms < timeout_ms ? (int)left_ms : timeout_ms;
    }
    return timeout_ms;
}

static void wait_for_events(struct event_loop *loop)
{
    struct pollfd polled[] = {
        {.fd = MHD_get_daemon_info(loop->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN},
        {.fd = loop->wake, .events = POLLIN},
        {.fd = loop->look_ns > 0 ? -1 : loop->leaving, .events = POLLIN}, /* poll ignores the descriptor -1 */
    };
    int timeout_ms = wait_ms(loop);
    loop->quiet_turns = timeout_ms == 0 && loop->handshakes > 0 ? loop->quiet_turns + 1 : 0;
    if (loop->quiet_turns > QUIET_TURNS)
        timeout_ms = 1;
    if (timeout_ms != 0 && poll(polled, sizeof polled / sizeof polled[0], timeout_ms) > 0)
        loop->quiet_turns = 0;
}

static void *run_loop(void *argument)
{
    struct event_loop *loop = argument;
    tls_use_on_thread(loop->options.tls);
    for (;;) {
        wait_for_events(loop);
        struct inbox inbox = take_inbox(loop);
        if (inbox.closing) {
            /* Callers of event_loop_close guarantee that the inbox is empty. The loop would lose its entries. */
            assert(!inbox.arrivals && !inbox.resumptions);
            break;
        }
        add_arrivals(loop, inbox.arrivals);
        resume_connections(inbox.resumptions);
        MHD_run(loop->daemon);
        end_leaving(loop);
    }
    return NULL;
}

/* Adds a new socket to `leaving`, or removes a socket whose connection has ended. Closing the socket would not remove
 * it, because a copy of the descriptor may stay open (linger.h). When this copy is closed, the number of the descriptor
 * may belong to another connection. */
static void socket_changed(void *argument, struct MHD_Connection *connection, void **socket_context,
                           enum MHD_ConnectionNotificationCode code)
{
    struct event_loop *loop = argument;
    int descriptor = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct epoll_event event = {.events = EPOLLRDHUP, .data.fd = descriptor};
    bool started = code == MHD_CONNECTION_NOTIFY_STARTED;
    if (started && loop->options.tls)
        *socket_context = tls_handshake_begin(connection, &loop->handshakes);
    else if (!started)
        tls_handshake_forget(*socket_context);
    /* If memory is lacking for an entry of the set, the daemon may notice the end of this client's stream only when the
     * connection times out. */
    epoll_ctl(loop->leaving, started ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, descriptor, &event);
    loop->options.changed(loop, connection, socket_context, code);
}

/* ---- Opening and closing ---- */

static struct MHD_Daemon *start_daemon(struct event_loop *loop)
{
    static const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    const struct event_loop_options *options = &loop->options;
    unsigned int flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(flags | (options->tls ? MHD_USE_TLS : 0), 0, NULL, NULL, options->handle, loop,
                            MHD_OPTION_EXTERNAL_LOGGER, log_message, NULL, MHD_OPTION_URI_LOG_CALLBACK, options->target,
                            loop, MHD_OPTION_NOTIFY_COMPLETED, options->completed, loop, MHD_OPTION_NOTIFY_CONNECTION,
                            socket_changed, loop, MHD_OPTION_CONNECTION_LIMIT, options->max_connections,
                            MHD_OPTION_CONNECTION_TIMEOUT, options->timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            options->connection_memory, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
                            options->tls ? tls_daemon_options() : none, MHD_OPTION_END);
}

int event_loop_open(const struct event_loop_options *options, struct event_loop **opened, struct error *error)
{
    struct event_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return error_set(error, "out of memory");
    loop->options = *options;
    inbox_clear(&loop->inbox);
    loop->ended = calloc(LEAVING_AT_ONCE, sizeof *loop->ended);
    if (!loop->ended) {
        error_set(error, "out of memory");
        goto fail_ended;
    }
    loop->wake = eventfd(0, EFD_CLOEXEC);
    if (loop->wake < 0) {
        error_set(error, "eventfd: %s", strerror(errno));
        goto fail_wake;
    }
    loop->leaving = epoll_create1(EPOLL_CLOEXEC);
    if (loop->leaving < 0) {
        error_set(error, "epoll_create1: %s", strerror(errno));
        goto fail_leaving;
    }
    loop->daemon = start_daemon(loop);
    if (!loop->daemon) {
        error_set(error, "libmicrohttpd cannot start: it does not support epoll, or no file descriptors are left");
        goto fail_daemon;
    }
    pthread_mutex_init(&loop->lock, NULL);
    int status = pthread_create(&loop->thread, NULL, run_loop, loop);
    if (status != 0) {
        thread_refused("requests", status, error);
        goto fail_thread;
    }
    pthread_setname_np(loop->thread, "http");
    *opened = loop;
    return 0;

fail_thread:
    pthread_mutex_destroy(&loop->lock);
    MHD_stop_daemon(loop->daemon);
fail_daemon:
    close(loop->leaving);
fail_leaving:
    close(loop->wake);
fail_wake:
    free(loop->ended);
fail_ended:
    free(loop);
    return -1;
}

void *event_loop_context(const struct event_loop *loop)
{
    return loop->options.context;
}

void event_loop_close(struct event_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->inbox.closing = true;
    wake(loop);
    pthread_mutex_unlock(&loop->lock);
    pthread_join(loop->thread, NULL);
    MHD_stop_daemon(loop->daemon);
    pthread_mutex_destroy(&loop->lock);
    close(loop->leaving);
    close(loop->wake);
    free(loop->ended);
    free(loop);
}
