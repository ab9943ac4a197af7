/* ignored_keys: the names of those keys of a body that have no effect on its route. The header x-ignored-keys and the
 * log list them. */
#ifndef SERVER_IGNORED_KEYS_H
#define SERVER_IGNORED_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#define IGNORED_KEYS_BYTES 256 /* size of the list in bytes, including its final NUL */

struct ignored_keys {
    bool strict; /* such keys are refused, so the list stays empty */
    size_t length;
    char list[IGNORED_KEYS_BYTES]; /* the names, such as "parameters, input%20type, ...", in visible ASCII and spaces,
                                      with a final NUL */
};

/* Adds a name, unless the list contains it. Commas, percent signs and bytes other than visible ASCII become %XX. An
 * empty name becomes two quotation marks. "..." replaces all names that do not fit. */
void ignored_keys_add(struct ignored_keys *keys, const char *name);

#endif
