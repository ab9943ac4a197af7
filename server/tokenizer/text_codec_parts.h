/* text_codec_parts: the struct text_codec. text_codec.c fills it, and text_encoding.c reads it. Only these two files
 * include this header. */
#ifndef SERVER_TEXT_CODEC_PARTS_H
#define SERVER_TEXT_CODEC_PARTS_H

#include "server/tokenizer/tokenizer.h"

struct text_codec {
    char *name;
    struct tokenizer *tokenizer; /* NULL if the ids are bytes */
    int offset;                  /* the id of byte 0, if the ids are bytes */
    int64_t n_ids;
    char *texts;        /* the decoded text of each id, one after another */
    uint32_t *ends;     /* (n_ids): the end of each text in `texts` */
    size_t longest;     /* length of the longest of these texts, in bytes */
    const char *mask;   /* the text by which "[MASK]" is replaced in a text. NULL if "[MASK]" stays as it is */
    size_t mask_length; /* length of `mask` in bytes */
    int64_t mask_characters;
};

/* The number of characters of a text. Bytes that are not UTF-8 count as in tokenizer_encode. */
int64_t text_characters(const char *text, size_t length);

#endif
