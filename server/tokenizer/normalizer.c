/* normalizer: each step reads a text and writes a new text, or leaves the text unchanged. */
#include "server/tokenizer/normalizer.h"

#include "server/tokenizer/pattern.h"
#include "server/tokenizer/precompiled.h"
#include "server/tokenizer/reader.h"

#include <stdlib.h>
#include <string.h>

#define SEQUENCE_DEPTH 32

enum step_kind {
    STEP_BERT,
    STEP_STRIP,
    STEP_STRIP_ACCENTS,
    STEP_NFC,
    STEP_NFD,
    STEP_NFKC,
    STEP_NFKD,
    STEP_SEQUENCE,
    STEP_LOWERCASE,
    STEP_NMT,
    STEP_PRECOMPILED,
    STEP_REPLACE,
    STEP_PREPEND,
    STEP_BYTE_LEVEL,
    STEP_COUNT,
};

static const char *const step_names[STEP_COUNT + 1] = {"BertNormalizer", "Strip",   "StripAccents", "NFC",       "NFD",
                                                       "NFKC",           "NFKD",    "Sequence",     "Lowercase", "Nmt",
                                                       "Precompiled",    "Replace", "Prepend",      "ByteLevel"};

struct normalizer_step {
    enum step_kind kind;
    bool clean, chinese, accents, lowercase; /* members of BertNormalizer. `accents` means that accents are removed */
    bool left, right;                        /* members of Strip */
    struct pattern pattern;                  /* member of Replace */
    char *text;                              /* (length): content of Replace, or prefix of Prepend */
    size_t length;
    struct precompiled precompiled;
};

/* The arguments that all steps of a run share. */
struct run {
    const struct characters *characters;
    struct normalizer_work *work;
    struct span start; /* the start of the text, as a span of the original text */
};

/* ---- Steps that process one character at a time ---- */
static bool is_nmt_control(uint32_t code)
{
    return (code >= 1 && code <= 8) || code == 0x0b || (code >= 0x0e && code <= 0x1f) || code == 0x7f || code == 0x8f ||
           code == 0x9f;
}

static bool is_nmt_space(uint32_t code)
{
    return code == 0x09 || code == 0x0a || code == 0x0c || code == 0x0d || code == 0x1680 ||
           (code >= 0x200b && code <= 0x200f) || code == 0x2028 || code == 0x2029 || code == 0x2581 || code == 0xfeff ||
           code == 0xfffd;
}

static void put_nmt(struct aligned *to, const struct characters *characters, uint32_t code, struct span origin)
{
    (void)characters;
    if (!is_nmt_control(code))
        aligned_put(to, is_nmt_space(code) ? ' ' : code, origin);
}

static void put_clean(struct aligned *to, const struct characters *characters, uint32_t code, struct span origin)
{
    unsigned flags = character_flags(characters, code);
    bool is_space = code == '\t' || code == '\n' || code == '\r' || (flags & CHARACTER_SPACE);
    if (!(flags & CHARACTER_CONTROL))
        aligned_put(to, is_space ? ' ' : code, origin);
}

static void put_chinese(struct aligned *to, const struct characters *characters, uint32_t code, struct span origin)
{
    (void)characters;
    bool chinese = character_is_chinese(code);
    if (chinese)
        aligned_put(to, ' ', origin);
    aligned_put(to, code, origin);
    if (chinese)
        aligned_put(to, ' ', origin);
}

static void put_without_nonspacing(struct aligned *to, const struct characters *characters, uint32_t code,
                                   struct span origin)
{
    if (!(character_flags(characters, code) & CHARACTER_NONSPACING))
        aligned_put(to, code, origin);
}

static void put_without_marks(struct aligned *to, const struct characters *characters, uint32_t code,
                              struct span origin)
{
    if (!(character_flags(characters, code) & CHARACTER_MARK))
        aligned_put(to, code, origin);
}

static void put_lowercase(struct aligned *to, const struct characters *characters, uint32_t code, struct span origin)
{
    (void)characters;
    if (code == 0x130) {
        aligned_put(to, 'i', origin);
        code = 0x307;
    }
    aligned_put(to, character_lower(code), origin);
}

