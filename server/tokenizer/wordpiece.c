/* wordpiece: repeatedly splits off the longest token with which the rest of the word begins. A word that cannot be
 * split completely in this way, or that is too long, becomes one unknown token. */
#include "server/tokenizer/model.h"

#define WHERE "model"

int wordpiece_read(const json_t *json, struct text_model *model, struct error *error)
{
    static const char *const keys[] = {"type",  "unk_token", "continuing_subword_prefix", "max_input_chars_per_word",
                                       "vocab", NULL};
    struct wordpiece *wordpiece = &model->wordpiece;
    const char *prefix = NULL;
    size_t length = 0;
    if (part_keys(json, WHERE, keys, error) != 0 ||
        part_text(json, WHERE, "continuing_subword_prefix", true, false, &prefix, &length, error) != 0 ||
        part_integer(json, WHERE, "max_input_chars_per_word", true, 0, &wordpiece->most_characters, error) != 0 ||
        model_trie_build(&model->vocabulary, &wordpiece->trie, error) != 0)
        return -1;
    wordpiece->continuing = 0;
    for (size_t i = 0; i < length && wordpiece->continuing != UINT32_MAX; i++)
        wordpiece->continuing = trie_child(&wordpiece->trie, wordpiece->continuing, (unsigned char)prefix[i]);
    return 0;
}

/* Returns the end of the longest token that begins at `at`, or 0 if there is none. The search begins at `node` of the
 * trie. */
static size_t longest(const struct trie *trie, uint32_t node, const char *word, size_t length, size_t at, int32_t *id)
{
    size_t end = 0;
    while (node != UINT32_MAX && at < length) {
        node = trie_child(trie, node, (unsigned char)word[at++]);
        if (node != UINT32_MAX && trie->nodes[node].value >= 0) {
            *id = trie->nodes[node].value;
            end = at;
        }
    }
    return end;
}

int wordpiece_encode(const struct text_model *model, const char *piece, size_t length, struct model_work *work,
                     struct error *error)
{
    const struct wordpiece *wordpiece = &model->wordpiece;
    size_t at = 0;
    if (length <= (size_t)wordpiece->most_characters || utf8_count(piece, length) <= (size_t)wordpiece->most_characters)
        while (at < length) {
            int32_t id = -1;
            size_t end = longest(&wordpiece->trie, at > 0 ? wordpiece->continuing : 0, piece, length, at, &id);
            if (end == 0)
                break;
            model_token_add(work, id, at, end, false);
            at = end;
        }
    if (at == length)
        return 0;
    work->count = 0;
    if (model->unk_id < 0)
        return model_error_unknown(model, piece, length, error);
    model_token_add(work, model->unk_id, 0, length, false);
    return 0;
}
