/* model: splits a piece of text into tokens of the vocabulary. The kinds of models are in bpe.c, wordpiece.c and
 * unigram.c. */
#ifndef SERVER_MODEL_H
#define SERVER_MODEL_H

#include "server/tokenizer/characters.h"
#include "server/tokenizer/reader.h"
#include "server/tokenizer/trie.h"
#include "server/tokenizer/vocabulary.h"

/* A token of a piece. */
struct model_token {
    int32_t id;
    uint32_t begin, end; /* bytes of the piece. With BPE they may lie beyond the end of the piece, as in `tokenizers` */
    bool own_text;       /* its text is the part of the piece, not the text of the id */
};

struct symbol;
struct best_path;

/* Tokens, and memory for the steps. `failed` is set if memory is lacking. */
struct model_work {
    struct model_token *tokens; /* (count) */
    size_t count, capacity;
    bool failed;
    struct symbol *symbols;
    size_t symbols_capacity;
    uint64_t *heap;
    size_t heap_capacity;
    struct best_path *paths;
    size_t paths_capacity;
    char *text; /* the piece in another alphabet, or a token with prefix and suffix */
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
    struct merge *merges; /* hash table (n_merges), where n_merges is a power of two */
    size_t n_merges;
    char *prefix, *suffix; /* prefix of symbols that do not begin a word, suffix of symbols that end a word */
    size_t prefix_length, suffix_length;
    bool fuse_unk, byte_fallback, ignore_merges;
    int32_t fallback_bytes[256]; /* ids of the tokens <0x00> to <0xFF>. -1 if not in the vocabulary */
    int32_t byte_symbols[256];   /* ids of the characters that ByteLevel uses for bytes. -1 if not in the vocabulary */
    bool reads_bytes;            /* true if the vocabulary has all byte_symbols, and there is no prefix and suffix */
};

/* ---- WordPiece: the longest piece first ---- */
struct wordpiece {
    struct trie trie;
    uint32_t continuing; /* node of the trie for the prefix. UINT32_MAX if no token has it */
    int64_t most_characters;
};

/* ---- Unigram: the most probable segmentation ---- */
struct unigram {
    struct trie trie;
    double *scores; /* (ids) */
    double unk_score;
    bool byte_fallback;
    int32_t fallback_bytes[256];
};

enum model_kind { MODEL_BPE, MODEL_WORDPIECE, MODEL_WORDLEVEL, MODEL_UNIGRAM };

struct text_model {
    enum model_kind kind;
    struct vocabulary vocabulary;
    char *unk_token; /* NUL-terminated, only for messages. NULL if there is none */
    bool wants_unk;  /* true if the file names an unk token */
    int32_t unk_id;  /* -1 if there is none, or if it is not in the vocabulary */
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct unigram unigram;
};

/* Reads the key "model". After success the caller must call text_model_free. */
int text_model_read(struct reader *reader, struct text_model *model, struct error *error);
void text_model_free(struct text_model *model);
size_t text_model_size(const struct text_model *model); /* number of tokens, as `tokenizers` counts them */

/* Whether the model can read the bytes of a text directly, without ByteLevel's characters for them. This holds for BPE
 * if the vocabulary contains the characters of all bytes.
 */
bool text_model_reads_bytes(const struct text_model *model);

/* Replaces the tokens in `work` by those of the piece, which must not be empty. If `bytes`, each byte is a symbol. This
 * requires a model that reads bytes. Returns -1 if memory is lacking, or if a character is unknown and the model has no
 * token for unknown characters. */
int text_model_encode(const struct text_model *model, const char *piece, size_t length, bool bytes,
                      struct model_work *work, struct error *error);

/* The functions of each kind, which the functions above call. The vocabulary is complete before bpe_read,
 * wordpiece_read and unigram_finish are called.
 */
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

/* Functions that several kinds use. */
void model_fallback_bytes(const struct vocabulary *vocabulary, int32_t ids[256]);
int model_trie_build(const struct vocabulary *vocabulary, struct trie *trie, struct error *error);
int model_error_unknown(const struct text_model *model, const char *text, size_t length, struct error *error);

#endif
