/* vocabulary: the texts of ids, and the ids of texts. */
#ifndef SERVER_VOCABULARY_H
#define SERVER_VOCABULARY_H

#include "config/config.h"

#include <stddef.h>
#include <stdint.h>

#define VOCABULARY_ID_LIMIT ((int64_t)1 << 24) /* ids must be lower, so that a file cannot request unlimited memory */

struct vocabulary_entry {
    uint32_t at, length; /* place in the pool. `at` is UINT32_MAX if no text has this id */
};

/* A zeroed struct is an empty vocabulary. vocabulary_add fills it. Afterwards it does not change. */
struct vocabulary {
    char *pool; /* the texts of all ids, one after another */
    size_t pool_length, pool_capacity;
    struct vocabulary_entry *entries; /* (ids) */
    size_t ids, entries_capacity;     /* `ids` is the largest id + 1 */
    uint32_t *slots; /* hash table (n_slots), where n_slots is a power of two. A slot contains id + 1 of a text, or 0 if
                        free */
    size_t n_slots;
    size_t count; /* number of different texts */
};

void vocabulary_free(struct vocabulary *vocabulary);

/* Adds a text. If the text exists and `replace` is set, vocabulary_id returns the new id from now on, and the old id
 * keeps the text, too. Without `replace`, a text or an id that exists is an error. `where` is the start of the message.
 */
int vocabulary_add(struct vocabulary *vocabulary, const char *text, size_t length, int64_t id, bool replace,
                   const char *where, struct error *error);
int vocabulary_finish(struct vocabulary *vocabulary, struct error *error); /* frees unused memory */

/* -1 if the text is not in the vocabulary. */
int32_t vocabulary_id(const struct vocabulary *vocabulary, const char *text, size_t length);
/* NULL if no text has the id. */
const char *vocabulary_text(const struct vocabulary *vocabulary, int64_t id, size_t *length);

#endif
