/* finite: looks for NaN and infinities in what a model computed. An answer with one of them would be wrong, and JSON
 * has no word for it. */
#ifndef SERVER_FINITE_H
#define SERVER_FINITE_H

#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

struct flaw {
    const char *output; /* its name: the model's, or a constant */
    int64_t row;        /* of the output */
};

/* False: one of the item's results holds a value that is not finite; `flaw` says where the first of them stands. Any
 * thread. */
bool item_is_finite(const struct model *model, const struct engine_item *item, struct flaw *flaw);

#endif
