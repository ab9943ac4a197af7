/* stream: the text of an answer that is sent while it is still being written. A stream has two sides, on two threads:
 *
 *     the writer   a thread of the batcher: stream_append …, then stream_end
 *     the sender   the event loop of the connection: stream_read …, then stream_leave
 *
 * When all text is sent, the sender sleeps. The writer must wake the sender after appending text. The two sides end
 * independently: the writer with stream_end, the sender with stream_leave when the connection is closed. The side that
 * ends last frees the stream. */
#ifndef SERVER_STREAM_H
#define SERVER_STREAM_H

#include "server/common/budget.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct stream;

/* `budget` limits the memory of the text that is not sent yet. Returns NULL if memory is lacking. */
struct stream *stream_open(struct budget *budget);
void stream_close(struct stream *stream); /* NULL is harmless */

/* ---- The writer ---- */

enum { STREAM_GONE = -1, STREAM_NO_MEMORY = -2 };

/* Appends text. Sets *asleep to whether the caller must wake the sender. Returns 0, or one of two reasons why the text
 * will not be sent. STREAM_GONE: the connection is closed, the client reads too slowly, or the budget has no room.
 * STREAM_NO_MEMORY: the system has no memory, and another text may be appended. */
int stream_append(struct stream *stream, const char *text, size_t length, bool *asleep);

/* Ends the writer's side. If `broken` is true, the rest of the text is not sent, and the connection is closed. Returns
 * true if the sender's side has already ended, and the caller must free the stream. Otherwise sets *asleep as
 * stream_append does, and only the sender may use the stream afterwards. */
bool stream_end(struct stream *stream, bool broken, bool *asleep);

/* Keeps the sender from ending until stream_release, so that the connection stays open. Returns false if the sender has
 * already ended. After false, the caller must not call stream_release. A stream may be held only for a few
 * instructions. Several threads of the batcher may call these functions at the same time. */
bool stream_hold(struct stream *stream);
void stream_release(struct stream *stream);

/* ---- The sender ---- */

enum { STREAM_ASLEEP = 0, STREAM_ENDED = -1, STREAM_BROKEN = -2 };

/* Copies at most `size` bytes to the buffer, and returns their number. If all text is sent, returns STREAM_ASLEEP, and
 * the writer will wake the sender. Returns STREAM_ENDED after the last text, and STREAM_BROKEN if the writer broke the
 * stream. */
ssize_t stream_read(struct stream *stream, char *buffer, size_t size);

/* Ends the sender's side. Returns true if the writer's side has already ended, and the caller must free the stream. */
bool stream_leave(struct stream *stream);

#endif
