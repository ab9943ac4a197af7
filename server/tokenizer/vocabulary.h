/* vocabulary: finds the text of an id, and the id of a text. */
#ifndef SERVER_VOCABULARY_H
#define SERVER_VOCABULARY_H

#include "config/config.h"

#include <stddef.h>
#include <stdint.h>

/* Upper limit of ids (exclusive), so that a file cannot request unlimited memory. */
#define VOCABULARY_ID_LIMIT ((int64_t)1 << 24)

struct vocabulary_entry {
    uint32_t at, length; /* range of bytes in the pool. `at` is UINT32_MAX if no text has this id */
};

/* A zeroed struct is an empty vocabulary. vocabulary_add fills it. Afterwards it does not change. */
struct vocabulary {
    char *pool; /* the texts of all ids, one after another */
    size_t pool_length, pool_capacity;
    struct vocabulary_entry *entries; /* one entry for each id below `ids` */
    size_t ids, entries_capacity;     /* `ids` is the largest id + 1 */
    uint32_t *slots; /* a hash table of n_slots slots. n_slots is a power of two. A slot contains the id of a text + 1,
                        or 0 if it is free */
    size_t n_slots;
    size_t count; /* number of different texts */
};

void vocabulary_free(struct vocabulary *vocabulary);

/* Adds a text with its id. If the text already exists and `replace` is true, vocabulary_id returns the new id, and the
 * text of the old id stays unchanged. If `replace` is false, a text that already exists is an error. An id that already
 * exists is always an error. Messages begin with `where`. */
int vocabulary_add(struct vocabulary *vocabulary, const char *text, size_t length, int64_t id, bool replace,
                   const char *where, struct error *error);
int vocabulary_finish(struct vocabulary *vocabulary, struct error *error); /* frees unused memory */

/* Returns the id of a text, or -1 if the text is not in the vocabulary. */
int32_t vocabulary_id(const struct vocabulary *vocabulary, const char *text, size_t length);
/* Returns the text of an id, or NULL if no text has the id. */
const char *vocabulary_text(const struct vocabulary *vocabulary, int64_t id, size_t *length);

#endif
