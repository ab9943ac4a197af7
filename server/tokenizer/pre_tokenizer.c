/* pre_tokenizer: each step reads a list of pieces and writes another list. */
#include "server/tokenizer/pre_tokenizer.h"

#include "server/tokenizer/pattern.h"
#include "server/tokenizer/reader.h"

#include <stdlib.h>
#include <string.h>

#define SEQUENCE_DEPTH 32

enum cut_kind {
    CUT_BERT,
    CUT_BYTE_LEVEL,
    CUT_DELIMITER,
    CUT_METASPACE,
    CUT_WHITESPACE,
    CUT_SEQUENCE,
    CUT_SPLIT,
    CUT_PUNCTUATION,
    CUT_WHITESPACE_SPLIT,
    CUT_DIGITS,
    CUT_UNICODE_SCRIPTS,
    CUT_FIXED_LENGTH,
    CUT_COUNT,
};

static const char *const cut_names[CUT_COUNT + 1] = {
    "BertPreTokenizer", "ByteLevel",  "CharDelimiterSplit", "Metaspace",       "Whitespace",
    "Sequence",         "Split",      "Punctuation",        "WhitespaceSplit", "Digits",
    "UnicodeScripts",   "FixedLength"};

enum behavior { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };

static const char *const behavior_names[] = {"Removed",        "Isolated",   "MergedWithPrevious",
                                             "MergedWithNext", "Contiguous", NULL};

enum prepend { PREPEND_FIRST, PREPEND_NEVER, PREPEND_ALWAYS };

static const char *const prepend_names[] = {"first", "never", "always", NULL};

struct pre_tokenizer_step {
    enum cut_kind kind;
    int behavior;           /* member of Split, Punctuation and Digits */
    bool invert;            /* member of Split */
    struct pattern pattern; /* member of Split, and of ByteLevel with use_regex */
    bool add_prefix_space, use_regex;
    uint32_t character; /* the delimiter of CharDelimiterSplit, or the replacement character of Metaspace */
    int prepend;
    bool split;     /* member of Metaspace */
    int64_t length; /* member of FixedLength, in characters */
};

/* ---- Segments to pieces ---- */
/* Joins segments to pieces as the behavior prescribes. A segment is a match, or the text between two matches. */
struct joiner {
    struct pieces *to;
    int behavior;
    bool last_matched; /* the previous segment was a match */
    bool any;          /* there is an unfinished piece */
    size_t begin, end; /* range of bytes of the unfinished piece */
};

static void joiner_flush(struct joiner *joiner)
{
    if (joiner->any)
        pieces_add(joiner->to, joiner->begin, joiner->end, -1);
    joiner->any = false;
}

static void joiner_add(struct joiner *joiner, size_t begin, size_t end, bool matched)
{
    bool before = joiner->last_matched;
    joiner->last_matched = matched;
    if (joiner->behavior == REMOVED && matched)
        return;
    bool joins = (joiner->behavior == CONTIGUOUS && matched == before) ||
                 (joiner->behavior == MERGED_WITH_PREVIOUS && matched && !before) ||
                 (joiner->behavior == MERGED_WITH_NEXT && !matched && before);
    if (joiner->any && joins) {
        joiner->end = end;
        return;
    }
    joiner_flush(joiner);
    joiner->any = true;
    joiner->begin = begin;
    joiner->end = end;
}

/* ---- Steps that only cut ---- */
/* The input and the output of a step for one piece. */
struct cut {
    const struct characters *characters;
    const struct pre_tokenizer_step *step;
    const char *text; /* the whole text, which contains the piece */
    struct text_piece piece;
    struct pieces *to;
};

/* Cuts at each character that has one of the flags. If `flags` is 0, cuts at each character equal to the step's
 * character. */
static void cut_at_characters(const struct cut *cut, unsigned flags, int behavior)
{
    struct joiner joiner = {.to = cut->to, .behavior = behavior};
    size_t copied = cut->piece.begin;
    for (size_t at = cut->piece.begin; at < cut->piece.end;) {
        size_t begin = at;
        uint32_t code = utf8_next(cut->text, &at);
        if (flags ? !(character_flags(cut->characters, code) & flags) : code != cut->step->character)
            continue;
        if (copied != begin)
            joiner_add(&joiner, copied, begin, false);
        joiner_add(&joiner, begin, at, true);
        copied = at;
    }
    if (copied != cut->piece.end)
        joiner_add(&joiner, copied, cut->piece.end, false);
    joiner_flush(&joiner);
}