static void put_bytes(struct aligned *to, const struct characters *characters, uint32_t code, struct span origin)
{
    char bytes[4];
    size_t size = utf8_write(code, bytes);
    (void)characters;
    for (size_t i = 0; i < size; i++)
        aligned_put(to, character_of_byte((unsigned char)bytes[i]), origin);
}

typedef void put_function(struct aligned *, const struct characters *, uint32_t, struct span);

/* Of the two texts in run->work, empties and returns the one that does not contain the view. */
static struct aligned *other_turn(const struct run *run, const struct view *view)
{
    const struct aligned *first = &run->work->turns[0];
    bool in_first = first->bytes && view->bytes >= first->bytes && view->bytes < first->bytes + first->capacity;
    struct aligned *to = &run->work->turns[in_first];
    aligned_clear(to);
    return to;
}

static int finish(const struct aligned *to, struct view *view, struct error *error)
{
    if (to->failed)
        return error_set(error, "out of memory");
    *view = aligned_all(to);
    return 0;
}

static int each_character(const struct run *run, struct view *view, put_function *put, struct error *error)
{
    struct aligned *to = other_turn(run, view);
    for (size_t at = 0; at < view->length;) {
        size_t begin = at;
        uint32_t code = utf8_next(view->bytes, &at);
        put(to, run->characters, code, view_origin(view, begin));
    }
    return finish(to, view, error);
}

/* ---- The other steps ---- */
static int run_normal_form(const struct run *run, enum normal_form form, struct view *view, struct error *error)
{
    if (text_is_ascii(view->bytes, view->length))
        return 0;
    struct transform transform = {.from = *view, .start = run->start, .to = other_turn(run, view)};
    if (normal_form_put(form, run->characters, &run->work->normal_form, &transform) != 0)
        return error_set(error, "out of memory");
    return finish(transform.to, view, error);
}

static int run_bert_ascii(const struct run *run, const struct normalizer_step *step, struct view *view,
                          struct error *error)
{
    struct aligned *to = other_turn(run, view);
    for (size_t at = 0; at < view->length; at++) {
        unsigned char byte = (unsigned char)view->bytes[at];
        if (step->clean && (run->characters->flags[byte] & CHARACTER_CONTROL))
            continue;
        if (step->clean && (run->characters->flags[byte] & CHARACTER_SPACE))
            byte = ' ';
        if (step->lowercase && byte >= 'A' && byte <= 'Z')
            byte += 'a' - 'A';
        aligned_put(to, byte, view_origin(view, at));
    }
    return finish(to, view, error);
}

static int run_bert(const struct run *run, const struct normalizer_step *step, struct view *view, struct error *error)
{
    if (text_is_ascii(view->bytes, view->length))
        return run_bert_ascii(run, step, view, error);
    if (step->clean && each_character(run, view, put_clean, error) != 0)
        return -1;
    if (step->chinese && each_character(run, view, put_chinese, error) != 0)
        return -1;
    if (step->accents && (run_normal_form(run, NORMAL_FORM_D, view, error) != 0 ||
                          each_character(run, view, put_without_nonspacing, error) != 0))
        return -1;
    return step->lowercase ? each_character(run, view, put_lowercase, error) : 0;
}

static void run_strip(const struct run *run, const struct normalizer_step *step, struct view *view)
{
    size_t begin = 0, end = view->length;
    while (step->left && begin < end) {
        size_t next = begin;
        if (!(character_flags(run->characters, utf8_next(view->bytes, &next)) & CHARACTER_SPACE))
            break;
        begin = next;
    }
    while (step->right && end > begin) {
        size_t last = end - 1, next;
        while (utf8_continues(view->bytes[last]))
            last--;
        next = last;
        if (!(character_flags(run->characters, utf8_next(view->bytes, &next)) & CHARACTER_SPACE))
            break;
        end = last;
    }
    *view = view_part(view, begin, end);
}

