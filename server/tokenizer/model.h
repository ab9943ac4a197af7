/* model: splits a piece of text into tokens of the vocabulary. The kinds of models are in bpe.c, wordpiece.c and
 * unigram.c. */
#ifndef SERVER_MODEL_H
#define SERVER_MODEL_H

#include "server/tokenizer/characters.h"
#include "server/tokenizer/reader.h"
#include "server/tokenizer/trie.h"
#include "server/tokenizer/vocabulary.h"

/* A token that the model has found in a piece. */
struct model_token {
    int32_t id;
    /* Range of bytes in the piece. With BPE, it may lie beyond the end of the piece, as in `tokenizers`. */
    uint32_t begin, end;
    bool own_text; /* the token's text is this range of the piece, not the text of the id */
};

struct symbol;
struct best_path;

/* The tokens of a piece, and memory for the steps of the model. `failed` is set if memory is lacking. */
struct model_work {
    struct model_token *tokens; /* `count` tokens */
    size_t count, capacity;
    bool failed;
    struct symbol *symbols;
    size_t symbols_capacity;
    uint64_t *heap;
    size_t heap_capacity;
    struct best_path *paths;
    size_t paths_capacity;
    char *text; /* the piece in ByteLevel's alphabet, or a symbol with prefix and suffix */
    size_t text_capacity;
};

void model_work_free(struct model_work *work);
void model_token_add(struct model_work *work, int32_t id, size_t begin, size_t end, bool own_text);

/* Makes room for `count` elements of `size` bytes at *memory. If memory is lacking, sets work->failed and returns
 * false. */
bool model_work_reserve(struct model_work *work, void **memory, size_t *capacity, size_t count, size_t size);

/* ---- BPE: joins pairs of symbols in the order of the merges ---- */
struct merge {
    uint32_t left, right; /* ids of the symbols. `left` is UINT32_MAX in a free slot */
    uint32_t rank, joined;
};

struct bpe {
    struct merge *merges; /* a hash table of n_merges slots. n_merges is a power of two */
    size_t n_merges;
    char *prefix, *suffix; /* prefix: text before each symbol that does not begin a word. suffix: text after each symbol
                              that ends a word */
    size_t prefix_length, suffix_length;
    bool fuse_unk, byte_fallback, ignore_merges;
    int32_t fallback_bytes[256]; /* ids of the tokens <0x00> to <0xFF>. -1 for a token that is not in the vocabulary */
    int32_t byte_symbols[256]; /* for each byte, the id of its character in ByteLevel's alphabet. -1 if it is not in the
                                  vocabulary */
    bool reads_bytes; /* true if the vocabulary contains the characters of all bytes, and there is no prefix and no
                         suffix */
};

/* ---- WordPiece: the longest piece first ---- */
struct wordpiece {
    struct trie trie;
    uint32_t continuing; /* node of the trie for the prefix of tokens that continue a word. UINT32_MAX if no token
                            begins with this prefix */
    int64_t most_characters;
};

/* ---- Unigram: the most probable segmentation ---- */
struct unigram {
    struct trie trie;
    double *scores; /* the score of each id */
    double unk_score;
    bool byte_fallback;
    int32_t fallback_bytes[256];
};

enum model_kind { MODEL_BPE, MODEL_WORDPIECE, MODEL_WORDLEVEL, MODEL_UNIGRAM };

struct text_model {
    enum model_kind kind;
    struct vocabulary vocabulary;
    char *unk_token; /* the text of the unk token, with a final NUL, only for messages. NULL if there is none */
    bool wants_unk;  /* true if the file names a token for unknown characters (unk token) */
    int32_t unk_id;  /* id of the unk token. -1 if there is none, or if it is not in the vocabulary */
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct unigram unigram;
};

/* Reads the section "model" of the file. After success the caller must call text_model_free. */
int text_model_read(struct reader *reader, struct text_model *model, struct error *error);
void text_model_free(struct text_model *model);
size_t text_model_size(const struct text_model *model); /* returns the number of tokens, as `tokenizers` counts them */

/* Whether the model can encode the bytes of a text directly, without first converting them to ByteLevel's characters.
 * This is true for BPE without prefix and suffix if the vocabulary contains the characters of all bytes. */
bool text_model_reads_bytes(const struct text_model *model);

/* Replaces the tokens in `work` by the tokens of the piece, which must not be empty. If `bytes` is true, each byte is a
 * symbol, and text_model_reads_bytes must be true. Returns -1 if memory is lacking, or if a character is unknown and
 * the model has no token for unknown characters. But BPE leaves out unknown characters if the file names no token for
 * them. */
int text_model_encode(const struct text_model *model, const char *piece, size_t length, bool bytes,
                      struct model_work *work, struct error *error);

/* The functions of each kind of model. The functions above call them. The vocabulary is complete before bpe_read and
 * wordpiece_read are called. unigram_read reads the vocabulary itself. */
int bpe_read(struct reader *reader, const json_t *json, struct text_model *model, struct error *error);
void bpe_free(struct bpe *bpe);
int bpe_encode(const struct text_model *model, const char *piece, size_t length, bool bytes, struct model_work *work,
               struct error *error);
int wordpiece_read(const json_t *json, struct text_model *model, struct error *error);
int wordpiece_encode(const struct text_model *model, const char *piece, size_t length, struct model_work *work,
                     struct error *error);
int unigram_read(struct reader *reader, const json_t *json, struct text_model *model, struct error *error);
void unigram_free(struct unigram *unigram);
int unigram_encode(const struct text_model *model, const char *piece, size_t length, struct model_work *work,
                   struct error *error);

/* Functions that several kinds of models use. */
void model_fallback_bytes(const struct vocabulary *vocabulary, int32_t ids[256]);
int model_trie_build(const struct vocabulary *vocabulary, struct trie *trie, struct error *error);
int model_error_unknown(const struct text_model *model, const char *text, size_t length, struct error *error);

#endif
