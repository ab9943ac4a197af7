/* pattern: a text or a regular expression that the steps Split and Replace search for. */
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
    PATTERN_EXPRESSION, /* a regular expression, searched by the library Oniguruma */
    PATTERN_GPT2,       /* the regular expression of GPT-2, searched by a hand-written scanner (scanner.h) */
    PATTERN_CL100K,     /* the regular expression of GPT-2's successors, searched by another scanner in scanner.h */
};

struct pattern {
    enum pattern_kind kind;
    char *text; /* for PATTERN_TEXT: the text (length), which is not empty */
    size_t length;
    struct re_pattern_buffer *expression; /* for PATTERN_EXPRESSION: the compiled expression */
    int most_digits;                      /* for PATTERN_CL100K: maximum number of digits in one match */
};

/* Reads {"String": …} or {"Regex": …}. After success the caller must call pattern_free. */
int pattern_read(const json_t *json, const char *where, struct pattern *pattern, struct error *error);
int pattern_compile(const char *expression, size_t length, const char *where, struct pattern *pattern,
                    struct error *error);
void pattern_free(struct pattern *pattern); /* may be called twice, or for a zeroed struct */

/* A search through one text, for non-overlapping matches from left to right. */
struct pattern_search {
    const struct pattern *pattern;
    const struct characters *characters;
    const char *text;
    size_t length;
    size_t at;       /* where the next search begins. If it is larger than `length`, the search is over */
    size_t last_end; /* end of the last match. SIZE_MAX if there is none. An empty match directly after the last match
                        is skipped */
    struct re_registers *region;
    struct OnigMatchParamStruct *limits;
};

/* After success the caller must call pattern_search_end. */
int pattern_search_begin(struct pattern_search *search, const struct pattern *pattern,
                         const struct characters *characters, const char *text, size_t length, struct error *error);

/* Returns 1 and sets *begin and *end if there is a match. Returns 0 if there are no more matches. Returns -1 if memory
 * is lacking, or if the expression takes too many steps. */
int pattern_search_next(struct pattern_search *search, size_t *begin, size_t *end, struct error *error);
void pattern_search_end(struct pattern_search *search);

#endif
