/* added_tokens: keeps the tokens in two tries. One trie contains the tokens that are searched in raw texts, and the
 * other trie those that are searched in normalised texts. */
#include "server/tokenizer/added_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "added_tokens"

/* ---- Reading ---- */
static int compare_texts(const char *one, size_t one_length, const char *other, size_t other_length)
{
    int order = memcmp(one, other, one_length < other_length ? one_length : other_length);
    return order != 0 ? order : one_length < other_length ? -1 : one_length > other_length;
}

static int compare_by_text(const void *one, const void *other)
{
    const struct added_token *a = *(struct added_token *const *)one, *b = *(struct added_token *const *)other;
    return compare_texts(a->text, a->length, b->text, b->length);
}

static int compare_by_id(const void *one, const void *other)
{
    const struct added_token *a = one, *b = other;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int read_token(const json_t *json, size_t index, struct added_token *token, struct error *error)
{
    char where[sizeof WHERE + 24];
    static const char *const keys[] = {"id",     "content",    "single_word", "lstrip",
                                       "rstrip", "normalized", "special",     NULL};
    int64_t id;
    snprintf(where, sizeof where, WHERE "[%zu]", index);
    if (!json_is_object(json))
        return error_set(error, "%s: expected an object", where);
    if (part_keys(json, where, keys, error) != 0 || part_integer(json, where, "id", true, 0, &id, error) != 0 ||
        part_text(json, where, "content", true, false, &token->text, &token->length, error) != 0 ||
        part_bool(json, where, "single_word", true, &token->single_word, error) != 0 ||
        part_bool(json, where, "lstrip", true, &token->left_strip, error) != 0 ||
        part_bool(json, where, "rstrip", true, &token->right_strip, error) != 0 ||
        part_bool(json, where, "normalized", true, &token->is_normalized, error) != 0 ||
        part_bool(json, where, "special", true, &token->special, error) != 0)
        return -1;
    return 0;
}

static int normalize_token(struct added_token *token, const struct normalizer *normalizer,
                           const struct characters *characters, struct normalizer_work *work, struct error *error)
{
    struct view view = {.bytes = token->text, .length = token->length};
    if (!token->is_normalized || normalizer->count == 0)
        return 0;
    if (normalizer_run(normalizer, characters, work, &view, error) != 0)
        return error_prefix(error, WHERE);
    if (view.length == token->length && memcmp(view.bytes, token->text, view.length) == 0)
        return 0;
    token->normalized = malloc(view.length + 1);
    if (!token->normalized)
        return error_set(error, WHERE ": out of memory");
    if (view.length > 0)
        memcpy(token->normalized, view.bytes, view.length);
    token->normalized_length = view.length;
    return 0;
}

const char *added_token_text(const struct added_token *token, size_t *length)
{
    *length = token->normalized ? token->normalized_length : token->length;
    return token->normalized ? token->normalized : token->text;
}

/* Assigns the same ids as `tokenizers`. A text that the model's vocabulary lacks gets the next id after this
 * vocabulary. */
static int give_ids(const struct text_model *model, struct added_tokens *added, struct error *error)
{
    int64_t next = (int64_t)text_model_size(model);
    for (size_t i = 0; i < added->count; i++) {
        struct added_token *token = &added->items[i];
        int32_t known = vocabulary_id(&model->vocabulary, token->text, token->length);
        if (next >= VOCABULARY_ID_LIMIT)
            return error_set(error, WHERE ": expected ids below %lld, found too many tokens",
                             (long long)VOCABULARY_ID_LIMIT);
        token->id = known >= 0 ? known : (int32_t)next++;
    }
    return 0;
}

/* Refuses texts and ids that occur twice, because their meaning would depend on an order. */
static int check_unique(struct added_tokens *added, struct error *error)
{
    qsort(added->items, added->count, sizeof *added->items, compare_by_id);
    for (size_t i = 0; i < added->count; i++)
        added->by_text[i] = &added->items[i];
    qsort(added->by_text, added->count, sizeof *added->by_text, compare_by_text);
    for (size_t i = 1; i < added->count; i++) {
        if (compare_by_text(&added->by_text[i - 1], &added->by_text[i]) == 0)
            return error_set(error, WHERE ": \"%.*s\" occurs twice", (int)added->by_text[i]->length,
                             added->by_text[i]->text);
        if (added->items[i - 1].id == added->items[i].id)
            return error_set(error, WHERE ": two tokens have the id %d", added->items[i].id);
    }
    return 0;
}

static int build_trie(struct added_tokens *added, bool normalized, struct error *error)
{
    struct trie_key *keys = malloc((added->count + 1) * sizeof *keys);
    bool *begins = normalized ? added->normalized_begins : added->raw_begins;
    size_t count = 0;
    if (!keys)
        return error_set(error, WHERE ": out of memory");
    for (size_t i = 0; i < added->count; i++) {
        size_t length;
        const char *text = added_token_text(&added->items[i], &length);
        if (added->items[i].is_normalized != normalized)
            continue;
        if (length == 0) {
            free(keys);
            return error_set(error, WHERE ": \"%.*s\" is empty after normalization", (int)added->items[i].length,
                             added->items[i].text);
        }
        keys[count++] = (struct trie_key){text, length, (int32_t)i};
        begins[(unsigned char)text[0]] = true;
    }
    int status = trie_build(normalized ? &added->normalized : &added->raw, keys, count, error);
    for (size_t i = 1; i < count && status == 0; i++) /* trie_build has sorted the keys */
        if (compare_texts(keys[i - 1].bytes, keys[i - 1].length, keys[i].bytes, keys[i].length) == 0) {
            const struct added_token *one = &added->items[keys[i - 1].value], *other = &added->items[keys[i].value];
            status = error_set(error, WHERE ": \"%.*s\" and \"%.*s\" are the same text after normalization",
                               (int)one->length, one->text, (int)other->length, other->text);
        }
    free(keys);
    return status;
}

static int read_all(const json_t *json, const struct text_model *model, const struct normalizer *normalizer,
                    const struct characters *characters, struct added_tokens *added, struct error *error)
{
    struct normalizer_work work = {0};
    int status = 0;
    for (size_t i = 0; i < json_array_size(json) && status == 0; i++) {
        struct added_token *token = &added->items[added->count];
        status = read_token(json_array_get(json, i), i, token, error);
        if (status == 0 && token->length > 0) { /* an empty token is ignored */
            added->count++;
            status = normalize_token(token, normalizer, characters, &work, error);
        }
    }
    normalizer_work_free(&work);
    if (status != 0 || give_ids(model, added, error) != 0 || check_unique(added, error) != 0)
        return -1;
    return build_trie(added, false, error) != 0 || build_trie(added, true, error) != 0 ? -1 : 0;
}

int added_tokens_read(json_t *json, const struct text_model *model, const struct normalizer *normalizer,
                      const struct characters *characters, struct added_tokens *added, struct error *error)
{
    *added = (struct added_tokens){0};
    if (!json || json_is_null(json))
        return 0;
    if (!json_is_array(json))
        return error_set(error, WHERE ": expected a list");
    added->items = calloc(json_array_size(json) + 1, sizeof *added->items);
    added->by_text = calloc(json_array_size(json) + 1, sizeof *added->by_text);
    added->json = json_incref(json);
    int status = added->items && added->by_text ? read_all(json, model, normalizer, characters, added, error)
                                                : error_set(error, WHERE ": out of memory");
    if (status != 0)
        added_tokens_free(added);
    return status;
}

void added_tokens_free(struct added_tokens *added)
{
    for (size_t i = 0; i < added->count; i++)
        free(added->items[i].normalized);
    free(added->items);
    free(added->by_text);
    trie_free(&added->raw);
    trie_free(&added->normalized);
    json_decref(added->json);
    *added = (struct added_tokens){0};
}

/* ---- Searching ---- */
static size_t character_before(const char *text, size_t at)
{
    at--;
    while (utf8_continues(text[at]))
        at--;
    return at;
}

static unsigned flags_at(const struct characters *characters, const char *text, size_t at)
{
    return character_flags(characters, utf8_next(text, &at));
}

/* Finds the longest token that begins at `at`. Returns the end of this token, or 0 if no token begins at `at`. */
static size_t match_at(const struct trie *trie, const char *text, size_t at, size_t end, int32_t *index)
{
    size_t found = 0;
    for (uint32_t node = 0; at < end;) {
        node = trie_child(trie, node, (unsigned char)text[at++]);
        if (node == UINT32_MAX)
            break;
        if (trie->nodes[node].value >= 0) {
            *index = trie->nodes[node].value;
            found = at;
        }
    }
    return found;
}

/* A match, which is text[begin] to text[end - 1], and the limits of the searched text. */
struct match {
    const struct characters *characters;
    const char *text;
    size_t text_begin, text_end;
    size_t begin, end;
};

static bool is_single_word(const struct match *match)
{
    return (match->begin == match->text_begin ||
            !(flags_at(match->characters, match->text, character_before(match->text, match->begin)) &
              CHARACTER_WORD)) &&
           (match->end == match->text_end || !(flags_at(match->characters, match->text, match->end) & CHARACTER_WORD));
}

/* On each side that the token strips, adds the white space beside the match to the match. On the left side, the match
 * does not grow beyond `least`. The next token may itself be white space that was added to the previous token. Its
 * match then begins before `least`, and the same white space occurs in two pieces, as with `tokenizers`. */
static void include_spaces(struct match *match, const struct added_token *token, size_t least)
{
    if (token->left_strip && match->begin < least)
        match->begin = least;
    while (token->left_strip && match->begin > least) {
        size_t before = character_before(match->text, match->begin);
        if (!(flags_at(match->characters, match->text, before) & CHARACTER_SPACE))
            break;
        match->begin = before;
    }
    while (token->right_strip && match->end < match->text_end &&
           (flags_at(match->characters, match->text, match->end) & CHARACTER_SPACE))
        match->end += utf8_size((unsigned char)match->text[match->end]);
}

/* The maximum number of bytes that may occur in several pieces, for a text of `length` bytes. */
static size_t most_repeated(size_t length)
{
    return length * 8 + 65536;
}

int added_tokens_cut(const struct added_tokens *added, bool normalized, const struct characters *characters,
                     const char *text, size_t begin, size_t end, struct pieces *pieces, struct error *error)
{
    const struct trie *trie = normalized ? &added->normalized : &added->raw;
    const bool *begins = normalized ? added->normalized_begins : added->raw_begins;
    size_t copied = begin, repeated = 0;
    for (size_t at = begin; at < end && trie->nodes;) {
        int32_t index = -1;
        size_t found = begins[(unsigned char)text[at]] ? match_at(trie, text, at, end, &index) : 0;
        if (found == 0) {
            at++;
            continue;
        }
        struct match match = {characters, text, begin, end, at, found};
        const struct added_token *token = &added->items[index];
        at = found;
        if (token->single_word && !is_single_word(&match))
            continue;
        include_spaces(&match, token, copied);
        if (match.begin >= match.end)
            continue;
        if (copied < match.begin)
            pieces_add(pieces, copied, match.begin, -1);
        repeated += copied > match.begin ? copied - match.begin : 0;
        if (repeated > most_repeated(end - begin))
            return error_set(error,
                             "white space in this text belongs to several added tokens: %zu bytes are repeated, at "
                             "most %zu are supported",
                             repeated, most_repeated(end - begin));
        pieces_add(pieces, match.begin, match.end, token->id);
        copied = match.end;
    }
    pieces_add(pieces, copied, end, -1);
    return pieces->failed ? error_set(error, "out of memory") : 0;
}

const struct added_token *added_tokens_by_id(const struct added_tokens *added, int32_t id)
{
    struct added_token wanted = {.id = id};
    return added->count == 0 ? NULL : bsearch(&wanted, added->items, added->count, sizeof *added->items, compare_by_id);
}

const struct added_token *added_tokens_by_text(const struct added_tokens *added, const char *text, size_t length)
{
    struct added_token wanted = {.text = text, .length = length}, *pointer = &wanted;
    struct added_token **found =
        added->count == 0 ? NULL
                          : bsearch(&pointer, added->by_text, added->count, sizeof *added->by_text, compare_by_text);
    return found ? *found : NULL;
}
