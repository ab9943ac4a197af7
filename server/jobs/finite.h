/* finite: finds NaN and infinities in results. An answer that contains such a number would be wrong, and JSON cannot
 * express it.
 */
#ifndef SERVER_FINITE_H
#define SERVER_FINITE_H

#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

struct flaw {
    const char *output; /* name of the output that contains the number. The string belongs to the model, or is a
                           constant */
    int64_t row;        /* index of the row that contains the number */
    bool is_channel;    /* the output is an image, whose rows are its channels */
};

/* Returns false if a result of the item is NaN or infinite. `flaw` then describes the position of the first such
 * number. Any thread may call it. */
bool item_is_finite(const struct model *model, const struct engine_item *item, struct flaw *flaw);

#endif
