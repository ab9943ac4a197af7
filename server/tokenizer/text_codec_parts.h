/* text_codec_parts: the codec itself, which text_codec.c opens and text_encoding.c uses. Private to both. */
#ifndef SERVER_TEXT_CODEC_PARTS_H
#define SERVER_TEXT_CODEC_PARTS_H

#include "server/tokenizer/tokenizer.h"

struct text_codec {
    char *name;
    struct tokenizer *tokenizer; /* NULL: the ids are bytes */
    int offset;                  /* of bytes */
    int64_t n_ids;
    char *texts;        /* the decoded text of each id, one after another */
    uint32_t *ends;     /* (n_ids) of each text in `texts` */
    size_t longest;     /* of the texts */
    const char *mask;   /* the text that takes the place of "[MASK]" in a text; NULL: none, it is read as it is */
    size_t mask_length; /* bytes */
    int64_t mask_characters;
};

/* The number of characters. Each maximal part that is not UTF-8 is one, as in tokenizer.h. */
int64_t text_characters(const char *text, size_t length);

#endif
