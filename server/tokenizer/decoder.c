/* decoder: each step reads a list of texts and writes another list. */
#define _GNU_SOURCE /* memmem */

#include "server/tokenizer/decoder.h"

#include "server/tokenizer/pattern.h"
#include "server/tokenizer/reader.h"

#include <stdlib.h>
#include <string.h>

#define WHERE "decoder"
#define SEQUENCE_DEPTH 32
#define REPLACEMENT "\xef\xbf\xbd"

enum decode_kind {
    DECODE_BPE,
    DECODE_BYTE_LEVEL,
    DECODE_WORDPIECE,
    DECODE_METASPACE,
    DECODE_CTC,
    DECODE_SEQUENCE,
    DECODE_REPLACE,
    DECODE_FUSE,
    DECODE_STRIP,
    DECODE_BYTE_FALLBACK,
    DECODE_COUNT,
};

static const char *const decode_names[DECODE_COUNT + 1] = {
    "BPEDecoder", "ByteLevel", "WordPiece", "Metaspace", "CTC", "Sequence", "Replace", "Fuse", "Strip", "ByteFallback"};

struct decoder_step {
    enum decode_kind kind;
    char *text; /* (length): suffix of BPEDecoder, prefix of WordPiece, content of Replace, or pad token of CTC */
    size_t length;
    char *delimiter; /* (delimiter_length): word delimiter of CTC */
    size_t delimiter_length;
    bool cleanup;
    uint32_t character;  /* content of Strip, or replacement character of Metaspace */
    int64_t start, stop; /* Strip: maximum number of characters to cut at the start and at the end */
    bool prepends;       /* Metaspace: encoding has added a replacement character at the start of the first text */
    struct pattern pattern;
};

/* ---- Lists of texts ---- */
void texts_free(struct texts *texts)
{
    free(texts->bytes);
    free(texts->ends);
    *texts = (struct texts){0};
}

void texts_append(struct texts *texts, const char *bytes, size_t length)
{
    if (texts->failed || length == 0)
        return;
    if (texts->bytes_capacity - texts->length < length) {
        size_t wanted = texts->bytes_capacity * 2 + length + 256;
        char *larger = realloc(texts->bytes, wanted);
        if (!larger) {
            texts->failed = true;
            return;
        }
        texts->bytes = larger;
        texts->bytes_capacity = wanted;
    }
    memcpy(texts->bytes + texts->length, bytes, length);
    texts->length += length;
}

void texts_end(struct texts *texts)
{
    if (texts->failed)
        return;
    if (texts->count == texts->ends_capacity) {
        size_t wanted = texts->ends_capacity * 2 + 64;
        size_t *larger = realloc(texts->ends, wanted * sizeof *larger);
        if (!larger) {
            texts->failed = true;
            return;
        }
        texts->ends = larger;
        texts->ends_capacity = wanted;
    }
    texts->ends[texts->count++] = texts->length;
}

static void append_character(struct texts *texts, uint32_t code)
{
    char bytes[4];
    texts_append(texts, bytes, utf8_write(code, bytes));
}

static const char *text_at(const struct texts *texts, size_t index, size_t *length)
{
    size_t begin = index > 0 ? texts->ends[index - 1] : 0;
    *length = texts->ends[index] - begin;
    return texts->bytes ? texts->bytes + begin : "";
}

/* ---- Replacing ---- */
/* Appends the text to `to` with each `old` replaced by `new`. An empty `old` matches before each character and at the
 * end. */
static void append_replaced(struct texts *to, const char *text, size_t length, const char *old, size_t old_length,
                            const char *new, size_t new_length)
{
    size_t at = 0;
    while (old_length == 0 && at < length) {
        size_t size = utf8_size((unsigned char)text[at]);
        texts_append(to, new, new_length);
        texts_append(to, text + at, size);
        at += size;
    }
    if (old_length == 0)
        texts_append(to, new, new_length);
    for (const char *found; old_length > 0 && (found = memmem(text + at, length - at, old, old_length));) {
        texts_append(to, text + at, (size_t)(found - text) - at);
        texts_append(to, new, new_length);
        at = (size_t)(found - text) + old_length;
    }
    texts_append(to, text + at, length - at);
}

