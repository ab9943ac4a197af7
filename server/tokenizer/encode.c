/* encode: converts a text from bytes to tokens with ids and offsets. */
#include "server/tokenizer/parts.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXT_BYTES ((size_t)1 << 30)
/* Value of encoded_token.text: the text of the token is the text of its id in the vocabulary. */
#define TEXT_OF_ID UINT32_MAX
#define BLOCK_BYTES 64

/* Memory for one call, which later calls with the same encoding reuse. */
struct scratch {
    char *valid; /* a copy of the text with U+FFFD in place of invalid UTF-8 */
    size_t valid_capacity;
    const char *text; /* valid UTF-8 (length): the caller's text, or `valid` */
    size_t length;
    bool is_ascii;
    /* For each block of BLOCK_BYTES bytes of `text`, the number of characters that begin before the block. Not filled
     * if `text` is ASCII. */
    uint32_t *blocks;
    size_t blocks_capacity;
    struct pieces raw;         /* pieces of `text` after cutting out the added tokens that are searched in raw texts */
    struct aligned normalized; /* the normalised text, if there are several pieces */
    struct normalizer_work normalizer;
    struct cutting cutting;
    struct model_work model;
    struct texts texts; /* the texts of tokens whose text is not the text of their id */
    struct encoded_token *spare;
    size_t spare_capacity;
};

/* ---- Bytes to characters ---- */
static int replace_invalid(struct scratch *scratch, const char *text, size_t length, struct error *error)
{
    size_t wanted = length * 3 + 1;
    if (scratch->valid_capacity < wanted) {
        char *valid = realloc(scratch->valid, wanted);
        if (!valid)
            return error_set(error, "out of memory");
        scratch->valid = valid;
        scratch->valid_capacity = wanted;
    }
    size_t to = 0;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        size_t size = text_character(text + at, length - at, &code);
        if (size > 0)
            memcpy(scratch->valid + to, text + at, size);
        else
            utf8_write(CHARACTER_REPLACEMENT, scratch->valid + to);
        to += size > 0 ? size : 3;
        at += size > 0 ? size : code;
    }
    scratch->text = scratch->valid;
    scratch->length = to;
    return 0;
}

static int count_blocks(struct scratch *scratch, struct error *error)
{
    size_t n_blocks = scratch->length / BLOCK_BYTES + 1;
    if (scratch->blocks_capacity < n_blocks) {
        uint32_t *blocks = realloc(scratch->blocks, n_blocks * sizeof *blocks);
        if (!blocks)
            return error_set(error, "out of memory");
        scratch->blocks = blocks;
        scratch->blocks_capacity = n_blocks;
    }
    uint32_t count = 0;
    for (size_t i = 0; i < n_blocks; i++) {
        size_t begin = i * BLOCK_BYTES, left = scratch->length - begin;
        scratch->blocks[i] = count;
        count += (uint32_t)utf8_count(scratch->text + begin, left < BLOCK_BYTES ? left : BLOCK_BYTES);
    }
    return 0;
}

static int take_text(struct scratch *scratch, const char *text, size_t length, struct error *error)
{
    scratch->text = text;
    scratch->length = length;
    scratch->is_ascii = text_is_ascii(text, length);
    if (scratch->is_ascii)
        return 0;
    if (!utf8_is_valid(text, length) && replace_invalid(scratch, text, length, error) != 0)
        return -1;
    return count_blocks(scratch, error);
}

/* Returns the index of the character that contains the byte. For the end of the text, returns the number of
 * characters. */
static uint32_t character_at(const struct scratch *scratch, uint32_t byte)
{
    if (scratch->is_ascii)
        return byte;
    size_t begin = byte / BLOCK_BYTES * BLOCK_BYTES;
    size_t in_block = byte - begin + (byte < scratch->length);
    uint32_t count = scratch->blocks[byte / BLOCK_BYTES] + (uint32_t)utf8_count(scratch->text + begin, in_block);
    return byte < scratch->length ? count - 1 : count;
}