static int cut_at_pattern(const struct cut *cut, const struct pattern *pattern, int behavior, bool invert,
                          struct error *error)
{
    struct joiner joiner = {.to = cut->to, .behavior = behavior};
    struct pattern_search search;
    const char *text = cut->text + cut->piece.begin;
    size_t length = cut->piece.end - cut->piece.begin, copied = 0, begin, end;
    if (pattern_search_begin(&search, pattern, cut->characters, text, length, error) != 0)
        return -1;
    int status;
    size_t base = cut->piece.begin;
    while ((status = pattern_search_next(&search, &begin, &end, error)) > 0) {
        if (copied != begin)
            joiner_add(&joiner, base + copied, base + begin, invert);
        joiner_add(&joiner, base + begin, base + end, !invert);
        copied = end;
    }
    pattern_search_end(&search);
    if (copied != length)
        joiner_add(&joiner, base + copied, base + length, invert);
    joiner_flush(&joiner);
    return status;
}

/* Cuts a piece into runs of characters of the same class. White space is left out. All other characters belong to two
 * classes. The second class contains the characters with (flags & other) == wanted. If `single` is true, each character
 * of the second class is a piece by itself. */
static void cut_words(const struct cut *cut, unsigned other, unsigned wanted, bool single)
{
    size_t begin = cut->piece.begin;
    bool last_other = false;
    for (size_t at = begin; at < cut->piece.end;) {
        size_t here = at;
        unsigned flags = character_flags(cut->characters, utf8_next(cut->text, &at));
        bool is_space = flags & CHARACTER_SPACE, is_other = (flags & other) == wanted;
        if (is_space || is_other != last_other || (is_other && single)) {
            pieces_add(cut->to, begin, here, -1);
            begin = is_space ? at : here;
        }
        last_other = is_other;
    }
    pieces_add(cut->to, begin, cut->piece.end, -1);
}

static unsigned joined_script(uint32_t code)
{
    return code == ' ' ? 0 : character_script(code);
}

/* Cuts the piece where the script changes. Characters that belong to any script do not begin a new piece, and are left
 * out at the start of the piece. */
static void cut_scripts(const struct cut *cut)
{
    size_t begin = cut->piece.end;
    unsigned last = 0;
    for (size_t at = cut->piece.begin; at < cut->piece.end;) {
        size_t here = at;
        unsigned script = joined_script(utf8_next(cut->text, &at));
        if (script == 0 || script == last)
            continue;
        if (last != 0)
            pieces_add(cut->to, begin, here, -1);
        begin = here;
        last = script;
    }
    pieces_add(cut->to, begin, cut->piece.end, -1);
}

static void cut_lengths(const struct cut *cut)
{
    size_t begin = cut->piece.begin, at = begin;
    for (int64_t count = 1; at < cut->piece.end; count++) {
        utf8_next(cut->text, &at);
        if (count == cut->step->length) {
            pieces_add(cut->to, begin, at, -1);
            begin = at;
            count = 0;
        }
    }
    pieces_add(cut->to, begin, at, -1);
}

static int cut_piece(const struct cut *cut, struct error *error)
{
    const struct pre_tokenizer_step *step = cut->step;
    switch (step->kind) {
    case CUT_BERT:
        cut_words(cut, CHARACTER_PUNCTUATION, CHARACTER_PUNCTUATION, true);
        return 0;
    case CUT_WHITESPACE:
        cut_words(cut, CHARACTER_WORD, 0, false);
        return 0;
    case CUT_WHITESPACE_SPLIT:
        cut_at_characters(cut, CHARACTER_SPACE, REMOVED);
        return 0;
    case CUT_DELIMITER:
        cut_at_characters(cut, 0, REMOVED);
        return 0;
    case CUT_PUNCTUATION:
        cut_at_characters(cut, CHARACTER_PUNCTUATION, step->behavior);
        return 0;
    case CUT_DIGITS:
        cut_at_characters(cut, CHARACTER_NUMERIC, step->behavior);
        return 0;
    case CUT_METASPACE:
        cut_at_characters(cut, 0, MERGED_WITH_NEXT);
        return 0;
    case CUT_UNICODE_SCRIPTS:
        cut_scripts(cut);
        return 0;
    case CUT_FIXED_LENGTH:
        cut_lengths(cut);
        return 0;
    case CUT_SPLIT:
        return cut_at_pattern(cut, &step->pattern, step->behavior, step->invert, error);
    case CUT_BYTE_LEVEL:
        return cut_at_pattern(cut, &step->pattern, ISOLATED, false, error);
    case CUT_SEQUENCE:
    case CUT_COUNT:
        break;
    }
    return error_set(error, "unknown step of the pre-tokenizer");
}

