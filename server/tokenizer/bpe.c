/* bpe: byte pair encoding. A word is a list of symbols, at first one symbol for each character. A merge is a pair of
 * symbols that may be joined to one symbol. Each step joins the neighbours whose merge comes first in the file's list.
 * Of equal pairs, the leftmost pair is joined first. */
#include "server/tokenizer/model.h"

#include <stdlib.h>
#include <string.h>

#define WHERE "model"
#define NO_MERGE UINT32_MAX
/* Number of symbols. For words with at most this many symbols, the algorithm with quadratic time is faster. */
#define SHORT_WORD 48

struct symbol {
    uint32_t id;
    uint32_t length;        /* number of bytes of the piece that the symbol covers. 0 if the symbol was joined with a
                               previous symbol */
    int32_t previous, next; /* indices of the neighbours. -1 if there is none */
};

/* ---- The merges ---- */
static size_t merge_slot(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 32 ^ hash >> 15) & (bpe->n_merges - 1);
}

/* Returns the merge of two symbols, or NULL if they may not be joined. */
static const struct merge *merge_find(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    if (bpe->n_merges == 0)
        return NULL;
    for (size_t at = merge_slot(bpe, left, right);; at = (at + 1) & (bpe->n_merges - 1)) {
        const struct merge *merge = &bpe->merges[at];
        if (merge->left == UINT32_MAX)
            return NULL;
        if (merge->left == left && merge->right == right)
            return merge;
    }
}

/* Adds a merge. If the table already contains the pair, replaces its rank. */
static void merge_put(struct bpe *bpe, struct merge merge)
{
    size_t at = merge_slot(bpe, merge.left, merge.right);
    while (bpe->merges[at].left != UINT32_MAX &&
           (bpe->merges[at].left != merge.left || bpe->merges[at].right != merge.right))
        at = (at + 1) & (bpe->n_merges - 1);
    bpe->merges[at] = merge;
}

/* ---- Reading ---- */
struct merge_list {
    struct merge *items;
    size_t count, capacity;
    char *joined; /* the text of the joined symbol */
    size_t joined_capacity;
};

static int known_id(const struct vocabulary *vocabulary, const char *text, size_t length, uint32_t *id,
                    struct error *error)
{
    int32_t found = vocabulary_id(vocabulary, text, length);
    if (found < 0)
        return error_set(error, WHERE ": merges: \"%.*s\" is not in the vocabulary", (int)(length < 100 ? length : 100),
                         text);
    *id = (uint32_t)found;
    return 0;
}

/* Adds a merge to the list. The text of the joined symbol does not repeat the prefix of the right symbol. */
static int add_merge(const struct text_model *model, struct merge_list *list, const char *left, size_t left_length,
                     const char *right, size_t right_length, struct error *error)
{
    const struct vocabulary *vocabulary = &model->vocabulary;
    size_t skipped = model->bpe.prefix_length;
    struct merge merge = {.rank = (uint32_t)list->count};
    if (right_length < skipped)
        return error_set(error, WHERE ": merges: \"%.*s\" is shorter than continuing_subword_prefix", (int)right_length,
                         right);
    size_t length = left_length + right_length - skipped;
    if (length + 1 > list->joined_capacity) {
        char *joined = realloc(list->joined, length * 2 + 64);
        if (!joined)
            return error_set(error, WHERE ": out of memory");
        list->joined = joined;
        list->joined_capacity = length * 2 + 64;
    }
    if (list->count == list->capacity) {
        struct merge *items = realloc(list->items, (list->capacity * 2 + 1024) * sizeof *items);
        if (!items)
            return error_set(error, WHERE ": out of memory");
        list->items = items;
        list->capacity = list->capacity * 2 + 1024;
    }
    memcpy(list->joined, left, left_length);
    memcpy(list->joined + left_length, right + skipped, right_length - skipped);
    if (known_id(vocabulary, left, left_length, &merge.left, error) != 0 ||
        known_id(vocabulary, right, right_length, &merge.right, error) != 0 ||
        known_id(vocabulary, list->joined, length, &merge.joined, error) != 0)
        return -1;
    list->items[list->count++] = merge;
    return 0;
}

