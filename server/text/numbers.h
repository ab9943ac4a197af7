/* numbers: reads lists of numbers directly from the text of a body's JSON. jansson would allocate an object for each
 * number.
 *
 * Only lists that are certainly valid JSON are read here. In the text for jansson, a mark such as [0] replaces each of
 * these lists. jansson reads all unusual lists, so the messages about them come from jansson. numbers_read returns the
 * same values as jansson. */
#ifndef SERVER_NUMBERS_H
#define SERVER_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBERS_DEPTH 5   /* most levels of nested lists */
#define NUMBERS_REST 1024 /* most bytes of a body outside of its lists, including the marks */
#define NUMBERS_MOST 10   /* most lists of a body, because a mark has one digit */

/* A list of numbers. It points into the body. */
struct numbers {
    const char *text; /* NULL if there is no list */
    size_t length;
    int depth; /* depth of the innermost lists, 1 to NUMBERS_DEPTH. All have the same depth. No list is empty */
    int64_t lists[NUMBERS_DEPTH]; /* number of lists at each depth, beginning with depth 1, where it is 1 */
    int64_t count;                /* number of all numbers */
};

/* The members with one of these keys, in objects of certain depths. The body itself is the object of depth 1. */
struct numbers_place {
    const char *const *keys; /* ends with NULL */
    int least_depth, most_depth;
};

/* Finds those members of `place` that are lists of numbers. Returns their number, at most `most` <= NUMBERS_MOST.
 * Members that are not lists stay in the text for jansson.
 *
 * Also returns 0 in the following cases, in which jansson must read the whole body:
 *   - a member of `place` is a list that contains other things than numbers, or more than `most` members are lists
 *   - a key at such a depth contains an escape, so it could be any key
 *   - more than NUMBERS_REST bytes surround the lists */
size_t numbers_find(const char *body, size_t length, struct numbers_place place, struct numbers *numbers, size_t most);

/* Counts of a list whose elements may be of any kind. All are 0 if the list is empty or missing. */
struct numbers_counts {
    int64_t elements; /* elements of the list itself */
    int64_t longest;  /* largest number of elements of this list, and of all lists nested in it down to NUMBERS_DEPTH */
    int64_t values;   /* number of values in all nested lists and objects. An empty list or object counts as a value */
    char first;       /* first character of the first element */
};

/* Counts the list with this key in the body, only by looking at commas, quotes and brackets. A key that contains an
 * escape is not found. */
struct numbers_counts numbers_count(const char *body, size_t length, const char *key);

/* Writes the body with a mark for each list: "[0]" for numbers[0], "[1]" for the next. `n` is at most NUMBERS_MOST.
 * Returns the length. */
size_t numbers_rest(const struct numbers *numbers, size_t n, const char *body, size_t length, char rest[NUMBERS_REST]);

/* Describes a list of an unexpected size. */
struct numbers_list {
    /* The item that contains the list, and the list's index among the innermost lists of this item. */
    int64_t item, index;
    int64_t size; /* number of its elements */
};

/* Which numbers are expected, and the memory to which they are written. */
struct numbers_target {
    int32_t *ids;  /* (count), or NULL */
    float *floats; /* (count), used if `ids` is NULL */
    int64_t below; /* limit of ids: 0 <= id < below */
    int64_t none;  /* a negative number that stands for no id, and is stored as -1. 0 if there is no such number */
    /* Expected elements of each list, by depth from 1 on. 0 allows any number of elements. */
    int64_t sizes[NUMBERS_DEPTH];
    int item_depth;   /* depth of the lists that are items. If it is 0, `ends` is not written */
    int64_t *ends;    /* (lists[item_depth - 1]): ends[i] is the number of all numbers in the items 0 to i */
    int64_t *n_wrong; /* counts wrong numbers, which are stored as -1 or NaN. If it is NULL, reading ends at the first
                         wrong number */
    struct numbers_list *list; /* receives the list of an unexpected size. May be NULL */
};

/* Returns false if a list has an unexpected size, or if a number is wrong and `n_wrong` is NULL. An id is wrong if it
 * is out of range or not an integer. A float is wrong if it exceeds the range of 32 bit floats. */
bool numbers_read(const struct numbers *numbers, const struct numbers_target *target);

/* A pointer to the text of number `index`, 0 <= index < count. A comma, a bracket or white space follows the number. */
const char *numbers_at(const struct numbers *numbers, int64_t index);

#endif