static void swap_pieces(struct cutting *cutting)
{
    struct pieces pieces = cutting->pieces;
    cutting->pieces = cutting->spare;
    cutting->spare = pieces;
}

static int cut_all(const struct pre_tokenizer_step *step, const struct characters *characters, struct cutting *cutting,
                   struct error *error)
{
    struct pieces *to = &cutting->spare;
    to->count = 0;
    for (size_t i = 0; i < cutting->pieces.count; i++) {
        struct text_piece piece = cutting->pieces.items[i];
        struct cut cut = {characters, step, cutting->text.bytes, piece, to};
        if (piece.id >= 0)
            pieces_add(to, piece.begin, piece.end, piece.id);
        else if (cut_piece(&cut, error) != 0)
            return -1;
    }
    if (to->failed)
        return error_set(error, "out of memory");
    swap_pieces(cutting);
    return 0;
}

/* ---- Steps that change the text ---- */
typedef void rewrite_function(const struct pre_tokenizer_step *, const struct view *, struct aligned *);

static bool begins_with(const struct view *part, uint32_t code)
{
    size_t at = 0;
    return part->length > 0 && utf8_next(part->bytes, &at) == code;
}

static void rewrite_metaspace(const struct pre_tokenizer_step *step, const struct view *part, struct aligned *to)
{
    bool begins = begins_with(part, step->character) || begins_with(part, ' ');
    struct span first = view_origin(part, 0);
    if (!begins && (step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && first.begin == 0)))
        aligned_put(to, step->character, first);
    for (size_t begin = 0, at = 0; at <= part->length; at++) {
        if (at < part->length && part->bytes[at] != ' ')
            continue;
        struct view word = view_part(part, begin, at);
        aligned_view(to, &word);
        if (at < part->length)
            aligned_put(to, step->character, view_origin(part, at));
        begin = at + 1;
    }
}

static void rewrite_prefix_space(const struct pre_tokenizer_step *step, const struct view *part, struct aligned *to)
{
    (void)step;
    if (!begins_with(part, ' '))
        aligned_put(to, ' ', view_origin(part, 0));
    aligned_view(to, part);
}

static void rewrite_bytes(const struct pre_tokenizer_step *step, const struct view *part, struct aligned *to)
{
    (void)step;
    for (size_t i = 0; i < part->length; i++)
        aligned_put(to, character_of_byte((unsigned char)part->bytes[i]), view_origin(part, i));
}

static int rewrite_all(const struct pre_tokenizer_step *step, rewrite_function *rewrite, struct cutting *cutting,
                       struct error *error)
{
    struct aligned *to = &cutting->turns[cutting->text.bytes == cutting->turns[0].bytes];
    aligned_clear(to);
    cutting->spare.count = 0;
    for (size_t i = 0; i < cutting->pieces.count && !to->failed; i++) {
        struct text_piece piece = cutting->pieces.items[i];
        struct view part = view_part(&cutting->text, piece.begin, piece.end);
        size_t begin = to->length;
        if (piece.id >= 0)
            aligned_view(to, &part);
        else
            rewrite(step, &part, to);
        pieces_add(&cutting->spare, begin, to->length, piece.id);
    }
    if (to->failed || cutting->spare.failed)
        return error_set(error, "out of memory");
    cutting->text = aligned_all(to);
    swap_pieces(cutting);
    return 0;
}