/* ---- Cutting ---- */
/* Normalises several pieces into one text, and cuts out the added tokens that are searched in normalised texts. */
static int normalize_pieces(const struct tokenizer *tokenizer, struct scratch *scratch, struct error *error)
{
    struct view whole = {.bytes = scratch->text, .length = scratch->length};
    struct aligned *to = &scratch->normalized;
    aligned_clear(to);
    for (size_t i = 0; i < scratch->raw.count; i++) {
        struct text_piece piece = scratch->raw.items[i];
        struct view view = view_part(&whole, piece.begin, piece.end);
        size_t begin = to->length;
        if (piece.id < 0 &&
            normalizer_run(&tokenizer->normalizer, &tokenizer->characters, &scratch->normalizer, &view, error) != 0)
            return -1;
        aligned_view(to, &view);
        if (to->failed)
            return error_set(error, "out of memory");
        if (piece.id >= 0)
            pieces_add(&scratch->cutting.pieces, begin, to->length, piece.id);
        else if (added_tokens_cut(&tokenizer->added, true, &tokenizer->characters, to->bytes, begin, to->length,
                                  &scratch->cutting.pieces, error) != 0)
            return -1;
    }
    scratch->cutting.text = aligned_all(to);
    return 0;
}

/* Does the work of normalize_pieces for a text without added tokens in raw form. Such a text need not be copied. */
static int normalize_whole(const struct tokenizer *tokenizer, struct scratch *scratch, struct error *error)
{
    struct view view = {.bytes = scratch->text, .length = scratch->length};
    if (normalizer_run(&tokenizer->normalizer, &tokenizer->characters, &scratch->normalizer, &view, error) != 0)
        return -1;
    scratch->cutting.text = view;
    return added_tokens_cut(&tokenizer->added, true, &tokenizer->characters, view.bytes, 0, view.length,
                            &scratch->cutting.pieces, error);
}

static int cut_text(const struct tokenizer *tokenizer, struct scratch *scratch, struct error *error)
{
    scratch->raw.count = scratch->cutting.pieces.count = 0;
    scratch->raw.failed = scratch->cutting.pieces.failed = scratch->cutting.spare.failed = false;
    if (added_tokens_cut(&tokenizer->added, false, &tokenizer->characters, scratch->text, 0, scratch->length,
                         &scratch->raw, error) != 0)
        return -1;
    bool is_whole = scratch->raw.count == 1 && scratch->raw.items[0].id < 0;
    int status = is_whole ? normalize_whole(tokenizer, scratch, error) : normalize_pieces(tokenizer, scratch, error);
    if (status != 0)
        return -1;
    if (scratch->cutting.pieces.failed)
        return error_set(error, "out of memory");
    return pre_tokenizer_run(&tokenizer->pre_tokenizer, &tokenizer->characters, tokenizer->model_reads_bytes,
                             &scratch->cutting, error);
}

/* ---- Tokens ---- */
static struct encoded_token *grow(struct encoded_token **tokens, size_t *capacity, size_t count)
{
    if (*tokens && *capacity >= count)
        return *tokens;
    size_t wanted = *capacity * 2 > count ? *capacity * 2 : count + 64;
    struct encoded_token *larger = realloc(*tokens, wanted * sizeof *larger);
    if (!larger)
        return NULL;
    *tokens = larger;
    *capacity = wanted;
    return larger;
}

static uint32_t own_text(struct scratch *scratch, const char *text, size_t length)
{
    texts_append(&scratch->texts, text, length);
    texts_end(&scratch->texts);
    return (uint32_t)scratch->texts.count - 1;
}

/* Sets the offsets of a token that ends beyond the end of its piece. `tokenizers` produces such tokens for symbols of
 * BPE with a prefix, and for <0x…> tokens. The offsets are equal to those of `tokenizers`, which uses positions in the
 * piece as if they were positions in the text. */
