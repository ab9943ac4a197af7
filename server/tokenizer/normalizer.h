/* normalizer: the steps that change a text before it is split. */
#ifndef SERVER_NORMALIZER_H
#define SERVER_NORMALIZER_H

#include "server/tokenizer/aligned.h"
#include "server/tokenizer/normal_form.h"

#include "config/config.h"

#include <jansson.h>

struct normalizer_step;

/* The steps in the file. Nested sequences of steps are flattened to one list. A zeroed struct contains no steps. */
struct normalizer {
    struct normalizer_step *steps; /* `count` steps */
    size_t count;
};

/* Memory for a run. Each step reads one of two texts and writes the other one. */
struct normalizer_work {
    struct aligned turns[2];
    struct normal_form_work normal_form;
};

/* Reads the key "normalizer". If the value is null, there are no steps. After success the caller must call
 * normalizer_free. */
int normalizer_read(const json_t *json, struct normalizer *normalizer, struct error *error);
void normalizer_free(struct normalizer *normalizer);
void normalizer_work_free(struct normalizer_work *work);

/* Sets *view to the normalised text. The result is the given text, or a text in `work` that is valid until the next
 * run. Returns -1 if memory is lacking, or if a regular expression takes too many steps. */
int normalizer_run(const struct normalizer *normalizer, const struct characters *characters,
                   struct normalizer_work *work, struct view *view, struct error *error);

#endif
