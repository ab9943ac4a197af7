/* text_stream: the text of tokens that come one by one. A character may be spread over several tokens, and a token's
 * text may depend on the tokens before it. So a piece of text is given when its last character is complete. The method
 * is that of text-generation-inference (server/text_generation_server/models/model.py, decode_token). */
#ifndef SERVER_TEXT_STREAM_H
#define SERVER_TEXT_STREAM_H

#include "server/text/writer.h"
#include "server/tokenizer/text_codec.h"

/* Zeroed but for the codec. `text` is freed by text_stream_free. */
struct text_stream {
    const struct text_codec *codec; /* NULL: there is never a text */
    int64_t prefix, read; /* ids before `read` have given their text; those from `prefix` on are decoded again */
    struct writer text;   /* UTF-8, all that was given; special tokens have no text */
};

/* `n_ids` tokens come before the first one that gives text. */
void text_stream_begin(struct text_stream *stream, int64_t n_ids);

/* After one more id: appends what is complete. `ids` are all `n_ids`, those before text_stream_begin included. `last`:
 * no more come, so what is incomplete is given, too. -1: memory is out, or the decoder fails. */
int text_stream_add(struct text_stream *stream, const int32_t *ids, int64_t n_ids, bool last, struct error *error);
void text_stream_free(struct text_stream *stream);

#endif