/* Reads a merge in the form "left right", which files of `tokenizers` before 0.20 contain. */
static int read_joined_pair(const struct text_model *model, struct json_stream *cursor, struct merge_list *list,
                            struct error *error)
{
    if (!cursor_string(cursor))
        return error_set(error, WHERE ": merges: expected a string at index %zu", list->count);
    if (strncmp(cursor->text, "#version", 8) == 0)
        return 0;
    const char *space = memchr(cursor->text, ' ', cursor->length);
    size_t left = space ? (size_t)(space - cursor->text) : 0;
    if (!space || memchr(space + 1, ' ', cursor->length - left - 1))
        return error_set(error, WHERE ": merges: expected \"left right\" at index %zu, found \"%.100s\"", list->count,
                         cursor->text);
    return add_merge(model, list, cursor->text, left, space + 1, cursor->length - left - 1, error);
}

/* Reads a merge in the form ["left", "right"]. `other` keeps the left text while `cursor` reads the right text. */
static int read_pair(const struct text_model *model, struct json_stream *cursor, struct json_stream *other,
                     struct merge_list *list, struct error *error)
{
    other->at = cursor->at;
    other->end = cursor->end;
    if (!cursor_string(other))
        return error_set(error, WHERE ": merges: expected [\"left\", \"right\"] at index %zu", list->count);
    cursor->at = other->at;
    if (!cursor_take(cursor, ',') || !cursor_string(cursor) || !cursor_take(cursor, ']'))
        return error_set(error, WHERE ": merges: expected [\"left\", \"right\"] at index %zu", list->count);
    return add_merge(model, list, other->text, other->length, cursor->text, cursor->length, error);
}

static int read_merges(const struct text_model *model, struct json_stream *cursor, struct merge_list *list,
                       struct error *error)
{
    struct json_stream other = {0};
    int status = 0;
    if (!cursor->at || !cursor_take(cursor, '['))
        return error_set(error, WHERE ": merges: expected a list");
    bool more = !cursor_take(cursor, ']');
    while (more && status == 0) {
        status = cursor_take(cursor, '[') ? read_pair(model, cursor, &other, list, error)
                                          : read_joined_pair(model, cursor, list, error);
        more = cursor_take(cursor, ',');
        if (status == 0 && !more && !cursor_take(cursor, ']'))
            status = error_set(error, WHERE ": merges: expected , or ] after index %zu", list->count);
    }
    cursor_free(&other);
    if (status == 0 && !cursor_at_end(cursor))
        status = error_set(error, WHERE ": merges: expected a list");
    return status;
}

static int fill_merges(struct bpe *bpe, const struct merge_list *list, struct error *error)
{
    bpe->n_merges = 2;
    while (bpe->n_merges < list->count + list->count / 2)
        bpe->n_merges *= 2;
    bpe->merges = malloc(bpe->n_merges * sizeof *bpe->merges);
    if (!bpe->merges)
        return error_set(error, WHERE ": out of memory");
    for (size_t i = 0; i < bpe->n_merges; i++)
        bpe->merges[i].left = UINT32_MAX;
    for (size_t i = 0; i < list->count; i++)
        merge_put(bpe, list->items[i]);
    return 0;
}

static int read_affix(const json_t *json, const char *key, char **affix, size_t *length, struct error *error)
{
    const char *text = NULL;
    if (part_text(json, WHERE, key, false, true, &text, length, error) != 0)
        return -1;
    if (!text)
        return 0;
    *affix = malloc(*length + 1);
    if (!*affix)
        return error_set(error, WHERE ": out of memory");
    memcpy(*affix, text, *length);
    return 0;
}

static int read_switch(const json_t *json, const char *key, bool *value, struct error *error)
{
    return json_is_null(json_object_get(json, key)) ? 0 : part_bool(json, WHERE, key, false, value, error);
}

/* Checks dropout, which makes the segmentation random in training. It has no effect on the daemon. */
static int check_dropout(const json_t *json, struct error *error)
{
    const json_t *dropout = json_object_get(json, "dropout");
    if (!dropout || json_is_null(dropout) ||
        (json_is_number(dropout) && json_number_value(dropout) >= 0 && json_number_value(dropout) <= 1))
        return 0;
    return error_set(error, WHERE ": dropout: expected null or a number from 0 to 1");
}

