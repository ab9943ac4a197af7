/* stream: a text that one thread appends and another thread sends. The lock guards all members. */
#include "server/http/stream.h"

#include "server/text/writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of bytes of a stream that are not sent yet. If a client reads too slowly, this limit is reached, and
 * its stream is broken off. Otherwise its generations would hold their slots for too long. */
#define MAX_UNSENT (INT64_C(1) << 20)

struct stream {
    pthread_mutex_t lock;
    struct share share; /* share of memory of the text that is not sent yet */
    struct writer text;
    size_t sent; /* number of bytes at the beginning of `text` that were sent */
    bool asleep; /* the sender waits until the writer wakes it */
    bool ended;  /* the writer's side has ended (stream_end) */
    bool broken;
    bool left; /* the sender's side has ended (stream_leave) */
};

struct stream *stream_open(struct budget *budget)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->share.budget = budget;
    pthread_mutex_init(&stream->lock, NULL);
    return stream;
}

void stream_close(struct stream *stream)
{
    if (!stream)
        return;
    share_end(&stream->share);
    writer_free(&stream->text);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* ---- The writer ---- */

/* Marks the sender as awake. Returns whether it was asleep, so that the caller must wake it. The lock is held. */
static bool wake(struct stream *stream)
{
    bool asleep = stream->asleep;
    stream->asleep = false;
    return asleep;
}

/* Whether the stream accepts `length` more bytes. Takes their memory from the budget. The lock is held. */
static bool takes(struct stream *stream, size_t length)
{
    int64_t unsent = (int64_t)(stream->text.length - stream->sent);
    return !stream->left && (int64_t)length <= MAX_UNSENT - unsent && share_take(&stream->share, (int64_t)length);
}

int stream_append(struct stream *stream, const char *text, size_t length, bool *asleep)
{
    pthread_mutex_lock(&stream->lock);
    int status = takes(stream, length) ? 0 : STREAM_GONE;
    if (status == 0)
        writer_bytes(&stream->text, text, length);
    if (stream->text.failed) { /* memory is lacking, but the earlier text is intact, and a shorter text may still fit */
        stream->text.failed = false;
        share_give(&stream->share, (int64_t)length);
        status = STREAM_NO_MEMORY;
    }
    *asleep = status == 0 && wake(stream);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

bool stream_end(struct stream *stream, bool broken, bool *asleep)
{
    pthread_mutex_lock(&stream->lock);
    stream->ended = true;
    stream->broken = broken;
    bool left = stream->left;
    *asleep = wake(stream);
    pthread_mutex_unlock(&stream->lock);
    return left;
}

bool stream_hold(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    if (!stream->left)
        return true;
    pthread_mutex_unlock(&stream->lock);
    return false;
}

void stream_release(struct stream *stream)
{
    pthread_mutex_unlock(&stream->lock);
}

/* ---- The sender ---- */

/* Copies text that is not sent yet to the buffer. When half of `text` is sent, this half is overwritten. So the memory
 * is at most twice the text that is not sent, even if a slow client never reads all of the stream. The lock is held. */
static size_t take(struct stream *stream, char *buffer, size_t size)
{
    struct writer *text = &stream->text;
    size_t unsent = text->length - stream->sent, length = unsent < size ? unsent : size;
    memcpy(buffer, text->data + stream->sent, length);
    stream->sent += length;
    share_give(&stream->share, (int64_t)length);
    if (stream->sent >= text->length - stream->sent) {
        memmove(text->data, text->data + stream->sent, text->length - stream->sent);
        text->length -= stream->sent;
        stream->sent = 0;
    }
    return length;
}

ssize_t stream_read(struct stream *stream, char *buffer, size_t size)
{
    pthread_mutex_lock(&stream->lock);
    ssize_t result = STREAM_ASLEEP;
    if (stream->broken)
        result = STREAM_BROKEN;
    else if (stream->text.length > 0)
        result = (ssize_t)take(stream, buffer, size);
    else if (stream->ended)
        result = STREAM_ENDED;
    stream->asleep = result == STREAM_ASLEEP;
    pthread_mutex_unlock(&stream->lock);
    return result;
}

bool stream_leave(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->left = true;
    bool ended = stream->ended;
    pthread_mutex_unlock(&stream->lock);
    return ended;
}
