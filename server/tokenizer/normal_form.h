/* normal_form: Unicode's normal forms NFD, NFKD, NFC and NFKC. The origins of the characters are preserved
 * (aligned.h). */
#ifndef SERVER_NORMAL_FORM_H
#define SERVER_NORMAL_FORM_H

#include "server/tokenizer/aligned.h"

enum normal_form { NORMAL_FORM_D = 0, NORMAL_FORM_KD = 1, NORMAL_FORM_C = 2, NORMAL_FORM_KC = 3 };

/* A character of a decomposed text. */
struct decomposed {
    uint32_t code;
    int change;          /* the argument `change` of transform_put */
    unsigned char class; /* the canonical combining class */
};

struct normal_form_work {
    struct decomposed *items, *sorted; /* two arrays of `capacity` elements */
    size_t count, capacity;
};

void normal_form_free(struct normal_form_work *work);

/* Writes the normal form of transform->from to transform->to. Returns -1 if memory is lacking. */
int normal_form_put(enum normal_form form, const struct characters *characters, struct normal_form_work *work,
                    struct transform *transform);

#endif
