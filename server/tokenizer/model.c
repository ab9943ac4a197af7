/* model: functions that the kinds of models share, the choice of the kind, and the kind WordLevel. */
#include "server/tokenizer/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "model"

static const char *const model_names[] = {"BPE", "WordPiece", "WordLevel", "Unigram", NULL};

void model_work_free(struct model_work *work)
{
    free(work->tokens);
    free(work->symbols);
    free(work->heap);
    free(work->paths);
    free(work->text);
    *work = (struct model_work){0};
}

bool model_work_reserve(struct model_work *work, void **memory, size_t *capacity, size_t count, size_t size)
{
    if (*capacity >= count)
        return true;
    size_t wanted = *capacity * 2 > count ? *capacity * 2 : count + 64;
    void *larger = realloc(*memory, wanted * size);
    if (!larger) {
        work->failed = true;
        return false;
    }
    *memory = larger;
    *capacity = wanted;
    return true;
}

void model_token_add(struct model_work *work, int32_t id, size_t begin, size_t end, bool own_text)
{
    if (work->count == work->capacity &&
        !model_work_reserve(work, (void **)&work->tokens, &work->capacity, work->count + 1, sizeof *work->tokens))
        return;
    work->tokens[work->count++] = (struct model_token){id, (uint32_t)begin, (uint32_t)end, own_text};
}

void model_fallback_bytes(const struct vocabulary *vocabulary, int32_t ids[256])
{
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        int length = snprintf(text, sizeof text, "<0x%02X>", byte);
        ids[byte] = vocabulary_id(vocabulary, text, (size_t)length);
    }
}

int model_trie_build(const struct vocabulary *vocabulary, struct trie *trie, struct error *error)
{
    struct trie_key *keys = malloc((vocabulary->ids + 1) * sizeof *keys);
    if (!keys)
        return error_set(error, WHERE ": out of memory");
    size_t count = 0;
    for (size_t id = 0; id < vocabulary->ids; id++) {
        size_t length;
        const char *text = vocabulary_text(vocabulary, (int64_t)id, &length);
        if (text && length > 0)
            keys[count++] = (struct trie_key){text, length, (int32_t)id};
    }
    int status = trie_build(trie, keys, count, error);
    free(keys);
    return status;
}

int model_error_unknown(const struct text_model *model, const char *text, size_t length, struct error *error)
{
    int shown = (int)(length < 40 ? length : 40);
    if (!model->wants_unk)
        return error_set(error, "the tokenizer has no token for \"%.*s\", and no token for unknown text", shown, text);
    return error_set(error,
                     "the tokenizer has no token for \"%.*s\", and its unk_token \"%s\" is not in its vocabulary",
                     shown, text, model->unk_token ? model->unk_token : "");
}

/* ---- Reading ---- */
/* Reads an object of the form {"text": id, …}. */
static int read_vocabulary(struct json_stream *cursor, struct vocabulary *vocabulary, struct error *error)
{
    if (!cursor->at)
        return error_set(error, WHERE ": the key \"vocab\" is missing");
    bool more = false;
    int64_t id = 0;
    if (!cursor_take(cursor, '{'))
        return error_set(error, WHERE ": vocab: expected an object of texts and ids");
    if (!cursor_take(cursor, '}')) {
        do {
            if (!cursor_string(cursor) || !cursor_take(cursor, ':') || !cursor_integer(cursor, &id))
                return error_set(error, WHERE ": vocab: expected \"text\": id after \"%.40s\"",
                                 cursor->text ? cursor->text : "");
            if (vocabulary_add(vocabulary, cursor->text, cursor->length, id, false, WHERE ": vocab", error) != 0)
                return -1;
            more = cursor_take(cursor, ',');
        } while (more);
        if (!cursor_take(cursor, '}'))
            return error_set(error, WHERE ": vocab: expected , or } after \"%.40s\"", cursor->text);
    }
    return cursor_at_end(cursor) ? vocabulary_finish(vocabulary, error)
                                 : error_set(error, WHERE ": vocab: expected an object of texts and ids");
}

