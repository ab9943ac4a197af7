/* precompiled: SentencePiece's table of replacements, a darts-clone double array with texts. */
#ifndef SERVER_PRECOMPILED_H
#define SERVER_PRECOMPILED_H

#include "config/config.h"
#include "server/tokenizer/aligned.h"

struct precompiled {
    char *table;       /* the decoded file member */
    size_t units;      /* of four bytes, little-endian, from table[4] on */
    const char *texts; /* (texts_length) replacements, each ended by a NUL */
    size_t texts_length;
};

/* Decodes base64. After success precompiled_free is owed. */
int precompiled_read(const char *base64, size_t length, const char *where, struct precompiled *precompiled,
                     struct error *error);
void precompiled_free(struct precompiled *precompiled);

/* Writes the text with its replacements. -1: memory is out. */
int precompiled_put(const struct precompiled *precompiled, struct transform *transform);

#endif
