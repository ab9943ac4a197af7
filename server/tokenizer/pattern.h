/* pattern: what a Split or a Replace looks for: a text, or a regular expression. */
#ifndef SERVER_PATTERN_H
#define SERVER_PATTERN_H

#include "server/tokenizer/characters.h"

#include "config/config.h"

#include <jansson.h>

struct re_pattern_buffer; /* Oniguruma's regex_t */
struct re_registers;
struct OnigMatchParamStruct;

enum pattern_kind {
    PATTERN_TEXT,
    PATTERN_EXPRESSION, /* by Oniguruma */
    PATTERN_GPT2,       /* the expressions of GPT-2 and its successors, by hand-written scanners */
    PATTERN_CL100K,
};

struct pattern {
    enum pattern_kind kind;
    char *text; /* PATTERN_TEXT, (length), not empty */
    size_t length;
    struct re_pattern_buffer *expression; /* PATTERN_EXPRESSION */
    int most_digits;                      /* PATTERN_CL100K: of one match */
};

/* Reads {"String": …} or {"Regex": …}. After success pattern_free is owed. */
int pattern_read(const json_t *json, const char *where, struct pattern *pattern, struct error *error);
int pattern_compile(const char *expression, size_t length, const char *where, struct pattern *pattern,
                    struct error *error);
void pattern_free(struct pattern *pattern); /* twice, or when zeroed, is harmless */

/* A search through one text, for non-overlapping matches from left to right. */
struct pattern_search {
    const struct pattern *pattern;
    const struct characters *characters;
    const char *text;
    size_t length;
    size_t at;       /* where the next search begins; beyond `length`: nowhere */
    size_t last_end; /* of the last match; SIZE_MAX: none. An empty match must not follow it at once */
    struct re_registers *region;
    struct OnigMatchParamStruct *limits;
};

/* After success pattern_search_end is owed. */
int pattern_search_begin(struct pattern_search *search, const struct pattern *pattern,
                         const struct characters *characters, const char *text, size_t length, struct error *error);

/* 1: found, and *begin and *end are set. 0: no more. -1: memory is out, or the expression takes too many steps. */
int pattern_search_next(struct pattern_search *search, size_t *begin, size_t *end, struct error *error);
void pattern_search_end(struct pattern_search *search);

#endif
