/* stream: the text of an answer that is sent while it is still being written. A stream has two sides, on two threads:
 *
 *     the writer   a thread of the batcher: stream_append …, then stream_end
 *     the sender   the event loop of the connection: stream_read …, then stream_leave
 *
 * The sender sleeps when all text is sent, and the writer then has to wake it. Each side ends on its own: the sender
 * when the connection is closed. The side that ends last frees what both use. */
#ifndef SERVER_STREAM_H
#define SERVER_STREAM_H

#include "server/common/budget.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct stream;

/* `budget` limits the memory of the text that is not sent yet. NULL: memory is lacking. */
struct stream *stream_open(struct budget *budget);
void stream_close(struct stream *stream); /* NULL is harmless */

/* ---- The writer ---- */

/* Appends text. *asleep says whether the caller must wake the sender. Returns -1 if the text will never be sent: the
 * connection is closed, the client reads too slowly, or memory is lacking. */
int stream_append(struct stream *stream, const char *text, size_t length, bool *asleep);

/* Ends the writer's side. If `broken`, the rest of the text is not sent, and the connection is closed. Returns true if
 * the sender has ended, too. Otherwise *asleep is as above, and only the sender may use the stream from now on. */
bool stream_end(struct stream *stream, bool broken, bool *asleep);

/* Keeps the sender from ending until stream_release, so the connection stays open. Returns false if it has ended; then
 * stream_release must not be called. Only for a few instructions. Any number of threads of the writer may call it. */
bool stream_hold(struct stream *stream);
void stream_release(struct stream *stream);

/* ---- The sender ---- */

enum { STREAM_ASLEEP = 0, STREAM_ENDED = -1, STREAM_BROKEN = -2 };

/* Copies at most `size` bytes to the buffer, and returns their number. STREAM_ASLEEP: all text is sent, and the writer
 * will wake the sender. */
ssize_t stream_read(struct stream *stream, char *buffer, size_t size);

/* Ends the sender's side. Returns true if the writer has ended, too. */
bool stream_leave(struct stream *stream);

#endif