static void set_odd_offsets(const struct scratch *scratch, uint32_t begin, uint32_t end, struct encoded_token *token)
{
    token->begin = begin;
    token->end = end;
    if (begin >= scratch->length)
        return;
    token->begin = character_at(scratch, begin);
    if (end < scratch->length)
        token->end = character_at(scratch, end);
    else
        token->end = end - 1 < scratch->length ? character_at(scratch, end - 1) + 1 : token->begin + 2;
}

/* Sets the offsets of a token that covers bytes `begin` to `end` of the normalised text. */
static void set_offsets(const struct scratch *scratch, size_t begin, size_t end, struct encoded_token *token)
{
    const struct view *text = &scratch->cutting.text;
    uint32_t first = view_origin(text, begin).begin, last = view_origin(text, end - 1).end;
    token->begin = first < scratch->length ? character_at(scratch, first) : first;
    token->end = first < scratch->length ? character_at(scratch, last) : last;
}

static int add_tokens(struct scratch *scratch, struct text_piece piece, struct tokenizer_encoding *encoding,
                      struct error *error)
{
    const struct model_work *work = &scratch->model;
    if (work->count > 0 && !grow(&encoding->tokens, &encoding->capacity, encoding->count + work->count))
        return error_set(error, "out of memory");
    for (size_t i = 0; i < work->count; i++) {
        struct model_token found = work->tokens[i];
        struct encoded_token *token = &encoding->tokens[encoding->count++];
        *token = (struct encoded_token){.id = found.id, .text = TEXT_OF_ID};
        if (found.end > piece.end - piece.begin)
            set_odd_offsets(scratch, found.begin, found.end, token);
        else
            set_offsets(scratch, piece.begin + found.begin, piece.begin + found.end, token);
        if (found.own_text)
            token->text =
                own_text(scratch, scratch->cutting.text.bytes + piece.begin + found.begin, found.end - found.begin);
    }
    return 0;
}

static int add_added_token(struct scratch *scratch, struct text_piece piece, struct tokenizer_encoding *encoding,
                           struct error *error)
{
    if (!grow(&encoding->tokens, &encoding->capacity, encoding->count + 1))
        return error_set(error, "out of memory");
    struct encoded_token *token = &encoding->tokens[encoding->count++];
    *token = (struct encoded_token){.id = piece.id};
    set_offsets(scratch, piece.begin, piece.end, token);
    token->text = own_text(scratch, scratch->cutting.text.bytes + piece.begin, piece.end - piece.begin);
    return 0;
}

/* Encodes the pieces in order. May stop as soon as there are at least `enough` tokens. */
static int encode_pieces(const struct tokenizer *tokenizer, struct scratch *scratch, size_t enough,
                         struct tokenizer_encoding *encoding, struct error *error)
{
    const struct cutting *cutting = &scratch->cutting;
    scratch->model.failed = false;
    for (size_t i = 0; i < cutting->pieces.count && encoding->count < enough; i++) {
        struct text_piece piece = cutting->pieces.items[i];
        if (piece.id >= 0) {
            if (add_added_token(scratch, piece, encoding, error) != 0)
                return -1;
            continue;
        }
        if (text_model_encode(&tokenizer->model, cutting->text.bytes + piece.begin, piece.end - piece.begin,
                              tokenizer->model_reads_bytes, &scratch->model, error) != 0 ||
            add_tokens(scratch, piece, encoding, error) != 0)
            return -1;
    }
    return scratch->texts.failed ? error_set(error, "out of memory") : 0;
}

/* ---- Truncation, template, padding ---- */
static void truncate_tokens(struct tokenizer_encoding *encoding, size_t most, bool left)
{
    if (encoding->count <= most)
        return;
    if (left)
        memmove(encoding->tokens, encoding->tokens + encoding->count - most, most * sizeof *encoding->tokens);
    encoding->count = most;
}

const char *tokenizer_token_text(const struct tokenizer *tokenizer, const struct tokenizer_encoding *encoding,
                                 size_t index, size_t *length)
{
    uint32_t text = encoding->tokens[index].text;
    if (text == TEXT_OF_ID)
        return vocabulary_text(&tokenizer->model.vocabulary, encoding->tokens[index].id, length);
    const struct texts *texts = &encoding->scratch->texts;
    size_t begin = text > 0 ? texts->ends[text - 1] : 0;
    *length = texts->ends[text] - begin;
    return texts->bytes ? texts->bytes + begin : "";
}

