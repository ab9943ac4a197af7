/* ignored_keys: names of a body's keys that have no meaning on its route, for the header x-ignored-keys and the log. */
#ifndef SERVER_IGNORED_KEYS_H
#define SERVER_IGNORED_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#define IGNORED_KEYS_BYTES 256 /* of the list, with its terminator */

struct ignored_keys {
    bool strict; /* such a key is refused, and none is added */
    size_t length;
    char list[IGNORED_KEYS_BYTES]; /* "parameters, input%20type, ..." in visible ASCII and spaces; terminated */
};

/* Adds a name unless the list has it. Bytes that are not visible ASCII, commas and percent signs become %XX. "..."
 * stands for all names that find no room. */
void ignored_keys_add(struct ignored_keys *keys, const char *name);

#endif
