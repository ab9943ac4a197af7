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
    int64_t length;      /* at least so many tokens; -1: as many as there are */
    int64_t multiple_of; /* 0: any number */
    int32_t id;
    char *text; /* (text_length) */
    size_t text_length;
};

/* null is not there. `added` is the template's number of tokens. */
int truncation_read(const json_t *json, size_t added, struct truncation_section *truncation, struct error *error);
int padding_read(const json_t *json, struct pad_section *padding, struct error *error);
void padding_free(struct pad_section *padding);

#endif