/* Removes spaces before English punctuation and contractions, and writes " do not" as " don't", as `tokenizers` does.
 * The result is in work->bytes. */
static void clean_up(struct texts *work, struct texts *other, const char *text, size_t length)
{
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    work->length = 0;
    texts_append(work, text, length);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        other->length = 0;
        append_replaced(other, work->bytes ? work->bytes : "", work->length, pairs[i][0], strlen(pairs[i][0]),
                        pairs[i][1], strlen(pairs[i][1]));
        struct texts turned = *work;
        *work = *other;
        *other = turned;
    }
}

/* ---- Steps ---- */
/* The input and the output of a step. */
struct decode {
    const struct decoder_step *step;
    const struct characters *characters;
    const struct texts *from;
    struct texts *to;
    struct texts work, other; /* memory for processing one text */
};

static void decode_bpe(struct decode *decode)
{
    for (size_t i = 0, length; i < decode->from->count; i++) {
        const char *text = text_at(decode->from, i, &length);
        bool last = i + 1 == decode->from->count;
        append_replaced(decode->to, text, length, decode->step->text, decode->step->length, " ", !last);
        texts_end(decode->to);
    }
}

/* Decodes all tokens to bytes and joins the bytes to one text. Bytes that are not UTF-8 are replaced. A token with a
 * character outside ByteLevel's alphabet is copied unchanged. */
static void decode_byte_level(struct decode *decode)
{
    struct texts *bytes = &decode->work;
    for (size_t i = 0, length; i < decode->from->count; i++) {
        const char *text = text_at(decode->from, i, &length);
        size_t before = bytes->length, at = 0;
        while (at < length) {
            int byte = character_to_byte(utf8_next(text, &at));
            if (byte < 0)
                break;
            texts_append(bytes, &(char){(char)byte}, 1);
            if (at == length)
                before = SIZE_MAX;
        }
        if (before != SIZE_MAX) {
            bytes->length = before;
            texts_append(bytes, text, length);
        }
    }
    for (size_t at = 0; at < bytes->length && !bytes->failed;) {
        uint32_t code;
        size_t size = text_character(bytes->bytes + at, bytes->length - at, &code);
        if (size > 0)
            texts_append(decode->to, bytes->bytes + at, size);
        else
            texts_append(decode->to, REPLACEMENT, sizeof REPLACEMENT - 1);
        at += size > 0 ? size : code;
    }
    texts_end(decode->to);
}

static void decode_wordpiece(struct decode *decode)
{
    const struct decoder_step *step = decode->step;
    for (size_t i = 0, length; i < decode->from->count; i++) {
        const char *text = text_at(decode->from, i, &length);
        bool continues = length >= step->length && memcmp(text, step->text, step->length) == 0;
        size_t skipped = i > 0 && continues ? step->length : 0;
        struct texts *work = &decode->work;
        work->length = 0;
        texts_append(work, " ", i > 0 && !continues);
        texts_append(work, text + skipped, length - skipped);
        if (step->cleanup) {
            struct texts whole = *work;
            *work = (struct texts){.failed = whole.failed};
            clean_up(work, &decode->other, whole.bytes ? whole.bytes : "", whole.length);
            free(whole.bytes);
        }
        texts_append(decode->to, work->bytes, work->length);
        texts_end(decode->to);
    }
}

static void decode_metaspace(struct decode *decode)
{
    for (size_t i = 0, length; i < decode->from->count; i++) {
        const char *text = text_at(decode->from, i, &length);
        for (size_t at = 0; at < length;) {
            uint32_t code = utf8_next(text, &at);
            if (code != decode->step->character)
                append_character(decode->to, code);
            else if (i > 0 || !decode->step->prepends)
                texts_append(decode->to, " ", 1);
        }
        texts_end(decode->to);
    }
}

/* Keeps only the first text of each run of equal texts, and removes the pad token from this text. Texts that become
 * empty are left out. */
