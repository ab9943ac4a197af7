/* numbers: reads lists of numbers directly from the text of a body's JSON. This is faster than jansson, which would
 * allocate an object for each number.
 *
 * Only lists that are certainly valid JSON are read here. The rest of the body is parsed by jansson. In the text for
 * jansson, a mark such as [0] replaces each list that is read here. All unusual lists are left to jansson, which also
 * writes the messages about them. numbers_read returns the same values as jansson. */
#ifndef SERVER_NUMBERS_H
#define SERVER_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBERS_DEPTH 5      /* maximum depth of nested lists */
#define NUMBERS_REST 1024    /* maximum number of bytes of a body outside its lists, including the marks */
#define NUMBERS_MAX_LISTS 10 /* maximum number of lists of a body, because a mark contains one digit */

/* A list of numbers, or of nested lists of numbers, in a body. */
struct numbers {
    const char *text; /* points to the opening bracket in the body. NULL if there is no list */
    size_t length;
    int depth; /* depth of the innermost lists, 1 to NUMBERS_DEPTH. All innermost lists have the same depth, and none is
                  empty */
    int64_t lists[NUMBERS_DEPTH]; /* lists[i] is the number of lists at depth i + 1. lists[0] is 1 */
    int64_t count;                /* number of all numbers in the list */
};

/* Describes members by their keys and by the depth of the objects that contain them. The body itself is the object of
 * depth 1. */
struct numbers_place {
    const char *const *keys; /* keys of the members. NULL ends the list */
    int least_depth, most_depth;
};

/* Finds the members of `place` that are lists of numbers. Returns their number, which is at most `most`. `most` must be
 * at most NUMBERS_MAX_LISTS. Members that are not lists stay in the text for jansson.
 *
 * Also returns 0 in the following cases, in which jansson must read the whole body:
 * - a member of `place` is a list that contains something other than numbers, or more than `most` members are lists
 * - a key at such a depth contains an escape, and could therefore be any key
 * - more than NUMBERS_REST bytes surround the lists */
size_t numbers_find(const char *body, size_t length, struct numbers_place place, struct numbers *numbers, size_t most);

/* Sizes of a list whose elements may be of any kind. All members are 0 if the list is empty or missing. */
struct numbers_counts {
    int64_t elements; /* number of elements of the list itself */
    int64_t longest;  /* largest number of elements of this list, or of a list or object in it down to NUMBERS_DEPTH */
    int64_t values; /* number of values in the list and in all nested lists and objects. An empty list or object counts
                       as one value */
    char first;     /* first character of the list's first element */
};

/* Returns the sizes of the list with this key in the body. The sizes follow from commas, quotes and brackets,
 * without a check of the JSON. A key that contains an escape is not found. */
struct numbers_counts numbers_count(const char *body, size_t length, const char *key);

/* Writes the body with a mark in place of each list: "[0]" for numbers[0], "[1]" for numbers[1]. `n` is at most
 * NUMBERS_MAX_LISTS. Returns the length. */
size_t numbers_rest(const struct numbers *numbers, size_t n, const char *body, size_t length, char rest[NUMBERS_REST]);

/* Describes an innermost list of an unexpected size. */
struct numbers_list {
    /* The index of the item that contains the list, and the list's index among the innermost lists of this item. */
    int64_t item, index;
    int64_t size; /* number of the list's elements */
};

/* The expected numbers, and the memory to which they are written. */
struct numbers_target {
    int32_t *ids;  /* (count), or NULL if the numbers are floats */
    float *floats; /* (count), used if `ids` is NULL */
    int64_t below; /* upper limit of ids (exclusive): 0 <= id < below */
    int64_t none;  /* a negative number that stands for no id, and is stored as -1. 0 if there is no such number */
    /* sizes[i] is the expected number of elements of each list at depth i + 1. 0 allows any number of elements. */
    int64_t sizes[NUMBERS_DEPTH];
    int item_depth;   /* depth of the lists that are items of the request. If it is 0, `ends` is not written */
    int64_t *ends;    /* (lists[item_depth - 1]): ends[i] is the number of numbers in the items 0 to i together */
    int64_t *n_wrong; /* incremented for each wrong number, which is stored as -1 or NaN. If it is NULL,
                         reading ends at the first wrong number */
    struct numbers_list *list; /* describes the first list of an unexpected size. May be NULL */
};

/* Returns false if a list has an unexpected size, or if a number is wrong and `n_wrong` is NULL. An id is wrong if it
 * is out of range or not an integer. A float is wrong if it exceeds the range of 32 bit floats. */
bool numbers_read(const struct numbers *numbers, const struct numbers_target *target);

/* Returns the position of number `index` in the body, 0 <= index < count. A comma, a bracket or white space follows the
 * number. */
const char *numbers_at(const struct numbers *numbers, int64_t index);

#endif
