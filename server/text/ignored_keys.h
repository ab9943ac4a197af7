/* ignored_keys: names of a body's keys that have no effect on its route. The header x-ignored-keys and the log name
 * them. */
#ifndef SERVER_IGNORED_KEYS_H
#define SERVER_IGNORED_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#define IGNORED_KEYS_BYTES 256 /* of the list, with its terminator */

struct ignored_keys {
    bool strict; /* such keys are refused, and the list stays empty */
    size_t length;
    char list[IGNORED_KEYS_BYTES]; /* "parameters, input%20type, ..." in visible ASCII and spaces; terminated */
};

/* Adds a name unless the list has it. Commas, percent signs and bytes other than visible ASCII become %XX. The empty
 * name becomes two quotation marks. "..." stands for all names that do not fit. */
void ignored_keys_add(struct ignored_keys *keys, const char *name);

#endif
