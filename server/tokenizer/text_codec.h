/* text_codec: converts the texts of a model to ids, and ids to text. There are two kinds of codecs. One kind uses a
 * tokenizer.json. The other kind uses the bytes of the text as ids. Other folders of the server include only this
 * header of the folder, and work with both kinds.
 *
 * Threads: a codec does not change after it was opened. Any number of threads may use it at the same time, each with
 * its own encoding. */
#ifndef SERVER_TEXT_CODEC_H
#define SERVER_TEXT_CODEC_H

#include "server/tokenizer/tokenizer.h"

struct text_codec;

/* Opens a codec for the bytes of UTF-8. Byte b has the id b + offset (byte_tokenizer.h). After success the caller must
 * call text_codec_close. Returns -1 if memory is lacking. */
int text_codec_open_bytes(int offset, struct text_codec **codec, struct error *error);

/* Opens a codec for the `length` bytes of a tokenizer.json, which are not needed afterwards. `name` is the name of the
 * file, and `origin` is its name in messages. Fails in the same cases as tokenizer_open. After success the caller must
 * call text_codec_close. */
int text_codec_open(const char *json, size_t length, const char *name, const char *origin, struct text_codec **codec,
                    struct error *error);
void text_codec_close(struct text_codec *codec); /* NULL does nothing */

/* "byte", or the name of the file. */
const char *text_codec_name(const struct text_codec *codec);

/* The id of byte 0. -1 if the codec uses a tokenizer.json. */
int text_codec_byte_offset(const struct text_codec *codec);

/* ---- Ids --------------------------------------------------------------------------------------------------------- */
int64_t text_codec_ids(const struct text_codec *codec); /* the largest id + 1. 0 if there is no token */
/* Whether the token is special, such as the mask. `id` may be any number. */
bool text_codec_special(const struct text_codec *codec, int32_t id);
/* The number of special tokens that the template adds to each text. The template states the tokens before and after
 * each text, such as "[CLS]" and "[SEP]". */
int64_t text_codec_template_tokens(const struct text_codec *codec);
/* The id of the token with this role. -1 if there is none. */
int32_t text_codec_role_id(const struct text_codec *codec, enum tokenizer_role role);

/* The id of the token with this text. -1 if the vocabulary has no such token, or if the codec is for bytes. */
int32_t text_codec_id(const struct text_codec *codec, const char *token, size_t length);

/* The text to which a list with only this id is decoded. Special tokens also have a text, except padding and end in a
 * codec for bytes. The text belongs to the codec. It may contain any bytes, including NUL and bytes that are not UTF-8.
 * `id` may be any number. If no token has the id, the text is empty. */
const char *text_codec_token(const struct text_codec *codec, int32_t id, size_t *length);
/* The maximum length that text_codec_token returns, in bytes. */
size_t text_codec_longest_token(const struct text_codec *codec);

/* ---- Text to ids ------------------------------------------------------------------------------------------------- */
struct text_options {
    bool add_special_tokens; /* add the tokens of the template */
    bool truncate_left;      /* true: texts that are too long lose their beginning. false: they lose their end */
    int64_t max_tokens; /* maximum number of tokens of a text, including the tokens of the template, which are never cut
                           off. TEXT_NO_LIMIT if nothing is cut */
};
#define TEXT_NO_LIMIT INT64_MAX
#define TEXT_MASK "[MASK]" /* stands for the mask token in a text, in every codec with a mask token */

struct text_token {
    int32_t id;
    bool special;       /* true for a token of the template. In a codec for bytes, true for the mask */
    int64_t begin, end; /* range of characters in the given text. Both are 0 if the token is special */
    const char *text;   /* (length): these characters, or the token's own text if the token is special. Valid until the
                           next call */
    size_t length;
};

/* The result of encoding a text. The caller owns the struct, and zeroes it before its first use. Later calls reuse its
 * memory. */
struct text_encoding {
    int64_t count; /* number of tokens after truncation. It exceeds max_tokens only if the template has more tokens */

    /* Only text_encoding.c uses the members below. */
    const struct text_codec *codec;
    const char *text; /* (length): the given text */
    size_t length;
    int64_t skip;                     /* in a codec for bytes: number of ids that were cut off at the start */
    struct tokenizer_encoding tokens; /* the tokens, if the codec uses a tokenizer.json */
    struct text_places *places;       /* the positions of the tokens in the text. NULL until they are needed */
};

/* An upper estimate of the bytes that encoding the text allocates, including text_encoding_next. The caller should take
 * these bytes from a budget before calling text_codec_encode. */
int64_t text_codec_memory(const struct text_codec *codec, const char *text, size_t length);

/* Encodes the `length` bytes of a text. The caller must keep the text while it uses the encoding. "[MASK]" in a text
 * stands for the mask token, even if this token has another text, such as "<mask>". Fails in the same cases as
 * tokenizer_encode. After a failure the encoding has no tokens. */
int text_codec_encode(const struct text_codec *codec, const char *text, size_t length,
                      const struct text_options *options, struct text_encoding *encoding, struct error *error);

/* Writes the ids of all tokens to `ids` (count). */
void text_encoding_ids(const struct text_encoding *encoding, int32_t *ids);

/* Sets *token to the next token of the encoding. Returns 1 if there is a next token, 0 after the last token, and -1 if
 * memory is lacking. */
int text_encoding_next(struct text_encoding *encoding, struct text_token *token, struct error *error);
void text_encoding_free(struct text_encoding *encoding); /* may be called twice, or for a zeroed struct */

/* ---- Ids to text ------------------------------------------------------------------------------------------------- */
/* The maximum number of bytes that text_codec_decode allocates, including its result. */
int64_t text_codec_decode_memory(const struct text_codec *codec, const int32_t *ids, int64_t count);

/* Returns the text of the ids, which must be at least 0. Sets *length to its number of bytes. The caller frees the
 * text. Ids without a token are left out. If `skip_special_tokens` is true, special tokens are also left out. The text
 * may contain any bytes. Returns NULL if memory is lacking, or if a regular expression of the decoder takes too many
 * steps. */
char *text_codec_decode(const struct text_codec *codec, const int32_t *ids, int64_t count, bool skip_special_tokens,
                        size_t *length, struct error *error);

#endif
