/* numbers: lists of numbers in a body's JSON, read where they lie, without an object for each number.
 *
 * A shortcut beside jansson, which alone says what is wrong with a body. It takes one list that is JSON without doubt,
 * and jansson gets the body with an empty list in its place; whatever is unusual is left to jansson altogether. What
 * numbers_read gives is what jansson's values would have given. */
#ifndef SERVER_NUMBERS_H
#define SERVER_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBERS_DEPTH 3  /* lists within lists */
#define NUMBERS_REST 512 /* bytes of a body beside the list */

/* Points into the body. */
struct numbers {
    const char *text; /* NULL: none */
    size_t length;
    int depth;                    /* of all its innermost lists, 1 to NUMBERS_DEPTH; none is empty */
    bool whole;                   /* no number has a fraction or an exponent */
    int64_t lists[NUMBERS_DEPTH]; /* at depth 1, which is 1, at depth 2 … */
    int64_t count;                /* numbers */
};

/* Looks for the first of the members `key` and `other` (NULL: none) of the object that the body is. False: it is not
 * there, or not such a list, or the rest of the body is long, or who knows. */
bool numbers_find(const char *body, size_t length, const char *key, const char *other, struct numbers *numbers);

/* The body with [] in the list's place. Returns its length. */
size_t numbers_rest(const struct numbers *numbers, const char *body, size_t length, char rest[NUMBERS_REST + 2]);

/* What is wanted of them, and where it goes. */
struct numbers_target {
    int32_t *ids;    /* (count), or */
    float *floats;   /* (count) */
    int64_t below;   /* ids: 0 <= id < below */
    int64_t columns; /* floats: in each innermost list */
    int item_depth;  /* of the lists that `ends` counts, at most depth */
    int64_t *ends;   /* (lists[item_depth - 1]): numbers up to the end of each */
};

/* False: a number or a list is not as wanted; a float is not finite. */
bool numbers_read(const struct numbers *numbers, const struct numbers_target *target);

#endif