/* ---- Running ---- */
static bool wants_prefix_space(const struct cutting *cutting)
{
    for (size_t i = 0; i < cutting->pieces.count; i++)
        if (cutting->pieces.items[i].id < 0 && cutting->text.bytes[cutting->pieces.items[i].begin] != ' ')
            return true;
    return false;
}

static int run_byte_level(const struct pre_tokenizer_step *step, const struct characters *characters, bool keep_bytes,
                          struct cutting *cutting, struct error *error)
{
    if (step->add_prefix_space && wants_prefix_space(cutting) &&
        rewrite_all(step, rewrite_prefix_space, cutting, error) != 0)
        return -1;
    if (step->use_regex && cut_all(step, characters, cutting, error) != 0)
        return -1;
    return keep_bytes ? 0 : rewrite_all(step, rewrite_bytes, cutting, error);
}

int pre_tokenizer_run(const struct pre_tokenizer *pre_tokenizer, const struct characters *characters, bool keep_bytes,
                      struct cutting *cutting, struct error *error)
{
    for (size_t i = 0; i < pre_tokenizer->count; i++) {
        const struct pre_tokenizer_step *step = &pre_tokenizer->steps[i];
        int status;
        if (step->kind == CUT_BYTE_LEVEL)
            status = run_byte_level(step, characters, keep_bytes && i + 1 == pre_tokenizer->count, cutting, error);
        else if (step->kind == CUT_METASPACE && !step->split)
            status = rewrite_all(step, rewrite_metaspace, cutting, error);
        else if (step->kind == CUT_METASPACE)
            status = rewrite_all(step, rewrite_metaspace, cutting, error) != 0 ||
                             cut_all(step, characters, cutting, error) != 0
                         ? -1
                         : 0;
        else
            status = cut_all(step, characters, cutting, error);
        if (status != 0)
            return -1;
    }
    return 0;
}

bool pre_tokenizer_ends_in_bytes(const struct pre_tokenizer *pre_tokenizer)
{
    return pre_tokenizer->count > 0 && pre_tokenizer->steps[pre_tokenizer->count - 1].kind == CUT_BYTE_LEVEL;
}

void cutting_free(struct cutting *cutting)
{
    aligned_free(&cutting->turns[0]);
    aligned_free(&cutting->turns[1]);
    pieces_free(&cutting->pieces);
    pieces_free(&cutting->spare);
}

/* ---- Reading ---- */
static int read_byte_level(const json_t *json, const char *where, struct pre_tokenizer_step *step, struct error *error)
{
    static const char *const keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    bool trim_offsets; /* the post-processor uses it, the pre-tokenizer does not */
    step->use_regex = true;
    step->pattern.kind = PATTERN_GPT2;
    if (part_keys(json, where, keys, error) != 0 ||
        part_bool(json, where, "add_prefix_space", true, &step->add_prefix_space, error) != 0 ||
        part_bool(json, where, "trim_offsets", true, &trim_offsets, error) != 0 ||
        part_bool(json, where, "use_regex", false, &step->use_regex, error) != 0)
        return -1;
    return 0;
}

/* Files of `tokenizers` before 0.15 contain add_prefix_space instead of prepend_scheme. */
static int read_metaspace(const json_t *json, const char *where, struct pre_tokenizer_step *step, struct error *error)
{
    static const char *const keys[] = {"type",    "replacement", "add_prefix_space", "prepend_scheme", "split",
                                       "str_rep", NULL};
    bool add_prefix_space = true;
    step->prepend = PREPEND_ALWAYS;
    step->split = true;
    if (part_keys(json, where, keys, error) != 0 ||
        part_character(json, where, "replacement", &step->character, error) != 0 ||
        part_bool(json, where, "add_prefix_space", false, &add_prefix_space, error) != 0 ||
        part_choice(json, where, "prepend_scheme", false, prepend_names, &step->prepend, error) != 0 ||
        part_bool(json, where, "split", false, &step->split, error) != 0)
        return -1;
    if (!add_prefix_space && step->prepend != PREPEND_NEVER)
        return error_set(error, "%s: prepend_scheme: expected \"never\" with add_prefix_space false", where);
    return 0;
}

