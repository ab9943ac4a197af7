/* text_stream: converts tokens to text as they are generated. A character may consist of several tokens, and the text
 * of a token may depend on the tokens before it. So the text of a token is held back until its last character is
 * complete.
 *
 * The method is that of text-generation-inference (server/text_generation_server/models/model.py, decode_token). */
#ifndef SERVER_DIALECTS_TEXT_STREAM_H
#define SERVER_DIALECTS_TEXT_STREAM_H

#include "server/text/writer.h"
#include "server/tokenizer/text_codec.h"

/* The caller sets `codec`, and zeroes the other members. text_stream_free frees `text`. */
struct text_stream {
    const struct text_codec *codec; /* NULL if tokens have no text */
    int64_t prefix, read; /* the ids before `read` are already in `text`. Each new id is decoded together with the ids
                             from `prefix` on */
    struct writer text;   /* the whole text so far, in UTF-8. Special tokens have no text */
};

/* Begins a stream after the `n_ids` tokens of a prompt. Their text is not part of the stream. */
void text_stream_begin(struct text_stream *stream, int64_t n_ids);

/* Call it after each new id. Appends the text that this id completes. `ids` are all `n_ids` ids, including those before
 * text_stream_begin.
 *
 * `last` means that no more ids follow, so an incomplete character is appended, too. Returns -1 if memory is lacking,
 * or if the decoder fails. */
int text_stream_add(struct text_stream *stream, const int32_t *ids, int64_t n_ids, bool last, struct error *error);
void text_stream_free(struct text_stream *stream);

#endif
