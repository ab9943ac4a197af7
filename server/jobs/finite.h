/* finite: finds NaN and infinities in results. An answer with one of them would be wrong, and JSON cannot express it.
 */
#ifndef SERVER_FINITE_H
#define SERVER_FINITE_H

#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

struct flaw {
    const char *output; /* its name, from the model or a constant */
    int64_t row;        /* index of its row */
};

/* Returns false if a result of the item is NaN or infinite. `flaw` then has the place of the first. Any thread. */
bool item_is_finite(const struct model *model, const struct engine_item *item, struct flaw *flaw);

#endif
