/* normalizer: the steps that change a text before it is split. */
#ifndef SERVER_NORMALIZER_H
#define SERVER_NORMALIZER_H

#include "server/tokenizer/aligned.h"
#include "server/tokenizer/normal_form.h"

#include "config/config.h"

#include <jansson.h>

struct normalizer_step;

/* The steps of the file, sequences taken apart. Zeroed, it has none. */
struct normalizer {
    struct normalizer_step *steps; /* (count) */
    size_t count;
};

/* Memory for a run: the text goes from one to the other. */
struct normalizer_work {
    struct aligned turns[2];
    struct normal_form_work normal_form;
};

/* Reads "normalizer"; null has no steps. After success normalizer_free is owed. */
int normalizer_read(const json_t *json, struct normalizer *normalizer, struct error *error);
void normalizer_free(struct normalizer *normalizer);
void normalizer_work_free(struct normalizer_work *work);

/* Sets *view to the normalised text, which is the old one or lies in `work` until the next run. -1: memory is out, or a
 * regular expression takes too many steps. */
int normalizer_run(const struct normalizer *normalizer, const struct characters *characters,
                   struct normalizer_work *work, struct view *view, struct error *error);

#endif
