/* open: reads a tokenizer.json, answers questions about tokens, and decodes ids. */
#include "server/tokenizer/parts.h"

#include <stdlib.h>
#include <string.h>

/* The usual texts of the special tokens for each role. The first text that is a special added token has the role. */
static const char *const role_texts[TOKENIZER_ROLES][8] = {
    [TOKENIZER_MASK] = {"[MASK]", "<mask>", "<|mask|>"},
    [TOKENIZER_PAD] = {"[PAD]", "<pad>", "<|pad|>", "<|padding|>"},
    [TOKENIZER_UNK] = {"[UNK]", "<unk>", "<|unk|>"},
    [TOKENIZER_BOS] = {"<s>", "[BOS]", "<bos>", "<|bos|>", "<|startoftext|>", "<|begin_of_text|>"},
    [TOKENIZER_EOS] = {"</s>", "[EOS]", "<eos>", "<|eos|>", "<|endoftext|>", "<|end_of_text|>"},
};

static void find_roles(struct tokenizer *tokenizer)
{
    for (int role = 0; role < TOKENIZER_ROLES; role++) {
        tokenizer->roles[role] = -1;
        for (int i = 0; role_texts[role][i] && tokenizer->roles[role] < 0; i++) {
            const char *text = role_texts[role][i];
            const struct added_token *token = added_tokens_by_text(&tokenizer->added, text, strlen(text));
            if (token && token->special)
                tokenizer->roles[role] = token->id;
        }
    }
    if (tokenizer->padding.is_there)
        tokenizer->roles[TOKENIZER_PAD] = tokenizer->padding.id;
    if (tokenizer->model.unk_id >= 0)
        tokenizer->roles[TOKENIZER_UNK] = tokenizer->model.unk_id;
}

static int read_parts(struct reader *reader, struct tokenizer *tokenizer, struct error *error)
{
    static const char *const keys[] = {"version",       "truncation", "padding", "added_tokens",   "normalizer",
                                       "pre_tokenizer", "model",      "decoder", "post_processor", NULL};
    static const char *const versions[] = {"1.0", NULL};
    const json_t *root = reader->root;
    int version;
    if (part_keys(root, "tokenizer", keys, error) != 0 ||
        part_choice(root, "tokenizer", "version", false, versions, &version, error) != 0 ||
        normalizer_read(json_object_get(root, "normalizer"), &tokenizer->normalizer, error) != 0 ||
        pre_tokenizer_read(json_object_get(root, "pre_tokenizer"), &tokenizer->pre_tokenizer, error) != 0 ||
        text_model_read(reader, &tokenizer->model, error) != 0 ||
        token_template_read(json_object_get(root, "post_processor"), &tokenizer->template, error) != 0 ||
        decoder_read(json_object_get(root, "decoder"), &tokenizer->decoder, error) != 0 ||
        truncation_read(json_object_get(root, "truncation"), tokenizer->template.added, &tokenizer->truncation,
                        error) != 0 ||
        padding_read(json_object_get(root, "padding"), &tokenizer->padding, error) != 0)
        return -1;
    return added_tokens_read(json_object_get(root, "added_tokens"), &tokenizer->model, &tokenizer->normalizer,
                             &tokenizer->characters, &tokenizer->added, error);
}

int tokenizer_open(const char *json, size_t length, const char *origin, struct tokenizer **tokenizer,
                   struct error *error)
{
    struct reader reader;
    struct tokenizer *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, "%s: out of memory", origin);
    if (reader_open(json, length, &reader, error) != 0) {
        free(opened);
        return error_prefix(error, "%s", origin);
    }
    characters_init(&opened->characters);
    int status = read_parts(&reader, opened, error);
    reader_close(&reader);
    if (status != 0) {
        tokenizer_close(opened);
        return error_prefix(error, "%s", origin);
    }
    opened->model_reads_bytes =
        pre_tokenizer_ends_in_bytes(&opened->pre_tokenizer) && text_model_reads_bytes(&opened->model);
    find_roles(opened);
    *tokenizer = opened;
    return 0;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    added_tokens_free(&tokenizer->added);
    normalizer_free(&tokenizer->normalizer);
    pre_tokenizer_free(&tokenizer->pre_tokenizer);
    text_model_free(&tokenizer->model);
    token_template_free(&tokenizer->template);
    decoder_free(&tokenizer->decoder);
    padding_free(&tokenizer->padding);
    free(tokenizer);
}

/* ---- The vocabulary ---- */
int64_t tokenizer_ids(const struct tokenizer *tokenizer)
{
    int64_t ids = (int64_t)tokenizer->model.vocabulary.ids;
    const struct added_tokens *added = &tokenizer->added;
    if (added->count > 0 && added->items[added->count - 1].id >= ids)
        ids = added->items[added->count - 1].id + 1;
    return ids;
}

const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id, size_t *length)
{
    const struct added_token *token = added_tokens_by_id(&tokenizer->added, id);
    return token ? added_token_text(token, length) : vocabulary_text(&tokenizer->model.vocabulary, id, length);
}

int32_t tokenizer_id(const struct tokenizer *tokenizer, const char *token, size_t length)
{
    const struct added_token *added = added_tokens_by_text(&tokenizer->added, token, length);
    return added ? added->id : vocabulary_id(&tokenizer->model.vocabulary, token, length);
}

bool tokenizer_special(const struct tokenizer *tokenizer, int32_t id)
{
    const struct added_token *token = added_tokens_by_id(&tokenizer->added, id);
    return token && token->special;
}

int32_t tokenizer_role_id(const struct tokenizer *tokenizer, enum tokenizer_role role)
{
    return tokenizer->roles[role];
}

size_t tokenizer_template_tokens(const struct tokenizer *tokenizer)
{
    return tokenizer->template.added;
}

/* ---- Ids to text ---- */
/* Whether a special token has the text. As in `tokenizers`, the id is not compared. */
static bool is_special_text(const struct tokenizer *tokenizer, const char *text, size_t length)
{
    const struct added_token *token = added_tokens_by_text(&tokenizer->added, text, length);
    return token && token->special;
}

char *tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special_tokens,
                       size_t *length, struct error *error)
{
    struct texts texts = {0};
    for (size_t i = 0; i < count; i++) {
        size_t text_length;
        const char *text = tokenizer_token(tokenizer, ids[i], &text_length);
        if (!text || (skip_special_tokens && is_special_text(tokenizer, text, text_length)))
            continue;
        texts_append(&texts, text, text_length);
        texts_end(&texts);
    }
    if (decoder_run(&tokenizer->decoder, &tokenizer->characters, &texts, error) != 0) {
        texts_free(&texts);
        return NULL;
    }
    *length = texts.length;
    texts_append(&texts, "", 1);
    char *decoded = texts.failed ? NULL : texts.bytes;
    if (!decoded) {
        error_set(error, "out of memory");
        free(texts.bytes);
    }
    free(texts.ends);
    return decoded;
}
