/* template: the step of encoding a text between truncation and padding. It removes white space from offsets, and adds
 * special tokens. */
#ifndef SERVER_TEMPLATE_H
#define SERVER_TEMPLATE_H

#include "config/config.h"

#include <jansson.h>

/* A place of the template: a special token, or the tokens of the text. */
struct template_place {
    const char *text; /* text of the special token (length), in the JSON tree. NULL if this is the place of the tokens
                         of the text */
    size_t length;
    int32_t id;
};

struct token_template {
    json_t *json;                  /* the JSON tree, which contains the texts of the places */
    struct template_place *places; /* `count` places */
    size_t count;
    size_t added;      /* number of places with a special token */
    bool has_places;   /* false if no tokens are added */
    bool one_sequence; /* the places form one sequence, as with BertProcessing. With TemplateProcessing, the places stay
                          separate */

    /* ByteLevel and RobertaProcessing remove white space from the offsets, either before or after the places are
     * filled. */
    bool trims_before, trims_after;
    /* True if the pre-tokenizer adds a space before the first token. The offsets do not include this space, so it is
     * not removed from them. */
    bool prefix_before, prefix_after;
};

/* Reads the key "post_processor". If the value is null, there are no places. After success the caller must call
 * token_template_free. */
int token_template_read(json_t *json, struct token_template *template, struct error *error);
void token_template_free(struct token_template *template);

#endif
