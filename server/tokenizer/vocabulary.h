/* vocabulary: the texts of ids, and the ids of texts. */
#ifndef SERVER_VOCABULARY_H
#define SERVER_VOCABULARY_H

#include "config/config.h"

#include <stddef.h>
#include <stdint.h>

#define VOCABULARY_ID_LIMIT ((int64_t)1 << 24) /* ids are below it, so that a file cannot ask for any memory */

struct vocabulary_entry {
    uint32_t at, length; /* in the pool; at UINT32_MAX: no text has this id */
};

/* Filled by vocabulary_add, read-only afterwards. Zeroed, it is an empty vocabulary. */
struct vocabulary {
    char *pool; /* the texts of all ids, one after the other */
    size_t pool_length, pool_capacity;
    struct vocabulary_entry *entries; /* (ids) */
    size_t ids, entries_capacity;     /* ids: the largest id + 1 */
    uint32_t *slots;                  /* (n_slots, a power of two) id + 1 of a text, at the hash of the text; 0: free */
    size_t n_slots;
    size_t count; /* number of different texts */
};

void vocabulary_free(struct vocabulary *vocabulary);

/* Adds a text. With `replace` a text that is there gets the new id as well, and the old id keeps the text. Else a
 * text or an id that is there is an error. `where` begins the message. */
int vocabulary_add(struct vocabulary *vocabulary, const char *text, size_t length, int64_t id, bool replace,
                   const char *where, struct error *error);
int vocabulary_finish(struct vocabulary *vocabulary, struct error *error); /* gives back memory that is unused */

int32_t vocabulary_id(const struct vocabulary *vocabulary, const char *text, size_t length);  /* -1: none */
const char *vocabulary_text(const struct vocabulary *vocabulary, int64_t id, size_t *length); /* NULL: none */
size_t vocabulary_bytes(const struct vocabulary *vocabulary);

/* A hash of bytes, for tables that a file fills. */
uint64_t bytes_hash(const char *bytes, size_t length);

#endif
