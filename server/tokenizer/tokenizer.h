/* tokenizer: text to ids and back, as Hugging Face's `tokenizers` does with the same tokenizer.json. The only public
 * header of this folder.
 *
 * The way of a text: added tokens are cut out, the rest is normalised, split into pieces, and each piece goes through
 * the model (BPE, WordPiece, WordLevel or Unigram). Then the ids are truncated, and the template adds its tokens.
 *
 * Threads: a tokenizer does not change after tokenizer_open. Any number of threads may use it at the same time, each
 * with its own encoding. */
#ifndef SERVER_TOKENIZER_H
#define SERVER_TOKENIZER_H

#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

#define TOKENIZER_NO_LIMIT SIZE_MAX

/* Reads the bytes of a tokenizer.json, which are not needed afterwards. `origin` names the file in messages. A part
 * that is unknown, or cannot be computed exactly, is refused by name. After success tokenizer_close is owed. */
int tokenizer_open(const char *json, size_t length, const char *origin, struct tokenizer **tokenizer,
                   struct error *error);
void tokenizer_close(struct tokenizer *tokenizer); /* NULL does nothing */

size_t tokenizer_bytes(const struct tokenizer *tokenizer); /* memory in use, without allocator overhead */

/* ---- The vocabulary: the model's and the added tokens ------------------------------------------------------------ */
size_t tokenizer_vocabulary(const struct tokenizer *tokenizer); /* number of different tokens */
int64_t tokenizer_ids(const struct tokenizer *tokenizer);       /* the largest id + 1; 0: no token */

/* The token's text, borrowed from the tokenizer; it may hold any bytes, also NUL. NULL: no token has the id. */
const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id, size_t *length);
int32_t tokenizer_id(const struct tokenizer *tokenizer, const char *token, size_t length); /* -1: no such token */
bool tokenizer_special(const struct tokenizer *tokenizer, int32_t id); /* an added token marked as special */

/* The file does not say which token has which part. `unk` is the model's, `pad` that of the padding section. Otherwise
 * the part has the first special added token with one of the usual texts, such as "[MASK]" or "<mask>". -1: none. */
enum tokenizer_role { TOKENIZER_MASK, TOKENIZER_PAD, TOKENIZER_UNK, TOKENIZER_BOS, TOKENIZER_EOS, TOKENIZER_ROLES };
int32_t tokenizer_role_id(const struct tokenizer *tokenizer, enum tokenizer_role role);

/* ---- Text to ids ------------------------------------------------------------------------------------------------- */
struct tokenizer_options {
    bool add_special_tokens; /* those of the template */
    bool pad;                /* as the file's padding section says; nothing without one */
    bool truncate_left;      /* what is too long loses its beginning, else its end */
    size_t max_length;       /* in tokens, those of the template included, which are never cut off */
};

/* What the file asks for: its truncation and padding, with special tokens. Without these sections nothing is cut or
 * added. */
struct tokenizer_options tokenizer_options_of(const struct tokenizer *tokenizer);

/* Number of tokens that the template adds to each text. */
size_t tokenizer_template_tokens(const struct tokenizer *tokenizer);

struct encoded_token {
    int32_t id;
    uint32_t begin, end; /* characters of the text that was given; 0, 0 for tokens of the template and padding */
    uint32_t text;       /* private; tokenizer_token_text reads it */
    bool special;        /* from the template or padding */
};

/* Owned by the caller, zeroed before its first use. Later calls reuse its memory. */
struct tokenizer_encoding {
    struct encoded_token *tokens; /* (count) */
    size_t count;
    size_t capacity;         /* private, and so is the rest */
    struct scratch *scratch; /* memory for the steps of a call */
};

/* Encodes `length` bytes. Each maximal part that is not UTF-8 is read as one U+FFFD, and counts as one character in the
 * offsets. -1: a character is unknown and the model has no token for that, a regular expression takes too many
 * steps, added tokens overlap too often, the text has 1 GiB or more, or memory is out; the encoding then has no tokens.
 */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                     const struct tokenizer_options *options, struct tokenizer_encoding *encoding, struct error *error);

/* The token's text as `tokenizers` gives it, borrowed until the next call with this encoding. Mostly it is that of the
 * id. An unknown piece of Unigram, and an added token with stripped spaces, have the text that they stand for. */
const char *tokenizer_token_text(const struct tokenizer *tokenizer, const struct tokenizer_encoding *encoding,
                                 size_t index, size_t *length);
void tokenizer_encoding_free(struct tokenizer_encoding *encoding); /* twice, or when zeroed, is harmless */

/* ---- Ids to text ------------------------------------------------------------------------------------------------- */
/* Returns the text of the ids with a terminator behind it; the caller frees it. Ids that no token has are left out,
 * and so are special tokens with `skip_special_tokens`. The text is UTF-8, *length bytes, and may hold NUL.
 * NULL: memory is out, or a regular expression takes too many steps. */
char *tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special_tokens,
                       size_t *length, struct error *error);

#endif
