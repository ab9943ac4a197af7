/* unigram: finds the segmentation with the greatest sum of scores, by Viterbi's algorithm over the bytes of the piece.
 * A character without a token is unknown, and has a low score. Neighbouring unknown characters become one token. */
#include "server/tokenizer/model.h"

#include <float.h>
#include <stdlib.h>

#define WHERE "model"
#define UNKNOWN_PENALTY 10.0

/* The best segmentation of the piece up to a byte. */
struct best_path {
    double score;
    uint32_t begin; /* the byte at which its last token begins. UINT32_MAX if no segmentation was found yet */
    int32_t id;
};

/* Reads a list of the form [["text", score], …]. The id of a token is its index. */
static int read_scores(struct json_stream *cursor, struct vocabulary *vocabulary, struct unigram *unigram,
                       struct error *error)
{
    size_t capacity = 0;
    double least = DBL_MAX, score = 0;
    if (!cursor->at || !cursor_take(cursor, '['))
        return error_set(error, WHERE ": vocab: expected a list of texts with scores");
    bool more = !cursor_take(cursor, ']');
    for (int64_t id = 0; more; id++) {
        if (!cursor_take(cursor, '[') || !cursor_string(cursor) || !cursor_take(cursor, ',') ||
            !cursor_number(cursor, &score) || !cursor_take(cursor, ']'))
            return error_set(error, WHERE ": vocab: expected [\"text\", score] at index %lld", (long long)id);
        if (vocabulary_add(vocabulary, cursor->text, cursor->length, id, true, WHERE ": vocab", error) != 0)
            return -1;
        if ((size_t)id == capacity) {
            capacity = capacity * 2 + 1024;
            double *scores = realloc(unigram->scores, capacity * sizeof *scores);
            if (!scores)
                return error_set(error, WHERE ": out of memory");
            unigram->scores = scores;
        }
        unigram->scores[id] = score;
        least = score < least ? score : least;
        more = cursor_take(cursor, ',');
        if (!more && !cursor_take(cursor, ']'))
            return error_set(error, WHERE ": vocab: expected , or ] after index %lld", (long long)id);
    }
    unigram->unk_score = least - UNKNOWN_PENALTY;
    return cursor_at_end(cursor) ? vocabulary_finish(vocabulary, error)
                                 : error_set(error, WHERE ": vocab: expected a list of texts with scores");
}

int unigram_read(struct reader *reader, const json_t *json, struct text_model *model, struct error *error)
{
    static const char *const keys[] = {"type", "unk_id", "vocab", "byte_fallback", NULL};
    struct unigram *unigram = &model->unigram;
    int64_t unk_id = -1;
    if (part_keys(json, WHERE, keys, error) != 0 ||
        (!json_is_null(json_object_get(json, "unk_id")) &&
         part_integer(json, WHERE, "unk_id", false, 0, &unk_id, error) != 0) ||
        part_bool(json, WHERE, "byte_fallback", false, &unigram->byte_fallback, error) != 0 ||
        read_scores(&reader->vocab, &model->vocabulary, unigram, error) != 0)
        return -1;
    if (unk_id >= (int64_t)model->vocabulary.ids)
        return error_set(error, WHERE ": unk_id: expected an index of vocab, below %zu; found %lld",
                         model->vocabulary.ids, (long long)unk_id);
    model->unk_id = (int32_t)unk_id;
    model_fallback_bytes(&model->vocabulary, unigram->fallback_bytes);
    return model_trie_build(&model->vocabulary, &unigram->trie, error);
}

void unigram_free(struct unigram *unigram)
{
    trie_free(&unigram->trie);
    free(unigram->scores);
    *unigram = (struct unigram){0};
}

static bool improve(struct best_path *path, double score, size_t begin, int32_t id)
{
    bool better = path->begin == UINT32_MAX || score > path->score;
    if (better)
        *path = (struct best_path){score, (uint32_t)begin, id};
    return better;
}

/* Fills the paths. Returns -1 if a character is unknown, and the model has no token for unknown characters. */
static int find_paths(const struct text_model *model, const char *piece, size_t length, struct best_path *paths)
{
    const struct unigram *unigram = &model->unigram;
    for (size_t i = 0; i <= length; i++)
        paths[i] = (struct best_path){.begin = UINT32_MAX};
    for (size_t begin = 0, size; begin < length; begin += size) {
        double before = paths[begin].score;
        bool single = false;
        size = utf8_size((unsigned char)piece[begin]);
        uint32_t node = 0;
        for (size_t end = begin + 1; end <= length; end++) {
            node = trie_child(&unigram->trie, node, (unsigned char)piece[end - 1]);
            if (node == UINT32_MAX)
                break;
            int32_t id = unigram->trie.nodes[node].value;
            if (id < 0)
                continue;
            improve(&paths[end], unigram->scores[id] + before, begin, id);
            single = single || end - begin == size;
        }
        if (!single && improve(&paths[begin + size], unigram->unk_score + before, begin, model->unk_id) &&
            model->unk_id < 0)
            return -1;
    }
    return 0;
}

/* Adds the token of a part of the piece: the token with its text, or the tokens of its bytes, or the unk token. */
static int add_piece(const struct text_model *model, const char *piece, size_t begin, size_t end, int32_t id,
                     struct model_work *work, struct error *error)
{
    const struct unigram *unigram = &model->unigram;
    if (id == model->unk_id)
        id = vocabulary_id(&model->vocabulary, piece + begin, end - begin);
    if (id >= 0) {
        model_token_add(work, id, begin, end, false);
        return 0;
    }
    bool bytes = unigram->byte_fallback;
    for (size_t i = begin; i < end && bytes; i++)
        bytes = unigram->fallback_bytes[(unsigned char)piece[i]] >= 0;
    for (size_t i = end; i-- > begin && bytes;) /* in reverse order, because the caller reverses all tokens */
        model_token_add(work, unigram->fallback_bytes[(unsigned char)piece[i]], begin, end, false);
    if (bytes)
        return 0;
    if (model->unk_id < 0)
        return model_error_unknown(model, piece + begin, end - begin, error);
    model_token_add(work, model->unk_id, begin, end, true);
    return 0;
}

int unigram_encode(const struct text_model *model, const char *piece, size_t length, struct model_work *work,
                   struct error *error)
{
    if (!model_work_reserve(work, (void **)&work->paths, &work->paths_capacity, length + 1, sizeof *work->paths))
        return 0;
    struct best_path *paths = work->paths;
    if (find_paths(model, piece, length, paths) != 0)
        return model_error_unknown(model, piece, length, error);
    size_t first = work->count;
    for (size_t end = length; end > 0;) { /* from the end of the piece to its start. Unknown neighbours are joined */
        size_t begin = paths[end].begin;
        int32_t id = paths[end].id;
        while (id == model->unk_id && begin > 0 && paths[begin].id == id)
            begin = paths[begin].begin;
        if (add_piece(model, piece, begin, end, id, work, error) != 0)
            return -1;
        end = begin;
    }
    for (size_t i = first, j = work->count; i + 1 < j; i++) {
        struct model_token token = work->tokens[i];
        work->tokens[i] = work->tokens[--j];
        work->tokens[j] = token;
    }
    return 0;
}
