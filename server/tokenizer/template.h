/* template: the last step for the tokens of a text. White space is removed from offsets, and special tokens are added.
 */
#ifndef SERVER_TEMPLATE_H
#define SERVER_TEMPLATE_H

#include "config/config.h"

#include <jansson.h>

/* A place of the template. */
struct template_place {
    const char *text; /* (length): the special token at this place, in the JSON tree. NULL if the tokens of the text
                         belong here */
    size_t length;
    int32_t id;
};

struct token_template {
    json_t *json;                  /* owns the texts */
    struct template_place *places; /* (count) */
    size_t count;
    size_t added;      /* number of places that are special tokens */
    bool has_places;   /* false if no tokens are added */
    bool one_sequence; /* the places form one sequence, as with BertProcessing. With TemplateProcessing they stay
                          separate */

    /* ByteLevel and RobertaProcessing remove white space from the offsets, before or after the places are filled. */
    bool trims_before, trims_after;
    /* A space was added in front of the first token, so it does not count in the offset. */
    bool prefix_before, prefix_after;
};

/* Reads the key "post_processor". If it is null, there are no places. After success the caller must call
 * token_template_free. */
int token_template_read(json_t *json, struct token_template *template, struct error *error);
void token_template_free(struct token_template *template);

#endif