static void find_byte_symbols(struct text_model *model)
{
    struct bpe *bpe = &model->bpe;
    bpe->reads_bytes = bpe->prefix_length == 0 && bpe->suffix_length == 0;
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        size_t length = utf8_write(character_of_byte((unsigned char)byte), text);
        bpe->byte_symbols[byte] = vocabulary_id(&model->vocabulary, text, length);
        bpe->reads_bytes = bpe->reads_bytes && bpe->byte_symbols[byte] >= 0;
    }
}

int bpe_read(struct reader *reader, const json_t *json, struct text_model *model, struct error *error)
{
    static const char *const keys[] = {"type",          "dropout",       "unk_token", "continuing_subword_prefix",
                                       "fuse_unk",      "byte_fallback", "vocab",     "end_of_word_suffix",
                                       "ignore_merges", "merges",        NULL};
    struct bpe *bpe = &model->bpe;
    if (part_keys(json, WHERE, keys, error) != 0 || check_dropout(json, error) != 0 ||
        read_affix(json, "continuing_subword_prefix", &bpe->prefix, &bpe->prefix_length, error) != 0 ||
        read_affix(json, "end_of_word_suffix", &bpe->suffix, &bpe->suffix_length, error) != 0 ||
        read_switch(json, "fuse_unk", &bpe->fuse_unk, error) != 0 ||
        read_switch(json, "byte_fallback", &bpe->byte_fallback, error) != 0 ||
        read_switch(json, "ignore_merges", &bpe->ignore_merges, error) != 0)
        return -1;
    struct merge_list list = {0};
    int status = read_merges(model, &reader->merges, &list, error);
    if (status == 0)
        status = fill_merges(bpe, &list, error);
    free(list.items);
    free(list.joined);
    model_fallback_bytes(&model->vocabulary, bpe->fallback_bytes);
    find_byte_symbols(model);
    return status;
}

void bpe_free(struct bpe *bpe)
{
    free(bpe->merges);
    free(bpe->prefix);
    free(bpe->suffix);
    *bpe = (struct bpe){0};
}

/* ---- A word's symbols ---- */
/* The state while a word is split into symbols. */
struct word {
    const struct text_model *model;
    struct model_work *work;
    size_t count;   /* number of symbols that were added so far */
    int32_t unk_id; /* id of an unknown symbol that is not added yet, because more unknown characters may join it. -1 if
                       there is none */
    size_t unk_length; /* number of bytes of this unknown symbol */
};

static void add_symbol(struct word *word, uint32_t id, size_t length)
{
    struct model_work *work = word->work;
    if (word->count == work->symbols_capacity &&
        !model_work_reserve(work, (void **)&work->symbols, &work->symbols_capacity, word->count + 1,
                            sizeof *work->symbols))
        return;
    work->symbols[word->count++] = (struct symbol){.id = id, .length = (uint32_t)length};
}

static void add_waiting_unknown(struct word *word)
{
    if (word->unk_id >= 0)
        add_symbol(word, (uint32_t)word->unk_id, word->unk_length);
    word->unk_id = -1;
}

/* Adds the tokens <0x…> for the bytes of a symbol. Returns false and adds nothing if one of these tokens is missing. */
static bool add_fallback(struct word *word, const char *text, size_t length)
{
    const int32_t *ids = word->model->bpe.fallback_bytes;
    for (size_t i = 0; i < length; i++)
        if (ids[(unsigned char)text[i]] < 0)
            return false;
    for (size_t i = 0; i < length; i++)
        add_symbol(word, (uint32_t)ids[(unsigned char)text[i]], 1);
    return true;
}

/* Adds the symbol with the given text, for `length` bytes of the piece. If the vocabulary lacks the text, adds the
 * tokens of its bytes, or the unk token, or nothing. */
static int add_text(struct word *word, const char *text, size_t text_length, size_t length, struct error *error)
{
    const struct text_model *model = word->model;
    int32_t id = vocabulary_id(&model->vocabulary, text, text_length);
    if (id >= 0) {
        add_waiting_unknown(word);
        add_symbol(word, (uint32_t)id, length);
        return 0;
    }
    if (model->bpe.byte_fallback && add_fallback(word, text, text_length))
        return 0;
    if (!model->wants_unk)
        return 0;
    if (model->unk_id < 0)
        return model_error_unknown(model, text, text_length, error);
    if (word->unk_id >= 0 && model->bpe.fuse_unk) {
        word->unk_length += length;
        return 0;
    }
    add_waiting_unknown(word);
    word->unk_id = model->unk_id;
    word->unk_length = length;
    return 0;
}

