/* sections: the sections "truncation" and "padding" of the file. */
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
    int64_t length;      /* minimum number of tokens after padding. -1 if the file sets no length */
    int64_t multiple_of; /* the number of tokens after padding is a multiple of this. 0 if there is no such rule */
    int32_t id;
    char *text; /* text of the padding token (text_length) */
    size_t text_length;
};

/* These functions read one section each. If its value is null, there is no such section. `added` is the number of
 * tokens that the template adds. */
int truncation_read(const json_t *json, size_t added, struct truncation_section *truncation, struct error *error);
int padding_read(const json_t *json, struct pad_section *padding, struct error *error);
void padding_free(struct pad_section *padding);

#endif