static int set_unk(struct text_model *model, const char *text, size_t length, struct error *error)
{
    model->unk_id = vocabulary_id(&model->vocabulary, text, length);
    model->wants_unk = true;
    model->unk_token = strndup(text, length);
    return model->unk_token ? 0 : error_set(error, WHERE ": out of memory");
}

static int read_unk(const json_t *json, bool required, struct text_model *model, struct error *error)
{
    const char *text = NULL;
    size_t length = 0;
    if (part_text(json, WHERE, "unk_token", required, !required, &text, &length, error) != 0)
        return -1;
    return text ? set_unk(model, text, length, error) : 0;
}

static int read_kind(struct reader *reader, const json_t *json, struct text_model *model, struct error *error)
{
    static const char *const wordlevel[] = {"type", "unk_token", "vocab", NULL};
    if (model->kind == MODEL_UNIGRAM)
        return unigram_read(reader, json, model, error);
    if (read_vocabulary(&reader->vocab, &model->vocabulary, error) != 0 ||
        read_unk(json, model->kind != MODEL_BPE, model, error) != 0)
        return -1;
    if (model->kind == MODEL_BPE)
        return bpe_read(reader, json, model, error);
    if (model->kind == MODEL_WORDPIECE)
        return wordpiece_read(json, model, error);
    return part_keys(json, WHERE, wordlevel, error);
}

int text_model_read(struct reader *reader, struct text_model *model, struct error *error)
{
    *model = (struct text_model){.unk_id = -1};
    const json_t *json = json_object_get(reader->root, "model");
    int kind = 0;
    if (!json)
        return error_set(error, "the key \"model\" is missing");
    if (!part_type(json, WHERE, error) || part_choice(json, WHERE, "type", true, model_names, &kind, error) != 0)
        return -1;
    model->kind = (enum model_kind)kind;
    if (read_kind(reader, json, model, error) == 0)
        return 0;
    text_model_free(model);
    return -1;
}

void text_model_free(struct text_model *model)
{
    vocabulary_free(&model->vocabulary);
    free(model->unk_token);
    bpe_free(&model->bpe);
    trie_free(&model->wordpiece.trie);
    unigram_free(&model->unigram);
    *model = (struct text_model){0};
}

size_t text_model_size(const struct text_model *model)
{
    return model->kind == MODEL_UNIGRAM ? model->vocabulary.ids : model->vocabulary.count;
}

/* ---- Encoding ---- */
bool text_model_reads_bytes(const struct text_model *model)
{
    return model->kind == MODEL_BPE && model->bpe.reads_bytes;
}

static int wordlevel_encode(const struct text_model *model, const char *piece, size_t length, struct model_work *work,
                            struct error *error)
{
    int32_t id = vocabulary_id(&model->vocabulary, piece, length);
    if (id < 0)
        id = model->unk_id;
    if (id < 0)
        return model_error_unknown(model, piece, length, error);
    model_token_add(work, id, 0, length, false);
    return 0;
}

int text_model_encode(const struct text_model *model, const char *piece, size_t length, bool bytes,
                      struct model_work *work, struct error *error)
{
    work->count = 0;
    int status = 0;
    switch (model->kind) {
    case MODEL_BPE:
        status = bpe_encode(model, piece, length, bytes, work, error);
        break;
    case MODEL_WORDPIECE:
        status = wordpiece_encode(model, piece, length, work, error);
        break;
    case MODEL_WORDLEVEL:
        status = wordlevel_encode(model, piece, length, work, error);
        break;
    case MODEL_UNIGRAM:
        status = unigram_encode(model, piece, length, work, error);
        break;
    }
    return status == 0 && work->failed ? error_set(error, "out of memory") : status;
}