static int run_replace(const struct run *run, const struct normalizer_step *step, struct view *view,
                       struct error *error)
{
    if (view->length == 0)
        return 0;
    struct pattern_search search;
    if (pattern_search_begin(&search, &step->pattern, run->characters, view->bytes, view->length, error) != 0)
        return -1;
    struct aligned *to = NULL;
    size_t copied = 0, begin, end;
    int status;
    while ((status = pattern_search_next(&search, &begin, &end, error)) > 0) {
        to = to ? to : other_turn(run, view);
        struct view before = view_part(view, copied, begin);
        aligned_view(to, &before);
        aligned_bytes(to, step->text, step->length, end > 0 ? view_origin(view, end - 1) : run->start);
        copied = end;
    }
    pattern_search_end(&search);
    if (status < 0 || !to)
        return status;
    struct view rest = view_part(view, copied, view->length);
    aligned_view(to, &rest);
    return finish(to, view, error);
}

/* Adds the prefix, whose origin is the origin of the first character. As in `tokenizers`, an empty prefix changes the
 * origin of the first character to run->start. */
static int run_prepend(const struct run *run, const struct normalizer_step *step, struct view *view,
                       struct error *error)
{
    if (view->length == 0)
        return 0;
    struct aligned *to = other_turn(run, view);
    size_t next = utf8_size((unsigned char)view->bytes[0]);
    struct span origin = step->length > 0 ? view_origin(view, 0) : run->start;
    struct view rest = view_part(view, next, view->length);
    aligned_bytes(to, step->text, step->length, origin);
    aligned_bytes(to, view->bytes, next, origin);
    aligned_view(to, &rest);
    return finish(to, view, error);
}

static int run_precompiled(const struct run *run, const struct normalizer_step *step, struct view *view,
                           struct error *error)
{
    struct transform transform = {.from = *view, .start = run->start, .to = other_turn(run, view)};
    if (precompiled_put(&step->precompiled, &transform) != 0)
        return error_set(error, "out of memory");
    return finish(transform.to, view, error);
}

static int run_step(const struct run *run, const struct normalizer_step *step, struct view *view, struct error *error)
{
    switch (step->kind) {
    case STEP_BERT:
        return run_bert(run, step, view, error);
    case STEP_STRIP:
        run_strip(run, step, view);
        return 0;
    case STEP_STRIP_ACCENTS:
        return each_character(run, view, put_without_marks, error);
    case STEP_NFC:
        return run_normal_form(run, NORMAL_FORM_C, view, error);
    case STEP_NFD:
        return run_normal_form(run, NORMAL_FORM_D, view, error);
    case STEP_NFKC:
        return run_normal_form(run, NORMAL_FORM_KC, view, error);
    case STEP_NFKD:
        return run_normal_form(run, NORMAL_FORM_KD, view, error);
    case STEP_LOWERCASE:
        return each_character(run, view, put_lowercase, error);
    case STEP_NMT:
        return each_character(run, view, put_nmt, error);
    case STEP_PRECOMPILED:
        return run_precompiled(run, step, view, error);
    case STEP_REPLACE:
        return run_replace(run, step, view, error);
    case STEP_PREPEND:
        return run_prepend(run, step, view, error);
    case STEP_BYTE_LEVEL:
        return each_character(run, view, put_bytes, error);
    case STEP_SEQUENCE:
    case STEP_COUNT:
        break;
    }
    return error_set(error, "unknown step of the normalizer");
}

int normalizer_run(const struct normalizer *normalizer, const struct characters *characters,
                   struct normalizer_work *work, struct view *view, struct error *error)
{
    uint32_t begin = view->length > 0 ? view_origin(view, 0).begin : view->base;
    struct run run = {characters, work, {begin, begin}};
    for (size_t i = 0; i < normalizer->count; i++)
        if (run_step(&run, &normalizer->steps[i], view, error) != 0)
            return -1;
    return 0;
}

void normalizer_work_free(struct normalizer_work *work)
{
    aligned_free(&work->turns[0]);
    aligned_free(&work->turns[1]);
    normal_form_free(&work->normal_form);
}

/* ---- Reading ---- */
static int read_content(const json_t *json, const char *where, const char *key, struct normalizer_step *step,
                        struct error *error)
{
    const char *text = NULL;
    if (part_text(json, where, key, true, false, &text, &step->length, error) != 0)
        return -1;
    step->text = malloc(step->length + 1);
    if (!step->text)
        return error_set(error, "%s: out of memory", where);
    memcpy(step->text, text, step->length);
    return 0;
}

