/* added_tokens: texts such as "[MASK]" that are tokens by themselves. They are cut out of a text, and only the
 * remaining text reaches the model. */
#ifndef SERVER_ADDED_TOKENS_H
#define SERVER_ADDED_TOKENS_H

#include "server/tokenizer/aligned.h"
#include "server/tokenizer/model.h"
#include "server/tokenizer/normalizer.h"
#include "server/tokenizer/trie.h"

struct added_token {
    const char *text; /* (length). Points into the JSON tree, which struct added_tokens keeps */
    size_t length;
    char *normalized; /* the normalised text. NULL if it equals `text`, or if the token is searched in raw texts */
    size_t normalized_length;
    int32_t id;
    bool single_word, left_strip, right_strip, is_normalized, special;
};

struct added_tokens {
    json_t *json;                 /* the JSON tree, which contains the texts of the tokens */
    struct added_token *items;    /* `count` elements, in the order of ids */
    struct added_token **by_text; /* `count` elements, in the order of texts */
    size_t count;
    struct trie raw, normalized;                  /* the value of a key is the index of its token in `items` */
    bool raw_begins[256], normalized_begins[256]; /* indexed by byte: whether a token begins with this byte */
};

/* Reads the list "added_tokens". As in the library `tokenizers`, the id in the file is ignored. A token gets the id of
 * its text in the model's vocabulary. If the vocabulary lacks the text, the token gets the next free id. After success
 * the caller must call added_tokens_free. */
int added_tokens_read(json_t *json, const struct text_model *model, const struct normalizer *normalizer,
                      const struct characters *characters, struct added_tokens *added, struct error *error);
void added_tokens_free(struct added_tokens *added);

/* Cuts added tokens out of bytes `begin` to `end` of a text. If `normalized` is true, cuts out the tokens that are
 * searched in normalised texts. Otherwise cuts out the tokens that are searched in raw texts. Returns -1 if memory is
 * lacking, or if tokens overlap so often that the pieces would be much longer than the text. */
int added_tokens_cut(const struct added_tokens *added, bool normalized, const struct characters *characters,
                     const char *text, size_t begin, size_t end, struct pieces *pieces, struct error *error);

/* NULL if no added token has the id. */
const struct added_token *added_tokens_by_id(const struct added_tokens *added, int32_t id);
const struct added_token *added_tokens_by_text(const struct added_tokens *added, const char *text, size_t length);

/* The text to which the token's id is decoded: the normalised text of the token. */
const char *added_token_text(const struct added_token *token, size_t *length);

#endif