static int read_split(const json_t *json, const char *where, struct pre_tokenizer_step *step, struct error *error)
{
    static const char *const keys[] = {"type", "pattern", "behavior", "invert", NULL};
    if (part_keys(json, where, keys, error) != 0 ||
        part_choice(json, where, "behavior", true, behavior_names, &step->behavior, error) != 0 ||
        part_bool(json, where, "invert", true, &step->invert, error) != 0)
        return -1;
    return pattern_read(json_object_get(json, "pattern"), where, &step->pattern, error);
}

static int read_arguments(const json_t *json, const char *where, struct pre_tokenizer_step *step, struct error *error)
{
    static const char *const none[] = {"type", NULL}, *const delimiter[] = {"type", "delimiter", NULL},
                             *const punctuation[] = {"type", "behavior", NULL},
                             *const digits[] = {"type", "individual_digits", NULL},
                             *const lengths[] = {"type", "length", NULL};
    bool individual = false;
    switch (step->kind) {
    case CUT_BYTE_LEVEL:
        return read_byte_level(json, where, step, error);
    case CUT_METASPACE:
        return read_metaspace(json, where, step, error);
    case CUT_SPLIT:
        return read_split(json, where, step, error);
    case CUT_DELIMITER:
        return part_keys(json, where, delimiter, error) != 0 ||
                       part_character(json, where, "delimiter", &step->character, error) != 0
                   ? -1
                   : 0;
    case CUT_PUNCTUATION:
        step->behavior = ISOLATED;
        return part_keys(json, where, punctuation, error) != 0 ||
                       part_choice(json, where, "behavior", false, behavior_names, &step->behavior, error) != 0
                   ? -1
                   : 0;
    case CUT_DIGITS:
        if (part_keys(json, where, digits, error) != 0 ||
            part_bool(json, where, "individual_digits", true, &individual, error) != 0)
            return -1;
        step->behavior = individual ? ISOLATED : CONTIGUOUS;
        return 0;
    case CUT_FIXED_LENGTH:
        step->length = 5;
        return part_keys(json, where, lengths, error) != 0 ||
                       part_integer(json, where, "length", false, 1, &step->length, error) != 0
                   ? -1
                   : 0;
    default:
        return part_keys(json, where, none, error);
    }
}

static int read_steps(const json_t *json, const char *where, int depth, struct pre_tokenizer *pre_tokenizer,
                      struct error *error)
{
    static const char *const sequence[] = {"type", "pretokenizers", NULL};
    int kind = 0;
    if (!part_type(json, where, error) || part_choice(json, where, "type", true, cut_names, &kind, error) != 0)
        return -1;
    if (kind != CUT_SEQUENCE) {
        struct pre_tokenizer_step *steps = realloc(pre_tokenizer->steps, (pre_tokenizer->count + 1) * sizeof *steps);
        if (!steps)
            return error_set(error, "%s: out of memory", where);
        pre_tokenizer->steps = steps;
        steps[pre_tokenizer->count] = (struct pre_tokenizer_step){.kind = (enum cut_kind)kind};
        return read_arguments(json, where, &steps[pre_tokenizer->count++], error);
    }
    const json_t *parts = json_object_get(json, "pretokenizers");
    if (part_keys(json, where, sequence, error) != 0)
        return -1;
    if (!json_is_array(parts))
        return error_set(error, "%s: pretokenizers: expected a list", where);
    if (depth == SEQUENCE_DEPTH)
        return error_set(error, "%s: a Sequence is nested more than %d times", where, SEQUENCE_DEPTH);
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (read_steps(json_array_get(parts, i), where, depth + 1, pre_tokenizer, error) != 0)
            return -1;
    return 0;
}

int pre_tokenizer_read(const json_t *json, struct pre_tokenizer *pre_tokenizer, struct error *error)
{
    *pre_tokenizer = (struct pre_tokenizer){0};
    if (!json || json_is_null(json))
        return 0;
    if (read_steps(json, "pre_tokenizer", 0, pre_tokenizer, error) == 0)
        return 0;
    pre_tokenizer_free(pre_tokenizer);
    return -1;
}

void pre_tokenizer_free(struct pre_tokenizer *pre_tokenizer)
{
    for (size_t i = 0; i < pre_tokenizer->count; i++)
        pattern_free(&pre_tokenizer->steps[i].pattern);
    free(pre_tokenizer->steps);
    *pre_tokenizer = (struct pre_tokenizer){0};
}