/* Writes the text of a symbol with its prefix and suffix to work->text. Returns the length. */
static size_t add_affixes(const struct bpe *bpe, struct model_work *work, const char *text, size_t length, bool first,
                          bool last)
{
    size_t prefix = first ? 0 : bpe->prefix_length, suffix = last ? bpe->suffix_length : 0;
    if (!model_work_reserve(work, (void **)&work->text, &work->text_capacity, prefix + length + suffix + 1, 1))
        return 0;
    if (prefix > 0)
        memcpy(work->text, bpe->prefix, prefix);
    memcpy(work->text + prefix, text, length);
    if (suffix > 0)
        memcpy(work->text + prefix + length, bpe->suffix, suffix);
    return prefix + length + suffix;
}

static int make_symbols(struct word *word, const char *piece, size_t length, bool bytes, struct error *error)
{
    const struct bpe *bpe = &word->model->bpe;
    struct model_work *work = word->work;
    if (bytes) {
        for (size_t i = 0; i < length; i++)
            add_symbol(word, (uint32_t)bpe->byte_symbols[(unsigned char)piece[i]], 1);
        return 0;
    }
    for (size_t at = 0, size; at < length; at += size) {
        const char *text = piece + at;
        size = utf8_size((unsigned char)piece[at]);
        size_t text_length = size;
        if ((at > 0 && bpe->prefix_length > 0) || (at + size == length && bpe->suffix_length > 0)) {
            text_length = add_affixes(bpe, work, text, size, at == 0, at + size == length);
            if (work->failed)
                return error_set(error, "out of memory");
            text = work->text;
        }
        if (add_text(word, text, text_length, size, error) != 0)
            return -1;
    }
    add_waiting_unknown(word);
    return 0;
}

/* ---- Joining ---- */
static uint32_t pair_rank(const struct bpe *bpe, const struct symbol *left, uint32_t *joined)
{
    const struct merge *merge = merge_find(bpe, left[0].id, left[1].id);
    *joined = merge ? merge->joined : 0;
    return merge ? merge->rank : NO_MERGE;
}

/* Joins symbols. Compares all pairs of neighbours for each join. Returns the number of remaining symbols. */
static size_t join_short(const struct bpe *bpe, struct symbol *symbols, size_t count)
{
    uint32_t ranks[SHORT_WORD], joined[SHORT_WORD];
    for (size_t i = 0; i + 1 < count; i++)
        ranks[i] = pair_rank(bpe, symbols + i, &joined[i]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == NO_MERGE)
            break;
        symbols[best].id = joined[best];
        symbols[best].length += symbols[best + 1].length;
        count--;
        memmove(symbols + best + 1, symbols + best + 2, (count - best - 1) * sizeof *symbols);
        if (best + 1 < count) {
            memmove(ranks + best + 1, ranks + best + 2, (count - best - 2) * sizeof *ranks);
            memmove(joined + best + 1, joined + best + 2, (count - best - 2) * sizeof *joined);
            ranks[best] = pair_rank(bpe, symbols + best, &joined[best]);
        }
        if (best > 0)
            ranks[best - 1] = pair_rank(bpe, symbols + best - 1, &joined[best - 1]);
    }
    return count;
}

/* A heap of the pairs of neighbours that may be joined, with the smallest entry on top. An entry combines the rank of
 * the merge and the index of the left symbol in one number. A node has four children, which are neighbours in
 * memory. */
struct merge_heap {
    struct model_work *work;
    size_t count;
};

static void heap_push(struct merge_heap *heap, uint64_t entry)
{
    struct model_work *work = heap->work;
    if (heap->count == work->heap_capacity &&
        !model_work_reserve(work, (void **)&work->heap, &work->heap_capacity, heap->count + 1, sizeof *work->heap))
        return;
    size_t at = heap->count++;
    for (; at > 0 && work->heap[(at - 1) / 4] > entry; at = (at - 1) / 4)
        work->heap[at] = work->heap[(at - 1) / 4];
    work->heap[at] = entry;
}

