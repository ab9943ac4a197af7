#include "server/dialects/text_stream.h"

#include <stdlib.h>
#include <string.h>

/* Number of tokens that are decoded together with the first new token, if so many precede it. Some decoders treat the
 * first token of a text differently. */
#define CONTEXT 5

void text_stream_begin(struct text_stream *stream, int64_t n_ids)
{
    stream->prefix = n_ids > CONTEXT ? n_ids - CONTEXT : 0;
    stream->read = n_ids;
}

#define MAX_PENDING 8 /* maximum number of tokens of an incomplete character. More tokens cannot complete it */

/* The number of bytes at the end of the text, 0 to 3, that are the beginning of an incomplete character. */
static size_t incomplete_bytes(const char *text, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char byte = (unsigned char)text[length - back];
        if ((byte & 0xc0) == 0x80)
            continue;
        size_t needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        return needed > back ? back : 0;
    }
    return 0;
}

/* Whether the text ends in U+FFFD. Decoders write this character for bytes that later tokens may complete to another
 * character. */
static bool ends_in_replacement(const char *text, size_t length)
{
    return length >= 3 && memcmp(text + length - 3, "\xef\xbf\xbd", 3) == 0;
}

int text_stream_add(struct text_stream *stream, const int32_t *ids, int64_t n_ids, bool last, struct error *error)
{
    if (!stream->codec)
        return 0;
    size_t before_length, length;
    char *before = text_codec_decode(stream->codec, ids + stream->prefix, stream->read - stream->prefix, true,
                                     &before_length, error);
    char *text =
        before ? text_codec_decode(stream->codec, ids + stream->prefix, n_ids - stream->prefix, true, &length, error)
               : NULL;
    if (text && length > before_length &&
        (last || n_ids - stream->read > MAX_PENDING ||
         (incomplete_bytes(text, length) == 0 && !ends_in_replacement(text, length)))) {
        writer_bytes(&stream->text, text + before_length, length - before_length);
        stream->prefix = stream->read;
        stream->read = n_ids;
    }
    free(before);
    free(text);
    if (!text)
        return -1;
    return stream->text.failed ? error_set(error, "out of memory") : 0;
}

void text_stream_free(struct text_stream *stream)
{
    writer_free(&stream->text);
}
