/* precompiled: SentencePiece's table of replacements. It consists of a trie, in the double array format of the library
 * darts-clone, and the replacement texts. */
#ifndef SERVER_PRECOMPILED_H
#define SERVER_PRECOMPILED_H

#include "config/config.h"
#include "server/tokenizer/aligned.h"

struct precompiled {
    char *table;  /* the decoded table */
    size_t units; /* number of units in the trie. A unit is a little-endian number of four bytes. The units begin at
                     table[4] */
    const char *texts; /* the replacements (texts_length), each followed by a NUL */
    size_t texts_length;
};

/* Decodes the table from base64. After success the caller must call precompiled_free. */
int precompiled_read(const char *base64, size_t length, const char *where, struct precompiled *precompiled,
                     struct error *error);
void precompiled_free(struct precompiled *precompiled);

/* Writes the text with its replacements. Returns -1 if memory is lacking. */
int precompiled_put(const struct precompiled *precompiled, struct transform *transform);

#endif
