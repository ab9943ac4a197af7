/* numbers: lists of numbers in a body's JSON, read where they lie, without an object for each number.
 *
 * A shortcut beside jansson, which alone says what is wrong with a body. It takes lists that are JSON without doubt,
 * and jansson gets the body with empty lists in their places; whatever is unusual is left to jansson altogether. What
 * numbers_read gives is what jansson's values would have given. */
#ifndef SERVER_NUMBERS_H
#define SERVER_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBERS_DEPTH 5   /* lists within lists */
#define NUMBERS_REST 1024 /* bytes of a body beside the lists, and of the empty ones */

/* Points into the body. */
struct numbers {
    const char *text; /* NULL: none */
    size_t length;
    int depth;                    /* of all its innermost lists, 1 to NUMBERS_DEPTH; no list is empty */
    int64_t lists[NUMBERS_DEPTH]; /* at depth 1, which is 1, at depth 2 … */
    int64_t count;                /* numbers */
};

/* Members of objects within `depth` objects and lists, the body's own being the first. */
struct numbers_place {
    const char *key, *other; /* other NULL: none */
    int depth;
};

/* Looks for members of a body; the first `most` of them at most. Returns how many there are. 0 also when one has
 * another value than such a list, or much is beside the lists, or who knows. */
size_t numbers_find(const char *body, size_t length, struct numbers_place place, struct numbers *numbers, size_t most);

/* How many elements the list of such a member has, of whatever kind: found by commas, quotes and brackets alone. 0: it
 * was not found, or is no list. *start is where its first element is. */
int64_t numbers_elements(const char *body, size_t length, struct numbers_place place, const char **start);

/* The body with [] in the places of the lists. Returns its length. */
size_t numbers_rest(const struct numbers *numbers, size_t n, const char *body, size_t length, char rest[NUMBERS_REST]);

/* A list that is not as long as it should be. */
struct numbers_list {
    int64_t item, index; /* in which item, and behind how many other lists of that item */
    int64_t size;        /* how long it is */
};

/* What is wanted of them, and where it goes. */
struct numbers_target {
    int32_t *ids;                 /* (count), or */
    float *floats;                /* (count) */
    int64_t below;                /* ids: 0 <= id < below */
    int64_t sizes[NUMBERS_DEPTH]; /* what is in each list at depth 1, 2 …; 0: any number */
    int item_depth;               /* of the lists that `ends` counts; 0: none */
    int64_t *ends;                /* (lists[item_depth - 1]): numbers up to the end of each */
    int64_t *n_wrong;             /* NULL: a wrong number ends the reading. Else they are counted, and are -1 or NaN */
    struct numbers_list *list;    /* the list that ended the reading; NULL: not asked */
};

/* False: a number or a list is not as wanted. An id is wrong when it is out of range or no integer, a float when 32
 * bits do not hold it. */
bool numbers_read(const struct numbers *numbers, const struct numbers_target *target);

/* The text of a number, by its index. */
const char *numbers_at(const struct numbers *numbers, int64_t index);

#endif
