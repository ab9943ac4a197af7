/* model: turns a piece of text into tokens of the vocabulary. One file for each kind: bpe.c, wordpiece.c, wordlevel.c,
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
    uint32_t begin, end; /* bytes of the piece; BPE's may lie beyond its end, as those of `tokenizers` do */
    bool own_text;       /* its text is the piece's, not that of the id */
};

struct symbol;
struct best_path;

/* Tokens, and memory for the steps. `failed` when memory is out. */
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
    char *text; /* a piece in other characters, or a token with its prefix and suffix */
    size_t text_capacity;
};

void model_work_free(struct model_work *work);
void model_token_add(struct model_work *work, int32_t id, size_t begin, size_t end, bool own_text);

/* Makes room for `count` elements of `size` bytes at *memory. False, and work->failed: memory is out. */
bool model_work_reserve(struct model_work *work, void **memory, size_t *capacity, size_t count, size_t size);

/* ---- BPE: joins pairs of symbols in the order of the merges ---- */
struct merge {
    uint32_t left, right; /* ids; left UINT32_MAX: a free slot */
    uint32_t rank, joined;
};

struct bpe {
    struct merge *merges; /* (n_merges, a power of two) hash table */
    size_t n_merges;
    char *prefix, *suffix; /* of symbols that do not begin, that end a word; (…_length) */
    size_t prefix_length, suffix_length;
    bool fuse_unk, byte_fallback, ignore_merges;
    int32_t fallback_bytes[256]; /* ids of <0x00> to <0xFF>; -1: not in the vocabulary */
    int32_t byte_symbols[256];   /* ids of ByteLevel's characters; -1: not in the vocabulary */
    bool reads_bytes;            /* all byte_symbols are there, and no prefix or suffix */
};

/* ---- WordPiece: the longest piece first ---- */
struct wordpiece {
    struct trie trie;
    uint32_t continuing; /* the trie's node of the prefix; UINT32_MAX: no token has it */
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
    char *unk_token; /* NULL: none; terminated, only for messages */
    bool wants_unk;  /* the file names an unk token */
    int32_t unk_id;  /* -1: none, or not in the vocabulary */
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct unigram unigram;
};

/* Reads the member "model". After success text_model_free is owed. */
int text_model_read(struct reader *reader, struct text_model *model, struct error *error);
void text_model_free(struct text_model *model);
size_t text_model_size(const struct text_model *model); /* number of tokens, as `tokenizers` counts them */
size_t text_model_bytes(const struct text_model *model);

/* Whether the model can be given the bytes of a text, for which ByteLevel has characters: BPE whose vocabulary has all.
 */
bool text_model_reads_bytes(const struct text_model *model);

/* Replaces work's tokens by those of the piece, which is not empty. With `bytes`, if the model reads them, each byte is
 * a symbol. -1: an unknown character without a token for that, or memory is out. */
int text_model_encode(const struct text_model *model, const char *piece, size_t length, bool bytes,
                      struct model_work *work, struct error *error);

/* The kinds' parts of the above. The vocabulary is there when bpe_read, wordpiece_read and unigram_finish are called.
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

/* Helpers of the kinds. */
void model_fallback_bytes(const struct vocabulary *vocabulary, int32_t ids[256]);
int model_trie_build(const struct vocabulary *vocabulary, struct trie *trie, struct error *error);
int model_error_unknown(const struct text_model *model, const char *text, size_t length, struct error *error);

#endif