static void decode_ctc(struct decode *decode)
{
    const struct decoder_step *step = decode->step;
    const char *last = NULL;
    size_t last_length = 0;
    for (size_t i = 0, length; i < decode->from->count; i++) {
        const char *text = text_at(decode->from, i, &length);
        if (last && last_length == length && memcmp(last, text, length) == 0)
            continue;
        last = text;
        last_length = length;
        struct texts kept = {0};
        if (step->length > 0)
            append_replaced(&kept, text, length, step->text, step->length, "", 0);
        else
            texts_append(&kept, text, length);
        size_t before = decode->to->length;
        if (step->cleanup) {
            clean_up(&decode->work, &decode->other, kept.bytes ? kept.bytes : "", kept.length);
            append_replaced(decode->to, decode->work.bytes ? decode->work.bytes : "", decode->work.length,
                            step->delimiter, step->delimiter_length, " ", 1);
        } else {
            texts_append(decode->to, kept.bytes, kept.length);
        }
        decode->to->failed = decode->to->failed || kept.failed;
        texts_free(&kept);
        if (decode->to->length > before)
            texts_end(decode->to);
    }
}

static int decode_replace(struct decode *decode, struct error *error)
{
    for (size_t i = 0, length; i < decode->from->count; i++) {
        const char *text = text_at(decode->from, i, &length);
        struct pattern_search search;
        size_t copied = 0, begin, end;
        int status = 0;
        if (length > 0) {
            if (pattern_search_begin(&search, &decode->step->pattern, decode->characters, text, length, error) != 0)
                return -1;
            while ((status = pattern_search_next(&search, &begin, &end, error)) > 0) {
                texts_append(decode->to, text + copied, begin - copied);
                texts_append(decode->to, decode->step->text, decode->step->length);
                copied = end;
            }
            pattern_search_end(&search);
        }
        if (status < 0)
            return -1;
        texts_append(decode->to, text + copied, length - copied);
        texts_end(decode->to);
    }
    return 0;
}

static void decode_fuse(struct decode *decode)
{
    texts_append(decode->to, decode->from->bytes, decode->from->length);
    texts_end(decode->to);
}

static void decode_strip(struct decode *decode)
{
    const struct decoder_step *step = decode->step;
    char content[4];
    size_t size = utf8_write(step->character, content);
    for (size_t i = 0, length; i < decode->from->count; i++) {
        const char *text = text_at(decode->from, i, &length);
        size_t begin = 0, end = length;
        for (int64_t cut = 0; cut < step->start && end - begin >= size && memcmp(text + begin, content, size) == 0;
             cut++)
            begin += size;
        for (int64_t cut = 0; cut < step->stop && end - begin >= size && memcmp(text + end - size, content, size) == 0;
             cut++)
            end -= size;
        texts_append(decode->to, text + begin, end - begin);
        texts_end(decode->to);
    }
}

/* Returns the byte of a text such as "<0x41>", or -1 if the text does not have this form. As in Rust, a plus sign may
 * replace the first digit. */
static int fallback_byte(const char *text, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        int lower = text[i] >= 'A' && text[i] <= 'F' ? text[i] - 'A' + 'a' : text[i];
        const char *found = lower ? strchr(digits, lower) : NULL;
        if (i == 3 && text[i] == '+')
            continue;
        if (!found)
            return -1;
        value = value * 16 + (int)(found - digits);
    }
    return value;
}

/* Ends a run of bytes. If the bytes are UTF-8, they become one text. Otherwise each byte becomes a text with the
 * replacement character U+FFFD. */
static void end_bytes(struct decode *decode)
{
    struct texts *bytes = &decode->work;
    if (bytes->length > 0 && utf8_is_valid(bytes->bytes, bytes->length)) {
        texts_append(decode->to, bytes->bytes, bytes->length);
        texts_end(decode->to);
    } else {
        for (size_t i = 0; i < bytes->length; i++) {
            texts_append(decode->to, REPLACEMENT, sizeof REPLACEMENT - 1);
            texts_end(decode->to);
        }
    }
    bytes->length = 0;
}

static void decode_byte_fallback(struct decode *decode)
{
    for (size_t i = 0, length; i < decode->from->count; i++) {
        const char *text = text_at(decode->from, i, &length);
        int byte = fallback_byte(text, length);
        if (byte >= 0) {
            texts_append(&decode->work, &(char){(char)byte}, 1);
            continue;
        }
        end_bytes(decode);
        texts_append(decode->to, text, length);
        texts_end(decode->to);
    }
    end_bytes(decode);
}