/* Counts the white-space characters at both ends of a token's text. ByteLevel's character for a space counts as white
 * space. */
static void count_spaces(const struct characters *characters, const char *text, size_t length, uint32_t *leading,
                         uint32_t *trailing)
{
    const uint32_t space = character_of_byte(' ');
    bool only = true;
    *leading = *trailing = 0;
    for (size_t at = 0; at < length;) {
        uint32_t code = utf8_next(text, &at);
        bool is_space = code == space || (character_flags(characters, code) & CHARACTER_SPACE);
        only = only && is_space;
        *leading += only;
        *trailing = is_space ? *trailing + 1 : 0;
    }
}

/* Removes white space from the offsets of `count` tokens, from token `begin` on. If `prefix_space` is true, the
 * pre-tokenizer has added a space before the first token, and this space is not counted. */
static void trim_offsets(const struct tokenizer *tokenizer, struct tokenizer_encoding *encoding, size_t begin,
                         size_t count, bool prefix_space)
{
    for (size_t i = begin; i < begin + count; i++) {
        struct encoded_token *token = &encoding->tokens[i];
        uint32_t leading, trailing;
        size_t length = 0;
        const char *text = tokenizer_token_text(tokenizer, encoding, i, &length);
        count_spaces(&tokenizer->characters, text ? text : "", length, &leading, &trailing);
        if (leading == 1 && prefix_space && (i == begin || token->begin == 0))
            leading = 0;
        token->begin = token->begin + leading < token->end ? token->begin + leading : token->end;
        if (token->end >= trailing && trailing > 0)
            token->end = token->end - trailing > token->begin ? token->end - trailing : token->begin;
    }
}

/* Writes the tokens of the template and of the text to `spare`, and then swaps `spare` and `tokens`. */
static int fill_template(const struct tokenizer *tokenizer, bool add_special_tokens,
                         struct tokenizer_encoding *encoding, struct error *error)
{
    const struct token_template *template = &tokenizer->template;
    struct scratch *scratch = encoding->scratch;
    size_t total = 0, at = 0;
    for (size_t i = 0; i < template->count; i++)
        total += template->places[i].text ? add_special_tokens : encoding->count;
    struct encoded_token *to = grow(&scratch->spare, &scratch->spare_capacity, total + 1);
    if (!to)
        return error_set(error, "out of memory");
    for (size_t i = 0; i < template->count; i++) {
        const struct template_place *place = &template->places[i];
        if (!place->text && encoding->count > 0) {
            memcpy(to + at, encoding->tokens, encoding->count * sizeof *to);
            at += encoding->count;
        } else if (place->text && add_special_tokens) {
            uint32_t text = own_text(scratch, place->text, place->length);
            to[at++] = (struct encoded_token){.id = place->id, .text = text, .special = true};
        }
    }
    struct encoded_token *tokens = encoding->tokens;
    size_t capacity = encoding->capacity;
    encoding->tokens = scratch->spare;
    encoding->capacity = scratch->spare_capacity;
    encoding->count = total;
    scratch->spare = tokens;
    scratch->spare_capacity = capacity;
    return scratch->texts.failed ? error_set(error, "out of memory") : 0;
}

/* Removes white space from the offsets. Processes each place of the template separately, or all places as one
 * sequence. */
static void trim_places(const struct tokenizer *tokenizer, bool add_special_tokens, size_t count,
                        struct tokenizer_encoding *encoding)
{
    const struct token_template *template = &tokenizer->template;
    if (template->one_sequence) {
        trim_offsets(tokenizer, encoding, 0, encoding->count, template->prefix_after);
        return;
    }
    size_t at = 0;
    for (size_t i = 0; i < template->count; i++) {
        size_t here = template->places[i].text ? add_special_tokens : count;
        trim_offsets(tokenizer, encoding, at, here, template->prefix_after);
        at += here;
    }
}

