/* log_writer: the ring buffer contains records. A record is a header and a line. The thread removes one record at a
 * time, and does not hold the lock while it writes the line. The thread is never joined, because it may wait forever
 * for the program that reads stderr. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server/common/log_writer.h"

#include "server/common/clock.h"
#include "server/common/thread.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

_Static_assert(LOG_LINE_BYTES <= PIPE_BUF, "a pipe must receive a whole line at once");

struct ring_record {
    size_t length;   /* length of the line that follows this header */
    int64_t reports; /* the number of lost lines that this line reports. 0 for an ordinary line */
};

static struct {
    pthread_mutex_t lock; /* guards all members. Never held while a line is written */
    pthread_cond_t filled;
    pthread_cond_t written;
    log_writer_lost_line *lost_line; /* writes the line about lost lines. NULL before log_writer_start */
    bool writing;                    /* the thread is writing a line */
    bool failing;                    /* writing the last line failed */
    int64_t lost;                    /* number of lost lines since the start */
    int64_t unreported;              /* number of lost lines that no line has reported yet */
    /* First byte in use, and number of bytes in use. Headers and lines may wrap around the end of the ring. */
    size_t first, used;
    char bytes[LOG_RING_BYTES];
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

/* ---- The ring. Callers hold the lock ---- */

static size_t shorter(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void ring_append(const void *bytes, size_t count)
{
    size_t at = (ring.first + ring.used) % LOG_RING_BYTES;
    size_t before_wrap = shorter(count, LOG_RING_BYTES - at);
    memcpy(ring.bytes + at, bytes, before_wrap);
    memcpy(ring.bytes, (const char *)bytes + before_wrap, count - before_wrap);
    ring.used += count;
}

static void ring_remove(void *bytes, size_t count)
{
    size_t before_wrap = shorter(count, LOG_RING_BYTES - ring.first);
    memcpy(bytes, ring.bytes + ring.first, before_wrap);
    memcpy((char *)bytes + before_wrap, ring.bytes, count - before_wrap);
    ring.first = (ring.first + count) % LOG_RING_BYTES;
    ring.used -= count;
}

static bool ring_put(const char *line, struct ring_record record)
{
    if (sizeof record + record.length > LOG_RING_BYTES - ring.used)
        return false;
    ring_append(&record, sizeof record);
    ring_append(line, record.length);
    return true;
}

static void ring_lose(int64_t lines)
{
    ring.lost += lines;
    ring.unreported += lines;
}

/* Adds the line that reports lost lines, at the place of the lost lines in the ring. Does nothing if there is not
 * enough room for this line and another one. */
static void ring_report_lost(void)
{
    char line[LOG_LINE_BYTES];
    if (ring.unreported == 0 || LOG_RING_BYTES - ring.used < 2 * (sizeof(struct ring_record) + LOG_LINE_BYTES))
        return;
    size_t length = ring.lost_line(ring.unreported, line);
    ring_put(line, (struct ring_record){.length = length, .reports = ring.unreported});
    ring.unreported = 0;
}

/* ---- Writing. Callers do not hold the lock ---- */

static bool write_all(const char *bytes, size_t count, size_t *written)
{
    for (*written = 0; *written < count;) {
        ssize_t part = write(STDERR_FILENO, bytes + *written, count - *written);
        if (part > 0) {
            *written += (size_t)part;
        } else if (part < 0 && errno == EAGAIN) { /* another process has made the terminal or pipe non-blocking */
            struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
            poll(&room, 1, -1);
        } else if (part == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Writes a line. Sets *torn if only a part was written, which happens on a full disk. If *torn is true at first, a line
 * end is written before the line. */
static bool write_line(const char *line, size_t length, bool *torn)
{
    size_t written = 0;
    if (*torn && !write_all("\n", 1, &written))
        return false;
    *torn = false;
    if (write_all(line, length, &written))
        return true;
    *torn = written > 0;
    return false;
}

static void *writer_thread(void *unused)
{
    (void)unused;
    char line[LOG_LINE_BYTES];
    bool torn = false;
    pthread_mutex_lock(&ring.lock);
    for (;;) {
        if (ring.used == 0 && !ring.failing)
            ring_report_lost();
        if (ring.used == 0) {
            pthread_cond_broadcast(&ring.written);
            pthread_cond_wait(&ring.filled, &ring.lock);
            continue;
        }
        struct ring_record record;
        ring_remove(&record, sizeof record);
        ring_remove(line, record.length);
        ring.writing = true;
        pthread_mutex_unlock(&ring.lock);
        bool success = write_line(line, record.length, &torn);
        pthread_mutex_lock(&ring.lock);
        ring.writing = false;
        ring.failing = !success;
        if (!success && record.reports > 0)
            ring.unreported += record.reports;
        else if (!success)
            ring_lose(1);
    }
    return NULL;
}

/* ---- For callers on any thread ---- */

int log_writer_start(log_writer_lost_line *lost_line, struct error *error)
{
    assert(!ring.lost_line);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&ring.written, &attributes);
    pthread_condattr_destroy(&attributes);
    ring.lost_line = lost_line;
    pthread_t thread;
    int status = pthread_create(&thread, NULL, writer_thread, NULL);
    if (status != 0) {
        ring.lost_line = NULL;
        return thread_refused("the log", status, error);
    }
    pthread_setname_np(thread, "log");
    pthread_detach(thread);
    return 0;
}

void log_writer_put(const char *line, size_t length)
{
    assert(length <= LOG_LINE_BYTES);
    pthread_mutex_lock(&ring.lock);
    bool started = ring.lost_line != NULL;
    if (started) {
        ring_report_lost();
        if (ring.unreported > 0 || !ring_put(line, (struct ring_record){.length = length}))
            ring_lose(1);
        pthread_cond_signal(&ring.filled);
    }
    pthread_mutex_unlock(&ring.lock);
    size_t written;
    if (!started && !write_all(line, length, &written)) {
        pthread_mutex_lock(&ring.lock);
        ring_lose(1);
        pthread_mutex_unlock(&ring.lock);
    }
}

void log_writer_flush(int64_t patience_ns)
{
    int64_t until_ns = clock_ns() + patience_ns;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_mutex_lock(&ring.lock);
    while (ring.lost_line && (ring.used > 0 || ring.writing) &&
           pthread_cond_timedwait(&ring.written, &ring.lock, &until) == 0)
        ;
    pthread_mutex_unlock(&ring.lock);
}

int64_t log_writer_lost(void)
{
    pthread_mutex_lock(&ring.lock);
    int64_t lost = ring.lost;
    pthread_mutex_unlock(&ring.lock);
    return lost;
}