static int run_step(struct decode *decode, struct error *error)
{
    switch (decode->step->kind) {
    case DECODE_BPE:
        decode_bpe(decode);
        return 0;
    case DECODE_BYTE_LEVEL:
        decode_byte_level(decode);
        return 0;
    case DECODE_WORDPIECE:
        decode_wordpiece(decode);
        return 0;
    case DECODE_METASPACE:
        decode_metaspace(decode);
        return 0;
    case DECODE_CTC:
        decode_ctc(decode);
        return 0;
    case DECODE_REPLACE:
        return decode_replace(decode, error);
    case DECODE_FUSE:
        decode_fuse(decode);
        return 0;
    case DECODE_STRIP:
        decode_strip(decode);
        return 0;
    case DECODE_BYTE_FALLBACK:
        decode_byte_fallback(decode);
        return 0;
    case DECODE_SEQUENCE:
    case DECODE_COUNT:
        break;
    }
    return error_set(error, "unknown step of the decoder");
}

/* Joins the texts to one text, with spaces between them. */
static void join_with_spaces(const struct texts *from, struct texts *to)
{
    for (size_t i = 0, length; i < from->count; i++) {
        const char *text = text_at(from, i, &length);
        texts_append(to, " ", i > 0);
        texts_append(to, text, length);
    }
    texts_end(to);
}

int decoder_run(const struct decoder *decoder, const struct characters *characters, struct texts *texts,
                struct error *error)
{
    int status = 0;
    for (size_t i = 0; i < decoder->count + decoder->joins_with_spaces && status == 0; i++) {
        struct texts to = {0};
        struct decode decode = {
            .step = decoder->count > 0 ? &decoder->steps[i] : NULL, .characters = characters, .from = texts, .to = &to};
        if (decoder->joins_with_spaces)
            join_with_spaces(texts, &to);
        else
            status = run_step(&decode, error);
        bool failed = texts->failed || to.failed || decode.work.failed || decode.other.failed;
        texts_free(&decode.work);
        texts_free(&decode.other);
        texts_free(texts);
        *texts = to;
        texts->failed = failed;
    }
    return status == 0 && texts->failed ? error_set(error, "out of memory") : status;
}

/* ---- Reading ---- */
static int read_text(const json_t *json, const char *key, char **text, size_t *length, struct error *error)
{
    const char *found = NULL;
    if (part_text(json, WHERE, key, true, false, &found, length, error) != 0)
        return -1;
    *text = malloc(*length + 1);
    if (!*text)
        return error_set(error, WHERE ": out of memory");
    memcpy(*text, found, *length);
    return 0;
}

static int read_metaspace(const json_t *json, struct decoder_step *step, struct error *error)
{
    static const char *const keys[] = {"type",    "replacement", "add_prefix_space", "prepend_scheme", "split",
                                       "str_rep", NULL};
    static const char *const schemes[] = {"first", "never", "always", NULL};
    enum { NEVER = 1, ALWAYS = 2 };
    bool add_prefix_space = true, split;
    int scheme = ALWAYS;
    if (part_keys(json, WHERE, keys, error) != 0 ||
        part_character(json, WHERE, "replacement", &step->character, error) != 0 ||
        part_bool(json, WHERE, "add_prefix_space", false, &add_prefix_space, error) != 0 ||
        part_choice(json, WHERE, "prepend_scheme", false, schemes, &scheme, error) != 0 ||
        part_bool(json, WHERE, "split", false, &split, error) != 0)
        return -1;
    if (!add_prefix_space && scheme != NEVER)
        return error_set(error, WHERE ": prepend_scheme: expected \"never\" with add_prefix_space false");
    step->prepends = scheme != NEVER;
    return 0;
}

static int read_ctc(const json_t *json, struct decoder_step *step, struct error *error)
{
    static const char *const keys[] = {"type", "pad_token", "word_delimiter_token", "cleanup", NULL};
    if (part_keys(json, WHERE, keys, error) != 0 ||
        read_text(json, "pad_token", &step->text, &step->length, error) != 0 ||
        read_text(json, "word_delimiter_token", &step->delimiter, &step->delimiter_length, error) != 0)
        return -1;
    return part_bool(json, WHERE, "cleanup", true, &step->cleanup, error);
}

