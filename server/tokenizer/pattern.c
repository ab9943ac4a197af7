/* pattern: searches a text in the same way as Rust's find_iter, with which `tokenizers` splits texts. */
#define _GNU_SOURCE /* memmem */

#include "server/tokenizer/pattern.h"

#include "server/tokenizer/reader.h"
#include "server/tokenizer/scanner.h"

#include <oniguruma.h>
#include <stdlib.h>
#include <string.h>

/* Regular expressions for which there is a hand-written scanner (scanner.h). */
static const struct {
    const char *expression;
    enum pattern_kind kind;
    int most_digits;
} scanned[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", PATTERN_GPT2, 0},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     PATTERN_CL100K, 3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     PATTERN_CL100K, 1},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
     "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     PATTERN_CL100K, 3},
};

int pattern_compile(const char *expression, size_t length, const char *where, struct pattern *pattern,
                    struct error *error)
{
    *pattern = (struct pattern){.kind = PATTERN_EXPRESSION};
    for (size_t i = 0; i < sizeof scanned / sizeof *scanned; i++)
        if (strlen(scanned[i].expression) == length && memcmp(scanned[i].expression, expression, length) == 0) {
            pattern->kind = scanned[i].kind;
            pattern->most_digits = scanned[i].most_digits;
            return 0;
        }
    OnigErrorInfo info;
    const OnigUChar *begin = (const OnigUChar *)expression;
    int status = onig_new(&pattern->expression, begin, begin + length, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                          ONIG_SYNTAX_ONIGURUMA, &info);
    if (status == ONIG_NORMAL)
        return 0;
    OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN];
    int message_length = onig_error_code_to_str(message, status, &info);
    pattern->expression = NULL;
    return error_set(error, "%s: the regular expression \"%.*s\": %.*s", where, (int)(length < 200 ? length : 200),
                     expression, message_length, (const char *)message);
}

static int read_text(const json_t *json, const char *where, struct pattern *pattern, struct error *error)
{
    size_t length = json_string_length(json);
    if (length == 0) /* an empty text matches everywhere, like an empty expression */
        return pattern_compile("", 0, where, pattern, error);
    *pattern = (struct pattern){.kind = PATTERN_TEXT, .length = length, .text = malloc(length)};
    if (!pattern->text)
        return error_set(error, "%s: out of memory", where);
    memcpy(pattern->text, json_string_value(json), length);
    return 0;
}

int pattern_read(const json_t *json, const char *where, struct pattern *pattern, struct error *error)
{
    const json_t *text = json_object_get(json, "String"), *expression = json_object_get(json, "Regex");
    if (json_object_size(json) == 1 && json_is_string(text))
        return read_text(text, where, pattern, error);
    if (json_object_size(json) == 1 && json_is_string(expression))
        return pattern_compile(json_string_value(expression), json_string_length(expression), where, pattern, error);
    return error_set(error, "%s: pattern: expected {\"String\": …} or {\"Regex\": …}", where);
}

void pattern_free(struct pattern *pattern)
{
    free(pattern->text);
    if (pattern->expression)
        onig_free(pattern->expression);
    *pattern = (struct pattern){0};
}

/* Limits the steps of a search, so that long backtracking fails instead of blocking the daemon. */
static void set_limits(OnigMatchParam *limits, size_t length)
{
    onig_initialize_match_param(limits);
    onig_set_match_stack_limit_size_of_match_param(limits, (unsigned int)(1000000 + 2 * length));
    onig_set_retry_limit_in_match_of_match_param(limits, 1000000 + 16 * (unsigned long)length);
    onig_set_retry_limit_in_search_of_match_param(limits, 4000000 + 64 * (unsigned long)length);
}

int pattern_search_begin(struct pattern_search *search, const struct pattern *pattern,
                         const struct characters *characters, const char *text, size_t length, struct error *error)
{
    *search = (struct pattern_search){
        .pattern = pattern, .characters = characters, .text = text, .length = length, .last_end = SIZE_MAX};
    if (pattern->kind != PATTERN_EXPRESSION)
        return 0;
    search->region = onig_region_new();
    search->limits = onig_new_match_param();
    if (!search->region || !search->limits) {
        pattern_search_end(search);
        return error_set(error, "out of memory");
    }
    set_limits(search->limits, length);
    return 0;
}

void pattern_search_end(struct pattern_search *search)
{
    if (search->region)
        onig_region_free(search->region, 1);
    if (search->limits)
        onig_free_match_param(search->limits);
    search->region = NULL;
    search->limits = NULL;
}

static int next_text(struct pattern_search *search, size_t *begin, size_t *end)
{
    const struct pattern *pattern = search->pattern;
    const char *found = memmem(search->text + search->at, search->length - search->at, pattern->text, pattern->length);
    if (!found)
        return 0;
    *begin = (size_t)(found - search->text);
    *end = search->at = *begin + pattern->length;
    return 1;
}

/* Finds the next match. An empty match directly after the last match is skipped, and the search continues at the next
 * character. */
static int next_expression(struct pattern_search *search, size_t *begin, size_t *end, struct error *error)
{
    const OnigUChar *text = (const OnigUChar *)search->text, *stop = text + search->length;
    while (search->at <= search->length) {
        onig_region_clear(search->region);
        int status = onig_search_with_param(search->pattern->expression, text, stop, text + search->at, stop,
                                            search->region, ONIG_OPTION_NONE, search->limits);
        if (status == ONIG_MISMATCH)
            return 0;
        if (status < 0)
            return error_set(error, "a regular expression of the tokenizer needs too many steps for this text");
        *begin = (size_t)search->region->beg[0];
        *end = (size_t)search->region->end[0];
        if (*begin != *end || *end != search->last_end) {
            search->at = search->last_end = *end;
            return 1;
        }
        search->at += search->at < search->length ? utf8_size(text[search->at]) : 1;
    }
    return 0;
}

int pattern_search_next(struct pattern_search *search, size_t *begin, size_t *end, struct error *error)
{
    if (search->pattern->kind == PATTERN_EXPRESSION)
        return next_expression(search, begin, end, error);
    if (search->at >= search->length)
        return 0;
    if (search->pattern->kind == PATTERN_TEXT)
        return next_text(search, begin, end);
    *begin = search->at;
    if (search->pattern->kind == PATTERN_GPT2)
        *end = scanner_gpt2(search->characters, search->text, search->length, search->at);
    else
        *end =
            scanner_cl100k(search->characters, search->text, search->length, search->at, search->pattern->most_digits);
    search->at = *end;
    return 1;
}