static int read_bert(const json_t *json, const char *where, struct normalizer_step *step, struct error *error)
{
    static const char *const keys[] = {"type",          "clean_text", "handle_chinese_chars",
                                       "strip_accents", "lowercase",  NULL};
    if (part_keys(json, where, keys, error) != 0 ||
        part_bool(json, where, "clean_text", true, &step->clean, error) != 0 ||
        part_bool(json, where, "handle_chinese_chars", true, &step->chinese, error) != 0 ||
        part_bool(json, where, "lowercase", true, &step->lowercase, error) != 0)
        return -1;
    step->accents = step->lowercase;
    if (json_is_null(json_object_get(json, "strip_accents")))
        return 0;
    return part_bool(json, where, "strip_accents", false, &step->accents, error);
}

static int read_arguments(const json_t *json, const char *where, struct normalizer_step *step, struct error *error)
{
    static const char *const none[] = {"type", NULL}, *const strip[] = {"type", "strip_left", "strip_right", NULL},
                             *const precompiled[] = {"type", "precompiled_charsmap", NULL},
                             *const replace[] = {"type", "pattern", "content", NULL},
                             *const prepend[] = {"type", "prepend", NULL};
    const char *text = NULL;
    size_t length = 0;
    switch (step->kind) {
    case STEP_BERT:
        return read_bert(json, where, step, error);
    case STEP_STRIP:
        if (part_keys(json, where, strip, error) != 0 ||
            part_bool(json, where, "strip_left", true, &step->left, error) != 0)
            return -1;
        return part_bool(json, where, "strip_right", true, &step->right, error);
    case STEP_PRECOMPILED:
        if (part_keys(json, where, precompiled, error) != 0 ||
            part_text(json, where, "precompiled_charsmap", true, false, &text, &length, error) != 0)
            return -1;
        return precompiled_read(text, length, where, &step->precompiled, error);
    case STEP_REPLACE:
        if (part_keys(json, where, replace, error) != 0 || read_content(json, where, "content", step, error) != 0)
            return -1;
        return pattern_read(json_object_get(json, "pattern"), where, &step->pattern, error);
    case STEP_PREPEND:
        if (part_keys(json, where, prepend, error) != 0)
            return -1;
        return read_content(json, where, "prepend", step, error);
    default:
        return part_keys(json, where, none, error);
    }
}

static int read_steps(const json_t *json, const char *where, int depth, struct normalizer *normalizer,
                      struct error *error)
{
    static const char *const sequence[] = {"type", "normalizers", NULL};
    int kind = 0;
    if (!part_type(json, where, error) || part_choice(json, where, "type", true, step_names, &kind, error) != 0)
        return -1;
    if (kind != STEP_SEQUENCE) {
        struct normalizer_step *steps = realloc(normalizer->steps, (normalizer->count + 1) * sizeof *steps);
        if (!steps)
            return error_set(error, "%s: out of memory", where);
        normalizer->steps = steps;
        steps[normalizer->count] = (struct normalizer_step){.kind = (enum step_kind)kind};
        return read_arguments(json, where, &steps[normalizer->count++], error);
    }
    const json_t *parts = json_object_get(json, "normalizers");
    if (part_keys(json, where, sequence, error) != 0)
        return -1;
    if (!json_is_array(parts))
        return error_set(error, "%s: normalizers: expected a list", where);
    if (depth == SEQUENCE_DEPTH)
        return error_set(error, "%s: a Sequence is nested more than %d times", where, SEQUENCE_DEPTH);
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (read_steps(json_array_get(parts, i), where, depth + 1, normalizer, error) != 0)
            return -1;
    return 0;
}

int normalizer_read(const json_t *json, struct normalizer *normalizer, struct error *error)
{
    *normalizer = (struct normalizer){0};
    if (!json || json_is_null(json))
        return 0;
    if (read_steps(json, "normalizer", 0, normalizer, error) == 0)
        return 0;
    normalizer_free(normalizer);
    return -1;
}

void normalizer_free(struct normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->count; i++) {
        pattern_free(&normalizer->steps[i].pattern);
        precompiled_free(&normalizer->steps[i].precompiled);
        free(normalizer->steps[i].text);
    }
    free(normalizer->steps);
    *normalizer = (struct normalizer){0};
}