static int read_strip(const json_t *json, struct decoder_step *step, struct error *error)
{
    static const char *const keys[] = {"type", "content", "start", "stop", NULL};
    if (part_keys(json, WHERE, keys, error) != 0 ||
        part_character(json, WHERE, "content", &step->character, error) != 0 ||
        part_integer(json, WHERE, "start", true, 0, &step->start, error) != 0)
        return -1;
    return part_integer(json, WHERE, "stop", true, 0, &step->stop, error);
}

static int read_arguments(const json_t *json, struct decoder_step *step, struct error *error)
{
    static const char *const none[] = {"type", NULL}, *const bpe[] = {"type", "suffix", NULL},
                             *const wordpiece[] = {"type", "prefix", "cleanup", NULL},
                             *const replace[] = {"type", "pattern", "content", NULL},
                             *const bytes[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    switch (step->kind) {
    case DECODE_BPE:
        return part_keys(json, WHERE, bpe, error) != 0 ? -1
                                                       : read_text(json, "suffix", &step->text, &step->length, error);
    case DECODE_WORDPIECE:
        if (part_keys(json, WHERE, wordpiece, error) != 0 ||
            read_text(json, "prefix", &step->text, &step->length, error) != 0)
            return -1;
        return part_bool(json, WHERE, "cleanup", true, &step->cleanup, error);
    case DECODE_REPLACE:
        if (part_keys(json, WHERE, replace, error) != 0 ||
            read_text(json, "content", &step->text, &step->length, error) != 0)
            return -1;
        return pattern_read(json_object_get(json, "pattern"), WHERE, &step->pattern, error);
    case DECODE_METASPACE:
        return read_metaspace(json, step, error);
    case DECODE_CTC:
        return read_ctc(json, step, error);
    case DECODE_STRIP:
        return read_strip(json, step, error);
    case DECODE_BYTE_LEVEL:
        return part_keys(json, WHERE, bytes, error);
    default:
        return part_keys(json, WHERE, none, error);
    }
}

static int read_steps(const json_t *json, int depth, struct decoder *decoder, struct error *error)
{
    static const char *const sequence[] = {"type", "decoders", NULL};
    int kind = 0;
    if (!part_type(json, WHERE, error) || part_choice(json, WHERE, "type", true, decode_names, &kind, error) != 0)
        return -1;
    if (kind != DECODE_SEQUENCE) {
        struct decoder_step *steps = realloc(decoder->steps, (decoder->count + 1) * sizeof *steps);
        if (!steps)
            return error_set(error, WHERE ": out of memory");
        decoder->steps = steps;
        steps[decoder->count] = (struct decoder_step){.kind = (enum decode_kind)kind};
        return read_arguments(json, &steps[decoder->count++], error);
    }
    const json_t *parts = json_object_get(json, "decoders");
    if (part_keys(json, WHERE, sequence, error) != 0)
        return -1;
    if (!json_is_array(parts))
        return error_set(error, WHERE ": decoders: expected a list");
    if (depth == SEQUENCE_DEPTH)
        return error_set(error, WHERE ": a Sequence is nested more than %d times", SEQUENCE_DEPTH);
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (read_steps(json_array_get(parts, i), depth + 1, decoder, error) != 0)
            return -1;
    return 0;
}

int decoder_read(const json_t *json, struct decoder *decoder, struct error *error)
{
    *decoder = (struct decoder){.joins_with_spaces = !json || json_is_null(json)};
    if (decoder->joins_with_spaces || read_steps(json, 0, decoder, error) == 0)
        return 0;
    decoder_free(decoder);
    return -1;
}

void decoder_free(struct decoder *decoder)
{
    for (size_t i = 0; i < decoder->count; i++) {
        free(decoder->steps[i].text);
        free(decoder->steps[i].delimiter);
        pattern_free(&decoder->steps[i].pattern);
    }
    free(decoder->steps);
    *decoder = (struct decoder){0};
}
