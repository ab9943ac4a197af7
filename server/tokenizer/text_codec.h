/* text_codec: how the texts of a model become ids, and ids become text. There are two kinds: a tokenizer.json, and the
 * bytes of the text. The rest of the server sees this header alone, and need not know the kind.
 *
 * Threads: a codec does not change after it was opened. Any number of threads may use it at the same time, each with
 * its own encoding. */
#ifndef SERVER_TEXT_CODEC_H
#define SERVER_TEXT_CODEC_H

#include "server/tokenizer/tokenizer.h"

struct text_codec;

/* The bytes of UTF-8, with ids from `offset` on: byte_tokenizer.h. After success text_codec_close is owed. -1: memory
 * is out. */
int text_codec_open_bytes(int offset, struct text_codec **codec, struct error *error);

/* The `length` bytes of a tokenizer.json, which are not needed afterwards. `name` is the file's, and `origin` names it
 * in messages. -1: the file is refused, as tokenizer_open says. */
int text_codec_open(const char *json, size_t length, const char *name, const char *origin, struct text_codec **codec,
                    struct error *error);
void text_codec_close(struct text_codec *codec); /* NULL does nothing */

/* "byte", or the file's name */
const char *text_codec_name(const struct text_codec *codec);

/* The id of byte 0; -1: the codec is a tokenizer.json */
int text_codec_byte_offset(const struct text_codec *codec);

/* ---- Ids --------------------------------------------------------------------------------------------------------- */
int64_t text_codec_ids(const struct text_codec *codec);              /* the largest id + 1; 0: no token */
bool text_codec_special(const struct text_codec *codec, int32_t id); /* such as the mask; any id */
int64_t text_codec_template_tokens(const struct text_codec *codec);  /* special tokens that each text gets */
int32_t text_codec_role_id(const struct text_codec *codec, enum tokenizer_role role); /* -1: none */

/* The id of the token that the vocabulary has under this text; -1: none, or the codec is bytes. */
int32_t text_codec_id(const struct text_codec *codec, const char *token, size_t length);

/* The text of one id, decoded alone, with special tokens; borrowed from the codec. It may hold any bytes, also NUL and
 * such that are not UTF-8. An id that no token has gives the empty text. Any id is valid. */
const char *text_codec_token(const struct text_codec *codec, int32_t id, size_t *length);
size_t text_codec_longest_token(const struct text_codec *codec); /* the most bytes of such a text */

/* ---- Text to ids ------------------------------------------------------------------------------------------------- */
struct text_options {
    bool add_special_tokens; /* those of the template */
    bool truncate_left;      /* what is too long loses its beginning, else its end */
    int64_t max_tokens;      /* the template's included, which are never cut off; TEXT_NO_LIMIT: nothing is cut */
};
#define TEXT_NO_LIMIT INT64_MAX
#define TEXT_MASK "[MASK]" /* the mask token in a text, for every codec with such a token */

struct text_token {
    int32_t id;
    bool special;       /* not of the text, but of the template; of bytes: the mask */
    int64_t begin, end; /* characters of the text that was given; 0, 0 if special */
    const char *text;   /* (length) these characters; the token's own text if special. Borrowed until the next call */
    size_t length;
};

/* Owned by the caller, zeroed before its first use. Later calls reuse its memory. */
struct text_encoding {
    int64_t count; /* tokens, after truncation. With max_tokens below the template's tokens it is larger than that */

    /* Private. */
    const struct text_codec *codec;
    const char *text; /* (length) as given */
    size_t length;
    int64_t skip;                     /* bytes: ids that are cut off at the start */
    struct tokenizer_encoding tokens; /* of a tokenizer.json */
    struct text_places *places;       /* of the tokens in the text; NULL: not needed yet */
};

/* An upper estimate of the bytes of memory that an encoding takes for a text, text_encoding_next included. The caller
 * takes them from a budget before text_codec_encode. 0: none. */
int64_t text_codec_memory(const struct text_codec *codec, const char *text, size_t length);

/* Encodes `length` bytes, which stay the caller's until the last call for this text. "[MASK]" in a text is the mask
 * token, also if that has another text, such as "<mask>". -1: as tokenizer_encode; the encoding then has no tokens. */
int text_codec_encode(const struct text_codec *codec, const char *text, size_t length,
                      const struct text_options *options, struct text_encoding *encoding, struct error *error);

/* Writes the ids (count). */
void text_encoding_ids(const struct text_encoding *encoding, int32_t *ids);

/* Gives the tokens one after another. Returns 1, 0 after the last one, or -1 if memory is out. */
int text_encoding_next(struct text_encoding *encoding, struct text_token *token, struct error *error);
void text_encoding_free(struct text_encoding *encoding); /* twice, or when zeroed, is harmless */

/* ---- Ids to text ------------------------------------------------------------------------------------------------- */
/* The most bytes of memory that text_codec_decode takes, its result included. */
int64_t text_codec_decode_memory(const struct text_codec *codec, const int32_t *ids, int64_t count);

/* The text of the ids, each >= 0, *length bytes; the caller frees it. Ids that no token has are left out, and so are
 * special tokens with `skip_special_tokens`. The text may hold any bytes. NULL: memory is out, or a regular expression
 * of the decoder takes too many steps. */
char *text_codec_decode(const struct text_codec *codec, const int32_t *ids, int64_t count, bool skip_special_tokens,
                        size_t *length, struct error *error);

#endif
