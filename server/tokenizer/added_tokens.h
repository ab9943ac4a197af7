/* added_tokens: texts that are cut out before the model sees the rest, such as "[MASK]". */
#ifndef SERVER_ADDED_TOKENS_H
#define SERVER_ADDED_TOKENS_H

#include "server/tokenizer/aligned.h"
#include "server/tokenizer/model.h"
#include "server/tokenizer/normalizer.h"
#include "server/tokenizer/trie.h"

struct added_token {
    const char *text; /* (length) in the JSON tree, which the tokenizer keeps for them */
    size_t length;
    char *normalized; /* the text as the normalizer makes it; NULL: it is the same, or is not normalised */
    size_t normalized_length;
    int32_t id;
    bool single_word, left_strip, right_strip, is_normalized, special;
};

struct added_tokens {
    json_t *json;                 /* owns the texts */
    struct added_token *items;    /* (count) in the order of ids */
    struct added_token **by_text; /* (count) in the order of texts */
    size_t count;
    struct trie raw, normalized;                  /* values: index into items */
    bool raw_begins[256], normalized_begins[256]; /* bytes that a token begins with */
};

/* Reads the list "added_tokens". As in `tokenizers`, a token gets the model's id for its text, or the next free one,
 * whatever the file says. After success added_tokens_free is owed. */
int added_tokens_read(json_t *json, const struct text_model *model, const struct normalizer *normalizer,
                      const struct characters *characters, struct added_tokens *added, struct error *error);
void added_tokens_free(struct added_tokens *added);

/* Cuts the added tokens out of a part of a text, those that are compared with the raw or the normalised text. -1:
 * memory is out, or tokens overlap so often that the pieces would be much longer than the text. */
int added_tokens_cut(const struct added_tokens *added, bool normalized, const struct characters *characters,
                     const char *text, size_t begin, size_t end, struct pieces *pieces, struct error *error);

/* NULL: there is none. */
const struct added_token *added_tokens_by_id(const struct added_tokens *added, int32_t id);
const struct added_token *added_tokens_by_text(const struct added_tokens *added, const char *text, size_t length);

/* The token's text as ids are decoded to it: the normalised one. */
const char *added_token_text(const struct added_token *token, size_t *length);

#endif
