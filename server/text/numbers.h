/* numbers: lists of numbers in a body's JSON, read from its text. jansson would allocate an object for each number.
 *
 * Only lists that are certainly valid JSON are read here. jansson gets a text in which a mark replaces each of them.
 * jansson reads anything unusual, and words the messages about it. numbers_read gives the same values as jansson. */
#ifndef SERVER_NUMBERS_H
#define SERVER_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBERS_DEPTH 5   /* lists within lists */
#define NUMBERS_REST 1024 /* most bytes of a body beside its lists, with the marks */
#define NUMBERS_MOST 10   /* lists of a body: a mark has one digit */

/* A list of numbers. It points into the body. */
struct numbers {
    const char *text; /* NULL: none */
    size_t length;
    int depth;                    /* of all its innermost lists, 1 to NUMBERS_DEPTH; no list is empty */
    int64_t lists[NUMBERS_DEPTH]; /* number of lists at depth 1 (always 1), at depth 2 … */
    int64_t count;                /* number of numbers */
};

/* Members with one of two keys. `depth` is the nesting depth of the member's object; the body itself is depth 1. */
struct numbers_place {
    const char *key, *other; /* `other` may be NULL */
    int depth;
};

/* Finds the place's members that are lists of numbers. Returns their number, at most `most` <= NUMBERS_MOST. Members
 * that are no lists stay in the text for jansson.
 *
 * Returns 0 also if the lists cannot be read here, and the caller then gives jansson the whole body:
 *   - a member of the place is a list that is not purely numbers, or more than `most` are lists;
 *   - a key at this depth holds an escape, so that it could be any key;
 *   - more than NUMBERS_REST bytes surround the lists. */
size_t numbers_find(const char *body, size_t length, struct numbers_place place, struct numbers *numbers, size_t most);

/* Counts of a list whose elements may be of any kind. All zero: the list is empty, or there is none. */
struct numbers_counts {
    int64_t elements; /* of the list itself */
    int64_t longest;  /* most elements of this list, or of one nested in it down to NUMBERS_DEPTH */
    int64_t values;   /* in all of its lists and objects together; an empty one is a value */
    char first;       /* first character of the first element */
};

/* Counts the list of the place's first member, by commas, quotes and brackets alone. `other` of the place is not used.
 * A key that holds an escape is not found. */
struct numbers_counts numbers_count(const char *body, size_t length, struct numbers_place place);

/* Writes the body with a mark for each list: "[0]" for numbers[0], "[1]" for the next. `n` is at most NUMBERS_MOST.
 * Returns the length. */
size_t numbers_rest(const struct numbers *numbers, size_t n, const char *body, size_t length, char rest[NUMBERS_REST]);

/* A list of an unexpected size. */
struct numbers_list {
    int64_t item, index; /* its item, and its index among the innermost lists of that item */
    int64_t size;        /* numbers in it */
};

/* The expected numbers, and where they are written. */
struct numbers_target {
    int32_t *ids;                 /* (count), or NULL */
    float *floats;                /* (count), used if `ids` is NULL */
    int64_t below;                /* ids: 0 <= id < below */
    int64_t sizes[NUMBERS_DEPTH]; /* elements of each list at depth 1, 2 …; 0: any number */
    int item_depth;               /* depth of the lists that are items; 0: `ends` is not written */
    int64_t *ends;                /* (lists[item_depth - 1]) numbers up to the end of each item */
    int64_t *n_wrong;             /* counts wrong numbers, which become -1 or NaN; NULL: the first ends the reading */
    struct numbers_list *list;    /* receives the list of an unexpected size; may be NULL */
};

/* Returns false if a list has an unexpected size, or if a number is wrong and `n_wrong` is NULL. An id is wrong if it
 * is out of range or no integer. A float is wrong if 32 bits cannot hold it. */
bool numbers_read(const struct numbers *numbers, const struct numbers_target *target);

/* The text of number `index`, 0 <= index < count. A comma, a bracket or white space follows it. */
const char *numbers_at(const struct numbers *numbers, int64_t index);

#endif
