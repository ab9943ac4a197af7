/* tokenizer: converts text to ids and ids to text. The results are those of Hugging Face's library `tokenizers` with
 * the same tokenizer.json. Other folders of the server do not include this header, but text_codec.h.
 *
 * A text is processed as follows. The text is searched for added tokens, such as "[MASK]". Each added token has its own
 * id. The text between the added tokens is normalised and split into pieces. The model (BPE, WordPiece, WordLevel or
 * Unigram) converts each piece to ids. Then the ids are truncated, and the template adds its tokens. The template is
 * the section post_processor of the file. It states the tokens before and after each text, such as "[CLS]" and "[SEP]".
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

/* Reads the bytes of a tokenizer.json, which are not needed afterwards. `origin` names the file in messages. If a part
 * of the file is unknown, or cannot be computed exactly, returns -1, and the message names the part. After success the
 * caller must call tokenizer_close. */
int tokenizer_open(const char *json, size_t length, const char *origin, struct tokenizer **tokenizer,
                   struct error *error);
void tokenizer_close(struct tokenizer *tokenizer); /* NULL does nothing */

/* ---- The vocabulary ---------------------------------------------------------------------------------------------- */

/* The vocabulary contains the tokens of the model and the added tokens. Returns the largest id + 1, or 0 if there is no
 * token. */
int64_t tokenizer_ids(const struct tokenizer *tokenizer);

/* Returns the text of a token, or NULL if no token has the id. The text belongs to the tokenizer. It may contain any
 * bytes, including NUL. */
const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id, size_t *length);
/* Returns the id of the token with this text, or -1 if there is none. */
int32_t tokenizer_id(const struct tokenizer *tokenizer, const char *token, size_t length);
/* Whether the id is that of an added token marked as special. */
bool tokenizer_special(const struct tokenizer *tokenizer, int32_t id);

/* Returns the id of the token with a role, or -1 if there is none. The file does not state the roles of tokens. The unk
 * token is the one that the model section names, and the pad token the one that the padding section names. For all
 * other cases, open.c contains a list of usual texts for each role, such as "[MASK]" and "<mask>". The first text of
 * the list that is a special added token has the role. */
enum tokenizer_role { TOKENIZER_MASK, TOKENIZER_PAD, TOKENIZER_UNK, TOKENIZER_BOS, TOKENIZER_EOS, TOKENIZER_ROLES };
int32_t tokenizer_role_id(const struct tokenizer *tokenizer, enum tokenizer_role role);

/* ---- Text to ids ------------------------------------------------------------------------------------------------- */
struct tokenizer_options {
    bool add_special_tokens; /* add the tokens of the template */
    bool pad;                /* pad as the padding section of the file says. Without this section nothing is padded */
    bool truncate_left;      /* true: texts that are too long lose their beginning. false: they lose their end */
    size_t max_length; /* maximum number of tokens, including the tokens of the template, which are never cut off */
};

/* Number of tokens that the template adds to each text. */
size_t tokenizer_template_tokens(const struct tokenizer *tokenizer);

struct encoded_token {
    int32_t id;
    /* Range of characters in the given text. Both are 0 for tokens of the template and for padding. */
    uint32_t begin, end;
    uint32_t text; /* private. Use tokenizer_token_text */
    bool special;  /* true for tokens of the template and for padding */
};

/* The result of encoding. The caller owns it, and must zero it before its first use. Later calls reuse its memory. */
struct tokenizer_encoding {
    struct encoded_token *tokens; /* `count` tokens */
    size_t count;
    size_t capacity;         /* private, like `scratch` */
    struct scratch *scratch; /* memory for the steps of a call */
};

/* Encodes the `length` bytes of a text. In place of bytes that are not UTF-8, it reads one U+FFFD for each longest
 * valid start of a character, and one for each other byte. In the offsets, each U+FFFD counts as one character. Returns
 * -1 with a message in these cases:
 * - a character is unknown, and the model has no token for unknown characters (BPE leaves the character out if the
 *   file names no such token)
 * - a regular expression takes too many steps
 * - added tokens overlap too often
 * - the text has 1 GiB or more
 * - memory is lacking
 *
 * After a failure the encoding has no tokens. Added tokens overlap if one token includes the spaces behind it, and
 * another token consists of spaces. added_tokens.c limits the number of bytes that occur in several pieces. */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                     const struct tokenizer_options *options, struct tokenizer_encoding *encoding, struct error *error);

/* The text of a token, as `tokenizers` returns it. It is valid until the next call with this encoding. Usually it is
 * the text of the id. For an unknown piece of Unigram, and for an added token, it is the part of the normalised text
 * that the token covers. */
const char *tokenizer_token_text(const struct tokenizer *tokenizer, const struct tokenizer_encoding *encoding,
                                 size_t index, size_t *length);
void tokenizer_encoding_free(struct tokenizer_encoding *encoding); /* may be called twice, or for a zeroed struct */

/* ---- Ids to text ------------------------------------------------------------------------------------------------- */
/* Returns the text of the ids, followed by a NUL. The caller frees the text. Unknown ids are left out. If
 * `skip_special_tokens` is true, special tokens are also left out. The text is UTF-8, has *length bytes, and may
 * contain NUL. Returns NULL if memory is lacking, or if a regular expression takes too many steps. */
char *tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special_tokens,
                       size_t *length, struct error *error);

#endif
