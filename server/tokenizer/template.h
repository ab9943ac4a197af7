/* template: what is done with the tokens of a text: offsets lose their white space, and special tokens are added. */
#ifndef SERVER_TEMPLATE_H
#define SERVER_TEMPLATE_H

#include "config/config.h"

#include <jansson.h>

/* A place of the template. */
struct template_place {
    const char *text; /* (length) of the special token, in the JSON tree; NULL: the text's own tokens stand here */
    size_t length;
    int32_t id;
};

struct token_template {
    json_t *json;                  /* owns the texts */
    struct template_place *places; /* (count) */
    size_t count;
    size_t added;      /* places that are special tokens */
    bool has_places;   /* else the text's tokens stay alone */
    bool one_sequence; /* the places become one sequence, as Bert's do; TemplateProcessing keeps them apart */

    /* ByteLevel and Roberta cut white space off the offsets, before or after the places are filled. */
    bool trims_before, trims_after;
    bool prefix_before, prefix_after; /* the space in front of the first token was added, and has no offset */
};

/* Reads "post_processor"; null has no places. After success token_template_free is owed. */
int token_template_read(json_t *json, struct token_template *template, struct error *error);
void token_template_free(struct token_template *template);

#endif