static uint64_t heap_pop(struct merge_heap *heap)
{
    uint64_t *entries = heap->work->heap;
    uint64_t top = entries[0], last = entries[--heap->count];
    size_t at = 0;
    for (size_t child; (child = 4 * at + 1) < heap->count;) {
        size_t end = child + 4 < heap->count ? child + 4 : heap->count, least = child;
        while (++child < end)
            least = entries[child] < entries[least] ? child : least;
        if (last <= entries[least])
            break;
        entries[at] = entries[least];
        at = least;
    }
    entries[at] = last;
    return top;
}

static void push_pair(const struct bpe *bpe, struct merge_heap *heap, const struct symbol *symbols, int32_t left,
                      int32_t right)
{
    const struct merge *merge = left < 0 || right < 0 ? NULL : merge_find(bpe, symbols[left].id, symbols[right].id);
    if (merge)
        heap_push(heap, (uint64_t)merge->rank << 32 | (uint32_t)left);
}

/* Joins the pair of the entry. Does nothing if one of the pair's symbols has changed since the entry was added. */
static void join_entry(const struct bpe *bpe, struct merge_heap *heap, struct symbol *symbols, uint64_t entry)
{
    struct symbol *left = &symbols[(uint32_t)entry];
    if (left->length == 0 || left->next < 0)
        return;
    struct symbol *right = &symbols[left->next];
    const struct merge *merge = merge_find(bpe, left->id, right->id);
    if (!merge || merge->rank != entry >> 32)
        return;
    left->id = merge->joined;
    left->length += right->length;
    right->length = 0;
    left->next = right->next;
    if (left->next >= 0)
        symbols[left->next].previous = (int32_t)(left - symbols);
    push_pair(bpe, heap, symbols, left->previous, (int32_t)(left - symbols));
    push_pair(bpe, heap, symbols, (int32_t)(left - symbols), left->next);
}

/* Joins `count` symbols in O(count log count) steps. */
static size_t join_long(const struct bpe *bpe, struct model_work *work, size_t count)
{
    struct merge_heap heap = {.work = work};
    struct symbol *symbols = work->symbols;
    for (size_t i = 0; i < count; i++) {
        symbols[i].previous = (int32_t)i - 1;
        symbols[i].next = i + 1 < count ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i + 1 < count; i++)
        push_pair(bpe, &heap, symbols, (int32_t)i, (int32_t)i + 1);
    while (heap.count > 0)
        join_entry(bpe, &heap, symbols, heap_pop(&heap));
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        if (symbols[i].length > 0)
            symbols[left++] = symbols[i];
    return left;
}

/* Returns the id of the token whose text is the whole piece, or -1 if there is none. */
static int32_t whole_word(const struct text_model *model, const char *piece, size_t length, bool bytes,
                          struct model_work *work)
{
    if (!bytes)
        return vocabulary_id(&model->vocabulary, piece, length);
    if (!model_work_reserve(work, (void **)&work->text, &work->text_capacity, length * 2, 1))
        return -1;
    size_t text_length = 0;
    for (size_t i = 0; i < length; i++)
        text_length += utf8_write(character_of_byte((unsigned char)piece[i]), work->text + text_length);
    return vocabulary_id(&model->vocabulary, work->text, text_length);
}

int bpe_encode(const struct text_model *model, const char *piece, size_t length, bool bytes, struct model_work *work,
               struct error *error)
{
    if (model->bpe.ignore_merges) {
        int32_t id = whole_word(model, piece, length, bytes, work);
        if (id >= 0) {
            model_token_add(work, id, 0, length, false);
            return 0;
        }
    }
    struct word word = {.model = model, .work = work, .unk_id = -1};
    if (make_symbols(&word, piece, length, bytes, error) != 0)
        return -1;
    size_t count = word.count <= SHORT_WORD ? join_short(&model->bpe, work->symbols, word.count)
                                            : join_long(&model->bpe, work, word.count);
    size_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        model_token_add(work, (int32_t)work->symbols[i].id, begin, begin + work->symbols[i].length, false);
        begin += work->symbols[i].length;
    }
    return 0;
}
