/* sections: the file's "truncation" and "padding". */
#ifndef SERVER_SECTIONS_H
#define SERVER_SECTIONS_H

#include "config/config.h"

#include <jansson.h>

struct truncation_section {
    bool is_there, left;
    int64_t max_length;
};

struct pad_section {
    bool is_there, left;
    int64_t length;      /* pad to at least this many tokens. -1 if the file sets no length */
    int64_t multiple_of; /* 0 if there is no such rule */
    int32_t id;
    char *text; /* (text_length) */
    size_t text_length;
};

/* Reads the keys. A value of null means that there is no such section. `added` is the number of tokens that the
 * template adds. */
int truncation_read(const json_t *json, size_t added, struct truncation_section *truncation, struct error *error);
int padding_read(const json_t *json, struct pad_section *padding, struct error *error);
void padding_free(struct pad_section *padding);

#endif