static int apply_template(const struct tokenizer *tokenizer, bool add_special_tokens,
                          struct tokenizer_encoding *encoding, struct error *error)
{
    const struct token_template *template = &tokenizer->template;
    size_t count = encoding->count;
    if (template->trims_before)
        trim_offsets(tokenizer, encoding, 0, count, template->prefix_before);
    if (template->has_places && fill_template(tokenizer, add_special_tokens, encoding, error) != 0)
        return -1;
    if (template->trims_after)
        trim_places(tokenizer, add_special_tokens, count, encoding);
    return 0;
}

static int pad_tokens(const struct pad_section *padding, struct tokenizer_encoding *encoding, struct error *error)
{
    size_t count = encoding->count;
    size_t wanted = padding->length >= 0 ? (size_t)padding->length : count;
    if (padding->multiple_of > 0)
        wanted =
            (wanted + (size_t)padding->multiple_of - 1) / (size_t)padding->multiple_of * (size_t)padding->multiple_of;
    if (wanted <= count)
        return 0;
    if (!grow(&encoding->tokens, &encoding->capacity, wanted))
        return error_set(error, "out of memory");
    uint32_t text = own_text(encoding->scratch, padding->text, padding->text_length);
    size_t first = padding->left ? 0 : count;
    if (padding->left)
        memmove(encoding->tokens + wanted - count, encoding->tokens, count * sizeof *encoding->tokens);
    for (size_t i = first; i < first + wanted - count; i++)
        encoding->tokens[i] = (struct encoded_token){.id = padding->id, .text = text, .special = true};
    encoding->count = wanted;
    return encoding->scratch->texts.failed ? error_set(error, "out of memory") : 0;
}

/* ---- The public functions ---- */
static int encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                  const struct tokenizer_options *options, struct tokenizer_encoding *encoding, struct error *error)
{
    struct scratch *scratch = encoding->scratch;
    size_t added = options->add_special_tokens ? tokenizer->template.added : 0;
    size_t most = options->max_length > added ? options->max_length - added : 0;
    if (length >= MAX_TEXT_BYTES)
        return error_set(error, "expected a text below 1 GiB, found %zu bytes", length);
    scratch->texts.count = scratch->texts.length = 0;
    scratch->texts.failed = false;
    if (take_text(scratch, text, length, error) != 0 || cut_text(tokenizer, scratch, error) != 0 ||
        encode_pieces(tokenizer, scratch, options->truncate_left ? SIZE_MAX : most, encoding, error) != 0)
        return -1;
    truncate_tokens(encoding, most, options->truncate_left);
    if (apply_template(tokenizer, options->add_special_tokens, encoding, error) != 0)
        return -1;
    return options->pad && tokenizer->padding.is_there ? pad_tokens(&tokenizer->padding, encoding, error) : 0;
}

int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                     const struct tokenizer_options *options, struct tokenizer_encoding *encoding, struct error *error)
{
    encoding->count = 0;
    if (!encoding->scratch)
        encoding->scratch = calloc(1, sizeof *encoding->scratch);
    if (!encoding->scratch)
        return error_set(error, "out of memory");
    int status = encode(tokenizer, text, length, options, encoding, error);
    if (status != 0)
        encoding->count = 0;
    return status;
}

void tokenizer_encoding_free(struct tokenizer_encoding *encoding)
{
    struct scratch *scratch = encoding->scratch;
    if (scratch) {
        free(scratch->valid);
        free(scratch->blocks);
        pieces_free(&scratch->raw);
        aligned_free(&scratch->normalized);
        normalizer_work_free(&scratch->normalizer);
        cutting_free(&scratch->cutting);
        model_work_free(&scratch->model);
        texts_free(&scratch->texts);
        free(scratch->spare);
    }
    free(scratch);
    free(encoding->tokens);
    *encoding = (struct tokenizer_encoding){0};
}
